// LocalTrainer: the library's own trainer, on the device that was chosen for as long as it works.
//
// Made at the first task and kept between tasks. One thread. Source: docs/gpu.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/device_trainer.h"
#include "client/trainer.h"
#include "kernels/backend.h"
#include "shared/base/result.h"

namespace skep::agent {

// Where it trains.
struct TrainingDevice {
  std::shared_ptr<kernels::DeviceApi> api{};  // null: the CPU
  std::uint64_t budget_bytes = 0;
  // Whether it must be this one: the process ends when it fails. Otherwise the task fails and later
  // ones are trained on the CPU.
  bool is_required = false;
};

class LocalTrainer {
 public:
  LocalTrainer(TrainingDevice device, kernels::Isa isa) : device_(std::move(device)), isa_(isa) {}

  [[nodiscard]] client::Trainer& Get();
  // What the device failed with during the last task. It is not used again.
  [[nodiscard]] std::optional<Error> TakeFailure();
  [[nodiscard]] const TrainingDevice& device() const { return device_; }
  [[nodiscard]] bool is_on_device() const { return device_.api != nullptr && !is_lost_; }
  // Gives its memory back, until Get.
  void Rest();

 private:
  TrainingDevice device_;
  kernels::Isa isa_;
  std::unique_ptr<client::Trainer> trainer_;
  client::DeviceTrainer* on_device_ = nullptr;  // trainer_, if it is one
  bool is_lost_ = false;
};

}  // namespace skep::agent
