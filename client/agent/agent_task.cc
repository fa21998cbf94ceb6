// Data and training: what takes long, on the worker's thread.
#include <utility>

#include <fmt/format.h>

#include "client/agent/agent.h"
#include "client/agent/conditions.h"
#include "client/agent/private_state.h"
#include "client/agent/settings.h"
#include "client/agent/work.h"
#include "client/update_pipeline.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"
#include "shared/wire/codec.h"

namespace skep::agent {

// What the device knows about an offer before the session judges it.
void Agent::Offer(wire::TaskOffer& offer) {
  offered_as_ = offer.client;
  const auto per_run = std::chrono::duration_cast<Milliseconds>(settings_.config.limits.per_run);
  if (per_run.count() > 0 && offer.report_within_ms > per_run.count()) {
    offer.report_within_ms = static_cast<std::uint32_t>(per_run.count());
  }
  const Result<wire::Manifest> manifest = wire::DecodeManifest(offer.manifest.payload);
  device_.Refuse(manifest.has_value() ? Refusal(*manifest) : std::nullopt);
}

std::optional<Error> Agent::Refusal(const wire::Manifest& manifest) const {
  const config::ClientConfig& config = settings_.config;
  const Now now = loop_.Clock();
  Status fit = CheckEligible(EligibilityOf(config), ProbeConditions());
  if (!fit.has_value()) return std::move(fit).error();
  const auto rest = std::chrono::duration_cast<Milliseconds>(config.limits.between_runs);
  if (now.wall < last_work_ + static_cast<WallMs>(rest.count())) {
    return Error{7409, "the last contribution was less than limits.between_runs ago", ""};
  }
  const bool is_training = manifest.kind == wire::TaskKind::kTrain;
  const std::uint64_t needed = manifest.model_bytes * (is_training ? 2 : 1);
  fit = CheckDayTraffic(state_.today, needed, config.limits.bytes_per_day, now.wall);
  if (!fit.has_value()) return std::move(fit).error();
  if (storage_.BytesUsed() + needed > config.limits.storage ||
      storage_.BytesFree() < needed + needed / 8) {
    return Error{7405, "no room on disk for the update", "free space, or raise limits.storage"};
  }
  return std::nullopt;
}

// Whether the session would now ask for rows that are not read yet. Reading begins then.
bool Agent::WaitsForData(const wire::Message& message) {
  if (const auto* reply = std::get_if<wire::PlanReply>(&message)) {
    if (session_->state() != client::SessionState::kDeciding) return false;
    if (Sha256::Of(reply->plan) != reply->plan_sha256) return false;
    const Result<wire::Plan> plan = wire::DecodePlan(reply->plan);
    if (!plan.has_value() || device_.HasDataFor(*plan, offered_as_)) return false;
    LoadData(*plan);
    return true;
  }
  const auto* offer = std::get_if<wire::TaskOffer>(&message);
  if (offer == nullptr || session_->state() != client::SessionState::kPolling) return false;
  const Result<wire::Manifest> manifest = wire::DecodeManifest(offer->manifest.payload);
  if (!manifest.has_value()) return false;
  const auto plan = device_.CachedPlan(manifest->plan_sha256);
  if (plan == nullptr || device_.HasDataFor(*plan, offered_as_)) return false;
  LoadData(*plan);
  return true;
}

void Agent::LoadData(const wire::Plan& plan) {
  if (is_loading_) return;  // of a connection before: what is held asks again when it is done
  is_loading_ = true;
  Worker().Post(
      [this, spec = plan.data, client = offered_as_, length = TextLengthOf(plan)](std::size_t) {
        Result<LocalData> rows = LoadLocalData(settings_.config, client, spec, length);
        AgentDevice::Data data{.spec = spec,
                               .client = client,
                               .text_length = length,
                               .rows = Error{7402, "no data were read", ""}};
        if (rows.has_value()) {
          data.rows = std::make_shared<const LocalData>(std::move(rows).value());
        } else {
          data.rows = std::move(rows).error();
        }
        loop_.Post([this, loaded = std::move(data)]() mutable { OnLoaded(std::move(loaded)); });
      });
}

void Agent::OnLoaded(AgentDevice::Data data) {
  is_loading_ = false;
  if (outcome_) return;
  if (data.rows.has_value()) {
    const LocalData& local = **data.rows;
    for (const std::string& note : local.notes) log_.Warning(0, note);
    log_.Write({.level = LogLevel::kDebug,
                .event = "data.read",
                .message = fmt::format("{} examples to train on, {} held out{}",
                                       local.rows.train.size(), local.rows.test.size(),
                                       local.owner.empty() ? "" : " (" + local.owner + ")")});
  }
  device_.Give(std::move(data));
  // What waited goes the usual way again; a second plan may have to wait again.
  std::deque<wire::Message> held = std::exchange(held_, {});
  while (!held.empty() && link_ != nullptr && is_attached_) {
    wire::Message message = std::move(held.front());
    held.pop_front();
    OnMessage(std::move(message));
    if (held_.empty()) continue;
    for (wire::Message& behind : held) held_.push_back(std::move(behind));
    return;
  }
}

ThreadPool& Agent::Worker() {
  if (worker_ == nullptr) worker_ = std::make_unique<ThreadPool>(1);
  return *worker_;
}

void Agent::Do(client::StartTraining& task) {
  if (job_ != nullptr) job_->gate.Stop();  // its result is not wanted any more
  auto job = std::make_shared<Job>(settings_.config.limits.cpu);
  job->task = std::move(task);
  for (const client::SeenTask& seen : session_->memory().seen) job->known_runs.push_back(seen.run);
  job_ = job;
  Worker().Post([this, job, rows = task_rows_](std::size_t) {
    Trained trained = Work(*job, *rows);
    loop_.Post([this, job, done = std::move(trained)]() mutable {
      if (job_ == job) job_.reset();
      OnTrained(std::move(done));
    });
  });
}

// On the worker: trains, and has the update on disk before anybody hears of it.
Agent::Trained Agent::Work(Job& job, const LocalData& data) {
  const wire::Manifest& manifest = job.task.manifest;
  Trained trained{
      .effort = {.task = {manifest.run_id, manifest.round, manifest.attempt, manifest.kind},
                 .report = {},
                 .seconds = 0,
                 .bytes = 0},
      .update = Error{7406, "not trained", ""},
      .device_failure = {},
      .damaged = {}};
  if (Status fetched = FetchPrivate(job, trained.damaged); !fetched.has_value()) {
    trained.update = Error{7405, fetched.error().message, ""};
    return trained;
  }
  MakeTrainer();
  const SteadyTime began = ReadClock().steady;
  trained.update =
      client::RunTask(job.task, data.rows, *trainer_, scratch_, &job.gate, &trained.effort.report);
  const Nanoseconds took = ReadClock().steady - began;
  trained.effort.seconds = Seconds(took);
  if (device_trainer_ != nullptr && device_trainer_->failure()) {
    trained.device_failure = device_trainer_->failure();
    device_trainer_ = nullptr;
    trainer_.reset();
    is_device_lost_ = true;
  }
  if (!trained.update.has_value()) return trained;
  client::PendingUpdate& update = *trained.update;
  update.id = device_.NewUpdateId();
  update.train_ms =
      static_cast<std::uint32_t>(std::chrono::duration_cast<Milliseconds>(took).count());
  trained.effort.bytes = update.body.bytes->size();
  const Status stored = StoreWork(job, update);
  if (!stored.has_value()) trained.update = Error{7405, stored.error().message, ""};
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

void Agent::MakeTrainer() {
  if (trainer_ != nullptr) return;
  if (settings_.device.api == nullptr || is_device_lost_) {
    trainer_ = client::MakeBuiltInTrainer(settings_.isa);
    return;
  }
  auto trainer = std::make_unique<client::DeviceTrainer>(
      client::DeviceTrainerSetup{.device = settings_.device.api,
                                 .budget_bytes = settings_.device.budget_bytes,
                                 .isa = settings_.isa});
  device_trainer_ = trainer.get();
  trainer_ = std::move(trainer);
}

// The task has failed, and the aggregator is told so.
void Agent::OnDeviceFailed(const Error& failure) {
  if (!settings_.device.is_required) {
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
  if (trained.update.has_value()) id = trained.update->id;
  last_effort_ = trained.effort;
  Feed(client::TrainingDone{.update = std::move(trained.update), .task = task});
  if (trained.device_failure && !outcome_) OnDeviceFailed(*trained.device_failure);
  if (!id || kept_ == id) return;
  // Nobody wants it any more: its round has closed, or its time was over.
  const Status dropped = DropUpdate(storage_, task);
  if (!dropped.has_value()) log_.Failure(dropped.error().code, dropped.error().message);
}

}  // namespace skep::agent
