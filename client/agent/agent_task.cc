// What the application is asked, and does: on the thread of Run.
#include <utility>

#include "client/agent/agent.h"
#include "client/agent/private_state.h"
#include "client/agent/work.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"
#include "shared/wire/codec.h"

namespace skep::agent {
namespace {

constexpr Nanoseconds kWatchEvery = std::chrono::seconds(1);

// Bytes move, and the application's thread has nothing to do.
bool IsTransferring(client::SessionState state) {
  using State = client::SessionState;
  return state == State::kDownloading || state == State::kUploading;
}

}  // namespace

void Agent::Look(std::function<void(const Conditions&)> then) {
  caller_.Post([this, then = std::move(then)] {
    loop_.Post([then, conditions = host_.Look()] { then(conditions); });
  });
}

// Once a second while bytes move: the device may have to leave. What is finished is kept.
void Agent::Watch() {
  if (is_watching_ || !IsTransferring(session_->state())) return;
  is_watching_ = true;
  loop_.After(kWatchEvery, [this] {
    Look([this](const Conditions& conditions) {
      is_watching_ = false;
      if (outcome_ || !IsTransferring(session_->state())) return;
      const Status fit = CheckEligible(settings_.eligibility, conditions);
      if (fit.has_value()) return Watch();
      Leave(fit.error());
    });
  });
}

// In the middle of a transfer, as if the connection were lost.
void Agent::Leave(const Error& why) {
  if (!settings_.once) return CutOff(why);
  so_far_.retry_after = RestAfter(why);
  Feed(client::Stop{});
  Conclude(why.code, why.message);
}

// Whether the session would now ask what only the application knows. It is asked then.
bool Agent::AsksHost(const wire::Message& message) {
  if (const auto* offer = std::get_if<wire::TaskOffer>(&message)) {
    if (session_->state() != client::SessionState::kPolling) return false;
    Result<wire::Manifest> manifest = wire::DecodeManifest(offer->manifest.payload);
    if (!manifest.has_value()) return false;
    offered_ = {.manifest = std::move(manifest).value(), .client = offer->client, .plan = nullptr};
    Ask({offered_.manifest, offered_.client, device_.CachedPlan(offered_.manifest.plan_sha256)});
    return true;
  }
  const auto* reply = std::get_if<wire::PlanReply>(&message);
  if (reply == nullptr || session_->state() != client::SessionState::kDeciding) return false;
  if (Sha256::Of(reply->plan) != reply->plan_sha256) return false;
  Result<wire::Plan> plan = wire::DecodePlan(reply->plan);
  if (!plan.has_value()) return false;
  cache_.Complete(reply->plan_sha256, reply->plan);
  Ask({offered_.manifest, offered_.client,
       std::make_shared<const wire::Plan>(std::move(plan).value())});
  return true;
}

void Agent::Ask(OfferedTask task) {
  const std::uint64_t question = ++question_;
  caller_.Post([this, question, task = std::move(task)] {
    Answer answer{.question = question, .conditions = host_.Look(), .examples = {}};
    if (task.plan != nullptr) answer.examples = host_.Count(task);
    loop_.Post([this, answer = std::move(answer)] { OnAnswer(answer); });
  });
}

void Agent::OnAnswer(const Answer& answer) {
  // The connection that brought the question may be gone.
  if (outcome_ || answer.question != question_ || held_.empty()) return;
  device_.Refuse(Refusal(offered_.manifest, answer.conditions));
  if (answer.examples) device_.Give(*answer.examples);
  // What waited goes the usual way again; a second plan may have to wait again.
  std::deque<wire::Message> held = std::exchange(held_, {});
  Take(std::move(held.front()));
  held.pop_front();
  while (!held.empty() && link_ != nullptr && is_attached_) {
    wire::Message message = std::move(held.front());
    held.pop_front();
    OnMessage(std::move(message));
    if (held_.empty()) continue;
    for (wire::Message& behind : held) held_.push_back(std::move(behind));
    return;
  }
}

// What the device says about an offer before the session judges it.
std::optional<Error> Agent::Refusal(const wire::Manifest& manifest, const Conditions& conditions) {
  const Now now = loop_.Clock();
  Status fit = CheckEligible(settings_.eligibility, conditions);
  if (!fit.has_value()) return std::move(fit).error();
  const auto rest = std::chrono::duration_cast<Milliseconds>(settings_.caps.between_runs);
  // A time in the future is one of a clock that was set back since.
  const bool is_early =
      last_work_ <= now.wall && now.wall < last_work_ + static_cast<WallMs>(rest.count());
  if (is_early) {
    return Error{7409, "the last contribution was less than limits.between_runs ago", ""};
  }
  const bool is_training = manifest.kind == wire::TaskKind::kTrain;
  const std::uint64_t needed = manifest.model_bytes * (is_training ? 2 : 1);
  fit = CheckDayTraffic(state_.today, needed, settings_.caps.bytes_per_day, now.wall);
  if (!fit.has_value()) return std::move(fit).error();
  // What can come again goes first.
  if (storage_.BytesUsed() + needed > settings_.caps.storage) cache_.ShrinkTo(0);
  if (storage_.BytesUsed() + needed > settings_.caps.storage ||
      storage_.BytesFree() < needed + needed / 8) {
    return Error{7405, "no room on disk for the update", "free space, or raise limits.storage"};
  }
  return std::nullopt;
}

void Agent::Do(client::StartTraining& task) {
  if (job_ != nullptr) job_->gate.Stop();  // its result is not wanted any more
  job_.reset(new Job{.task = std::move(task),
                     .gate = TaskGate(settings_.caps.cpu, settings_.eligibility, host_, caller_),
                     .known_runs = {}});
  for (const client::SeenTask& seen : session_->memory().seen) job_->known_runs.push_back(seen.run);
  caller_.Post([this, job = job_] {
    loop_.Post([this, job, done = std::make_shared<Trained>(Work(*job))] {
      if (job_ == job) job_.reset();
      OnTrained(std::move(*done));
    });
  });
}

// On the application's thread: has the update on disk before anybody hears of it.
Agent::Trained Agent::Work(Job& job) {
  const wire::Manifest& manifest = job.task.manifest;
  Trained trained{
      .effort = {.task = {manifest.run_id, manifest.round, manifest.attempt, manifest.kind},
                 .report = {},
                 .seconds = 0,
                 .bytes = 0},
      .worked = {},
      .damaged = {}};
  if (Status fetched = FetchPrivate(job, trained.damaged); !fetched.has_value()) {
    trained.worked.update = Error{7405, fetched.error().message, ""};
    return trained;
  }
  const SteadyTime began = ReadClock().steady;
  trained.worked = host_.Work(job.task, job.gate);
  const Nanoseconds took = ReadClock().steady - began;
  trained.effort.report = trained.worked.report;
  trained.effort.seconds = Seconds(took);
  if (!trained.worked.update.has_value()) return trained;
  client::PendingUpdate& update = *trained.worked.update;
  update.id = device_.NewUpdateId();
  update.train_ms =
      static_cast<std::uint32_t>(std::chrono::duration_cast<Milliseconds>(took).count());
  trained.effort.bytes = update.body.bytes->size();
  const Status stored = StoreWork(job, update);
  if (!stored.has_value()) trained.worked.update = Error{7405, stored.error().message, ""};
  return trained;
}

// The tensors of the model that stay here, as the latest published model with an update of this
// device left them.
Status Agent::FetchPrivate(Job& job, std::vector<std::string>& damaged) {
  const model::Layout& layout = *job.task.plan->model.layout();
  if (layout.private_values() == 0) return Ok();
  SKEP_ASSIGN(PrivateState state, GoOnFrom(storage_, job.task.manifest.run_id,
                                           job.task.last_included, layout, job.known_runs));
  job.task.own = std::move(state.tensors);
  damaged = std::move(state.damaged);
  return Ok();
}

// What the update leaves behind comes first: the update is sent by whoever finds it.
Status Agent::StoreWork(const Job& job, const client::PendingUpdate& update) {
  if (update.own != nullptr) {
    SKEP_TRY(StorePrivate(storage_, update.task.run_id, update.id, *job.task.plan->model.layout(),
                          update.own));
  }
  return StoreUpdate(storage_, update);
}

// The task has failed, and the aggregator is told so.
void Agent::OnDeviceFailed(const Error& failure, bool is_required) {
  if (!is_required) {
    return log_.Warning(failure.code, failure.message + "; later tasks are trained on the CPU");
  }
  log_.Failure(failure.code, failure.message);
  broken_device_ = failure;
  Feed(client::Stop{});
}

void Agent::OnTrained(Trained trained) {
  if (outcome_) return;
  const wire::TaskRef task = trained.effort.task;
  for (const std::string& path : trained.damaged) {
    log_.Warning(4010, path + " was damaged and is removed: norm layers start anew");
  }
  std::optional<UpdateId> id;
  if (trained.worked.update.has_value()) id = trained.worked.update->id;
  last_effort_ = trained.effort;
  const std::optional<Error> trouble =
      id ? std::nullopt : std::optional<Error>(trained.worked.update.error());
  Feed(client::TrainingDone{.update = std::move(trained.worked.update), .task = task});
  // The aggregator learns less than that; the outcome says it as it is.
  if (trouble) last_trouble_ = trouble->code;
  if (trouble) last_trouble_text_ = trouble->message;
  if (trained.worked.device_failure && !outcome_) {
    OnDeviceFailed(*trained.worked.device_failure, trained.worked.is_device_required);
  }
  if (!id || kept_ == id) return;
  // Nobody wants it any more: its round has closed, or its time was over.
  const Status dropped = DropUpdate(storage_, task);
  if (!dropped.has_value()) log_.Failure(dropped.error().code, dropped.error().message);
}

}  // namespace skep::agent
