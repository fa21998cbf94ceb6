#include "client/agent/device.h"

#include "crypto/csprng.h"
#include "shared/base/check.h"

namespace skep::agent {
namespace {

constexpr std::uint64_t kSteps = std::uint64_t{1} << 53;

// What a task may be declined with; the rest is for this device's own log.
Error AsReason(const Error& why) {
  if (why.code >= 7401 && why.code <= 7414) return why;
  const bool is_missing = why.code == 1201 || why.code == 1203 || why.code == 1102;
  return Error{is_missing ? 7402 : 7414, why.message, why.hint};
}

}  // namespace

bool AgentDevice::HasDataFor(const wire::Plan& plan, ClientNumber client) const {
  return data_ && data_->spec == plan.data && data_->client == client &&
         data_->text_length == TextLengthOf(plan);
}

void AgentDevice::ForgetAll() {
  data_.reset();
  model_.reset();
  plan_.reset();
  plan_hash_ = {};
}

Status AgentDevice::Verify(const wire::SignedManifest& manifest) {
  return VerifyManifest(identity_, manifest, clock_());
}

Result<std::uint32_t> AgentDevice::CountExamples(const wire::Plan& plan, wire::TaskKind kind) {
  if (refusal_) return *refusal_;
  if (!data_ || data_->spec != plan.data) return Error{7402, "no data were read", ""};
  if (!data_->rows.has_value()) return AsReason(data_->rows.error());
  const client::LocalData& rows = (*data_->rows)->rows;
  const std::size_t count =
      kind == wire::TaskKind::kEvaluate ? rows.test.size() : rows.train.size();
  if (count == 0) {
    return Error{7402,
                 kind == wire::TaskKind::kEvaluate ? "no rows are held out for evaluation"
                                                   : "no rows to train on",
                 ""};
  }
  return static_cast<std::uint32_t>(count);
}

UpdateId AgentDevice::NewUpdateId() {
  // Without randomness nothing here can go on safely.
  const Result<UpdateId> id = crypto::RandomId<UpdateId>();
  SKEP_CHECK(id.has_value());
  return *id;
}

double AgentDevice::Uniform() {
  const Result<std::uint64_t> step = crypto::RandomBelow(kSteps);
  SKEP_CHECK(step.has_value());
  return static_cast<double>(*step) / static_cast<double>(kSteps);
}

std::shared_ptr<const wire::Plan> AgentDevice::CachedPlan(const Hash32& sha256) {
  return sha256 == plan_hash_ ? plan_ : nullptr;
}

void AgentDevice::KeepPlan(const Hash32& sha256, std::shared_ptr<const wire::Plan> plan) {
  plan_hash_ = sha256;
  plan_ = std::move(plan);
}

std::optional<client::Body> AgentDevice::CachedModel(const Hash32& sha256) {
  if (!model_ || model_->sha256 != sha256) return std::nullopt;
  return model_;
}

}  // namespace skep::agent
