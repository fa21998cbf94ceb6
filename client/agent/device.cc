#include "client/agent/device.h"

#include "crypto/csprng.h"
#include "shared/base/check.h"
#include "shared/wire/codec.h"

namespace skep::agent {
namespace {

constexpr std::uint64_t kSteps = std::uint64_t{1} << 53;

}  // namespace

void AgentDevice::ForgetAll() {
  model_.reset();
  plan_.reset();
  plan_hash_ = {};
}

Status AgentDevice::Verify(const wire::SignedManifest& manifest) {
  return VerifyManifest(identity_, manifest, clock_());
}

Result<std::uint32_t> AgentDevice::CountExamples(const wire::Plan&, wire::TaskKind) {
  if (refusal_) return *refusal_;
  return examples_;
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

// What is damaged on disk is removed and comes again.
std::shared_ptr<const wire::Plan> AgentDevice::CachedPlan(const Hash32& sha256) {
  if (sha256 == plan_hash_) return plan_;
  const Result<std::optional<Bytes>> found = cache_.Find(sha256);
  if (!found.has_value() || !found->has_value()) return nullptr;
  Result<wire::Plan> plan = wire::DecodePlan(**found);
  if (!plan.has_value()) return nullptr;
  KeepPlan(sha256, std::make_shared<const wire::Plan>(std::move(plan).value()));
  return plan_;
}

void AgentDevice::KeepPlan(const Hash32& sha256, std::shared_ptr<const wire::Plan> plan) {
  plan_hash_ = sha256;
  plan_ = std::move(plan);
}

std::optional<client::Body> AgentDevice::CachedModel(const Hash32& sha256) {
  if (model_ && model_->sha256 == sha256) return model_;
  Result<std::optional<Bytes>> found = cache_.Find(sha256);
  if (!found.has_value() || !found->has_value()) return std::nullopt;
  model_ = client::Body{std::make_shared<const Bytes>(std::move(**found)), sha256};
  return model_;
}

}  // namespace skep::agent
