// Offers: the checks of a manifest and of a task in the order of protocol section 6.2, and the
// answer to them.
#include <algorithm>
#include <tuple>
#include <utility>

#include "client/session_impl.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"
#include "shared/wire/codec.h"

namespace skep::client {
namespace {

constexpr std::int64_t kMaxIssuedAheadMs = 10 * 60 * 1000;
constexpr std::size_t kMaxSeenRuns = 32;

template <class Value>
bool Contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Numbers that a TaskDecline may carry for what a device found out about itself.
int DeviceCode(int code) {
  const bool is_known =
      (code >= 7401 && code <= 7414) || code == 6001 || code == 2219 || code == 6203;
  return is_known ? code : 7401;
}

}  // namespace

void Session::Impl::On(wire::TaskOffer& offer) {
  if (!std::holds_alternative<Polling>(phase_)) {
    Contradiction("a task that was not asked for");
    return;
  }
  ResetBackOff();
  const Status verified = device_.Verify(offer.manifest);
  Result<wire::Manifest> manifest = wire::DecodeManifest(offer.manifest.payload);
  if (!manifest) {
    Contradiction("a manifest that cannot be read");
    return;
  }
  Task task;
  task.manifest = std::move(manifest).value();
  task.client = offer.client;
  task.last_included = offer.last_included;
  task.report_within = Milliseconds(offer.report_within_ms);
  const wire::TaskRef ref = task.Ref();
  if (!verified) return Decline(ref, verified.error());
  if (const Status checked = CheckManifest(task.manifest); !checked) {
    return Decline(ref, checked.error());
  }
  if (const SeenTask* later = LaterThan(task.manifest)) {
    return Decline(ref, Error{2217, "a later round of this run was seen before", ""},
                   later->manifest);
  }
  Remember(task.manifest, std::move(offer.manifest));
  if (task.manifest.model_bytes > config_.max_model_bytes) {
    return Decline(ref, Error{7404, "the model is larger than this device allows", ""});
  }
  task.wire_plan = device_.CachedPlan(task.manifest.plan_sha256);
  if (task.wire_plan) return Decide(std::move(task));

  const Hash32 plan = task.manifest.plan_sha256;
  Enter(Deciding{std::move(task)});
  asked_for_plan_ = true;
  Say(wire::PlanRequest{plan});
  ArmDeadline(Milliseconds(offer.offer_ttl_ms));
}

void Session::Impl::On(const wire::PlanReply& reply) {
  auto* deciding = std::get_if<Deciding>(&phase_);
  if (deciding == nullptr || reply.plan_sha256 != deciding->task.manifest.plan_sha256) {
    // The plan of an offer that has ended meanwhile is not wanted any more.
    if (!asked_for_plan_) Contradiction("a plan that was not asked for");
    return;
  }
  Task task = std::move(deciding->task);
  const wire::TaskRef ref = task.Ref();
  if (reply.plan.size() != task.manifest.plan_bytes ||
      Sha256::Of(reply.plan) != task.manifest.plan_sha256) {
    return Decline(ref, Error{2218, "the plan is not the one that the manifest names", ""});
  }
  Result<wire::Plan> plan = wire::DecodePlan(reply.plan);
  if (!plan) return Decline(ref, Error{2219, std::move(plan).error().message, ""});
  task.wire_plan = std::make_shared<const wire::Plan>(std::move(plan).value());
  device_.KeepPlan(task.manifest.plan_sha256, task.wire_plan);
  Decide(std::move(task));
}

Status Session::Impl::CheckManifest(const wire::Manifest& manifest) const {
  if (config_.federation && manifest.federation_id != *config_.federation) {
    return Error{2216, "the manifest belongs to another federation", ""};
  }
  const std::int64_t now = static_cast<std::int64_t>(now_.wall) + clock_offset_ms_;
  const auto issued = static_cast<std::int64_t>(manifest.issued_at_ms);
  const auto expires = static_cast<std::int64_t>(manifest.expires_at_ms);
  if (now > expires) return Error{2215, "the manifest has expired", ""};
  if (issued - now > kMaxIssuedAheadMs) return Error{2215, "the manifest is from the future", ""};
  return Ok();
}

const SeenTask* Session::Impl::LaterThan(const wire::Manifest& manifest) const {
  for (const SeenTask& seen : memory_.seen) {
    if (seen.run != manifest.run_id) continue;
    const auto offered = std::tie(manifest.epoch, manifest.round, manifest.kind, manifest.attempt);
    const auto highest = std::tie(seen.epoch, seen.round, seen.kind, seen.attempt);
    return offered < highest ? &seen : nullptr;
  }
  return nullptr;
}

void Session::Impl::Remember(const wire::Manifest& manifest, wire::SignedManifest signed_manifest) {
  if (manifest.kind == wire::TaskKind::kRehearse) return;
  std::vector<SeenTask>& seen = memory_.seen;
  const auto same_run = [&](const SeenTask& one) { return one.run == manifest.run_id; };
  seen.erase(std::remove_if(seen.begin(), seen.end(), same_run), seen.end());
  if (seen.size() == kMaxSeenRuns) seen.erase(seen.begin());
  seen.push_back({manifest.run_id, manifest.epoch, manifest.round, manifest.kind, manifest.attempt,
                  std::move(signed_manifest)});
  ++memory_.revision;
}

void Session::Impl::Decide(Task task) {
  if (const Status checked = CheckTask(task); !checked) {
    return Decline(task.Ref(), checked.error());
  }
  Accept(std::move(task));
}

Status Session::Impl::CheckTask(Task& task) {
  const wire::Manifest& manifest = task.manifest;
  const bool is_training = manifest.kind == wire::TaskKind::kTrain;
  if (is_training && std::none_of(manifest.encodings.begin(), manifest.encodings.end(),
                                  [&](wire::Encoding encoding) {
                                    return Contains(config_.encodings, encoding);
                                  })) {
    return Error{2112, "no encoding that both sides know", ""};
  }
  if (!is_training && manifest.kind != wire::TaskKind::kEvaluate) {
    return Error{2219, "a kind of task that was not asked for", ""};
  }
  if (manifest.population != config_.population) {
    return Error{2219, "a task of another population", ""};
  }
  if (memory_.client && *memory_.client != task.client) {
    return Error{2219,
                 "offered as client " + std::to_string(task.client) + " but known as client " +
                     std::to_string(*memory_.client),
                 ""};
  }
  SKEP_TRY(CheckPlan(task));
  return CheckExamples(task);
}

Status Session::Impl::CheckPlan(Task& task) {
  const Hash32& hash = task.manifest.plan_sha256;
  if (last_plan_ != nullptr && plan_hash_ == hash) {
    task.plan = last_plan_;
  } else {
    task.plan = device_.CachedTrainingPlan(hash);
  }
  if (task.plan == nullptr) {
    SKEP_ASSIGN(TrainingPlan plan, ReadTrainingPlan(*task.wire_plan));
    task.plan = std::make_shared<const TrainingPlan>(std::move(plan));
    device_.KeepTrainingPlan(hash, task.plan);
  }
  last_plan_ = task.plan;
  plan_hash_ = hash;
  const model::Layout& layout = *task.plan->model.layout();
  if (layout.hash() != task.manifest.layout_sha256 ||
      layout.model_values() * sizeof(float) != task.manifest.model_bytes) {
    return Error{2219, "plan and manifest name different layouts", ""};
  }
  if (layout.update_values() * sizeof(float) > config_.max_update_bytes) {
    return Error{7404, "the update is larger than this device allows", ""};
  }
  return Ok();
}

Status Session::Impl::CheckExamples(const Task& task) {
  Result<std::uint32_t> examples = device_.CountExamples(*task.wire_plan, task.manifest.kind);
  if (!examples) {
    const Error& why = examples.error();
    return Error{DeviceCode(why.code), why.message, why.hint};
  }
  if (*examples == 0) return Error{7402, "no examples for this task", ""};
  const bool examples_weigh =
      task.manifest.kind != wire::TaskKind::kTrain || !task.plan->uniform_weighting;
  if (examples_weigh && *examples > task.manifest.max_weight) {
    return Error{7413,
                 std::to_string(*examples) + " examples, the run allows a weight of " +
                     std::to_string(task.manifest.max_weight),
                 "raise admission.max_weight of the run"};
  }
  return Ok();
}

void Session::Impl::Decline(const wire::TaskRef& task, const Error& why,
                            std::optional<wire::SignedManifest> evidence) {
  Tell({.kind = Note::Kind::kDeclined,
        .task = task,
        .code = why.code,
        .text = why.hint.empty() ? why.message : why.message + "; " + why.hint});
  Say(wire::TaskDecline{task, static_cast<std::uint32_t>(why.code), std::move(evidence)});
  Enter(Idle{});
  Next();
}

void Session::Impl::Accept(Task task) {
  const wire::TaskRef ref = task.Ref();
  if (!memory_.client) {
    memory_.client = task.client;
    ++memory_.revision;
  }
  Tell({.kind = Note::Kind::kOffer, .task = ref});
  Say(wire::TaskAccept{ref});
  std::optional<Body> model = device_.CachedModel(task.manifest.model_sha256);
  if (model) return Train(std::move(task), std::move(*model));
  Enter(Downloading{std::move(task)});
  RequestModel();
}

}  // namespace skep::client
