#include "client/agent/local_trainer.h"

namespace skep::agent {

client::Trainer& LocalTrainer::Get() {
  if (trainer_ != nullptr) return *trainer_;
  if (!is_on_device()) {
    trainer_ = client::MakeBuiltInTrainer(isa_);
    return *trainer_;
  }
  auto made = std::make_unique<client::DeviceTrainer>(client::DeviceTrainerSetup{
      .device = device_.api, .budget_bytes = device_.budget_bytes, .isa = isa_});
  on_device_ = made.get();
  trainer_ = std::move(made);
  return *trainer_;
}

std::optional<Error> LocalTrainer::TakeFailure() {
  if (on_device_ == nullptr || !on_device_->failure()) return std::nullopt;
  std::optional<Error> failure = on_device_->failure();
  Rest();
  is_lost_ = true;
  return failure;
}

void LocalTrainer::Rest() {
  on_device_ = nullptr;
  trainer_.reset();
}

}  // namespace skep::agent
