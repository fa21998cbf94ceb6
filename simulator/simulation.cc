#include "simulator/simulation.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "shared/base/check.h"
#include "simulator/simulation_impl.h"

namespace skep::simulator {
namespace {

using aggregator::EngineConfig;
using aggregator::EngineSnapshot;

// Virtual time starts at 0; the wall clock of a simulation follows it from 1, since 0 means
// "absent" on the wire.
constexpr WallMs kFirstWallMs = 1;

WallMs WallAt(SteadyTime steady) {
  return kFirstWallMs + static_cast<WallMs>(steady.time_since_epoch() / Milliseconds(1));
}

EngineConfig MakeEngineConfig() {
  EngineConfig config;
  config.absent_after = std::chrono::hours(24 * 365);
  config.offer_ttl = std::chrono::hours(24);
  config.progress_lease = {};  // a client that has not vanished is in contact
  config.max_hold = {};
  config.max_held = std::numeric_limits<std::uint32_t>::max();
  config.small_factor = std::numeric_limits<double>::infinity();
  config.min_return = std::chrono::seconds(30);
  config.max_return = std::chrono::hours(6);
  config.overload_return = std::chrono::minutes(2);
  config.max_update_bytes = std::numeric_limits<std::uint64_t>::max();
  config.max_model_bytes = std::numeric_limits<std::uint64_t>::max();
  return config;
}

// The engine judges targets by the names that evaluation uses, without the part that files add.
std::vector<aggregator::Metric> CentralMetrics(const Metrics& metrics) {
  constexpr std::string_view kPrefix = "test/";
  std::vector<aggregator::Metric> central;
  for (const auto& [name, value] : metrics) {
    if (name.starts_with(kPrefix) && value)
      central.push_back({.name = name.substr(kPrefix.size()), .value = *value});
  }
  return central;
}

EngineSnapshot MakeSnapshot(const SimulationSetup& setup) {
  const aggregator::RunSpec& spec = *setup.spec;
  aggregator::RunSnapshot run;
  run.run.id = spec.id;
  run.run.name = spec.name;
  run.run.population = spec.population;
  run.run.seed = spec.seed;
  run.run.scale = spec.scale;
  run.run.model = spec.initial_model;
  if (setup.resume) {
    run.run.model = setup.resume->model->ModelHash();
    run.run.next_round = setup.resume->round + 1;
    run.evaluated_round = setup.resume->round;
    for (const PublishedRound& round : setup.resume->published) {
      aggregator::RoundRow row;
      row.key = {
          .run = spec.id, .round = round.round, .kind = aggregator::TaskKind::kTrain, .attempt = 1};
      row.state = aggregator::RoundState::kPublished;
      row.model_out = round.model;
      row.metrics = CentralMetrics(round.metrics);
      run.rounds.push_back(std::move(row));
    }
    // A checkpoint is written when its round's evaluations are in: none is owed.
    aggregator::RoundRow evaluated;
    evaluated.key = {.run = spec.id,
                     .round = setup.resume->round,
                     .kind = aggregator::TaskKind::kEvaluate,
                     .attempt = 1};
    evaluated.state = aggregator::RoundState::kPublished;
    run.rounds.push_back(std::move(evaluated));
    for (const OwnState& own : setup.resume->own) {
      run.contributions.push_back({.client = own.client, .update = own.update});
    }
  }
  EngineSnapshot snapshot;
  snapshot.store.runs.push_back(std::move(run));
  snapshot.specs.push_back(setup.spec);
  return snapshot;
}

std::vector<client::LocalData> MakeLocalData(const SimulationSetup& setup) {
  std::vector<client::LocalData> local;
  local.reserve(setup.partition.clients.size());
  for (const data::ClientPart& part : setup.partition.clients) {
    local.push_back({.dataset = setup.train, .train = part.train, .test = part.test});
  }
  return local;
}

}  // namespace

Simulation::Simulation(SimulationSetup setup, Recorder& recorder, CheckpointWriter& checkpoints,
                       const StopRequest& stop)
    : impl_(std::make_unique<Impl>(std::move(setup), recorder, checkpoints, stop)) {}
Simulation::~Simulation() = default;

RunEnd Simulation::Run(model::ParamsPtr* final_model) {
  return impl_->Run(final_model);
}

Result<model::ParamsPtr> ModelShelf::Model(const Hash32& hash) {
  const auto found = models_.find(hash);
  if (found == models_.end()) return Error{4008, "model " + hash.Hex() + " is not in memory", ""};
  return found->second;
}

Status ModelShelf::Keep(model::ParamsPtr params, const Hash32& hash) {
  models_[hash] = std::move(params);
  return Ok();
}

void ModelShelf::ForgetAllBut(const Hash32& hash) {
  std::erase_if(models_, [&](const auto& entry) { return entry.first != hash; });
}

std::shared_ptr<const Bytes> BodyShelf::Body(aggregator::UploadNumber upload) {
  const auto found = bodies_.find(upload);
  return found == bodies_.end() ? nullptr : found->second;
}

void BodyShelf::Put(aggregator::UploadNumber upload, std::shared_ptr<const Bytes> body) {
  bodies_[upload] = std::move(body);
}

void BodyShelf::Forget(aggregator::UploadNumber upload) {
  bodies_.erase(upload);
}

Simulation::Impl::Impl(SimulationSetup setup, Recorder& recorder, CheckpointWriter& checkpoints,
                       const StopRequest& stop)
    : setup_(std::move(setup)),
      recorder_(recorder),
      checkpoints_(checkpoints),
      stop_(stop),
      local_(MakeLocalData(setup_)),
      threads_(setup_.jobs),
      tasks_(threads_, setup_.isa,
             {.layout = setup_.spec->model.layout(), .admission = setup_.spec->admission},
             setup_.lanes),
      jobs_(models_, bodies_),
      devices_(setup_.devices, setup_.spec->seed),
      log_(setup_.log_rules) {
  if (setup_.test) evaluator_ = aggregator::MakeEvaluator(setup_.test, setup_.isa, &threads_);
  jobs_.AddRun(setup_.spec, evaluator_.get());
  const model::ParamsPtr first = setup_.resume ? setup_.resume->model : setup_.initial;
  current_model_ = first->ModelHash();
  SKEP_CHECK(models_.Keep(first, current_model_).has_value());
  if (setup_.resume) {
    log_.Restore(setup_.resume->published);
    for (const OwnState& own : setup_.resume->own) {
      own_[own.client].states.Keep(own.update, own.tensors);
      own_[own.client].included = own.update;
    }
    bytes_total_ = setup_.resume->bytes;
    now_.steady += Nanoseconds(std::llround(setup_.resume->virtual_s * 1e9));
  }
  engine_ = std::make_unique<aggregator::RoundEngine>(MakeEngineConfig(), MakeSnapshot(setup_));
  now_.wall = WallAt(now_.steady);
}

Simulation::Impl::~Impl() {
  tasks_.CancelAll();
}

RunEnd Simulation::Impl::Run(model::ParamsPtr* final_model) {
  started_ = ReadClock().steady;
  phase_started_ = started_;
  for (aggregator::Output& output : engine_->Resume(now_)) pending_.push_back(std::move(output));
  Drain();
  while (!end_) {
    if (stop_.load() == StopLevel::kNow) {
      end_ = RunEnd{.state = EndState::kInterrupted, .exit_code = 130, .text = "interrupted"};
      break;
    }
    if (events_.empty()) {
      Fail(9001, "the simulation has nothing left to wait for");
      break;
    }
    auto [key, payload] = events_.Pop();
    now_.steady = std::max(now_.steady, key.time);
    now_.wall = WallAt(now_.steady);
    Happen(key, payload);
    Drain();
  }
  return Finish(final_model);
}

void Simulation::Impl::StepEngine(aggregator::Input input) {
  for (aggregator::Output& output : engine_->Step(now_, std::move(input))) {
    pending_.push_back(std::move(output));
  }
}

// Executes what the engine asked for, in order; what follows from it is asked for behind it.
void Simulation::Impl::Drain() {
  while (!pending_.empty() && !end_) {
    aggregator::Output output = std::move(pending_.front());
    pending_.pop_front();
    std::visit([this](auto& what) { Do(what); }, output);
  }
}

void Simulation::Impl::Happen(const EventKey&, const Payload& payload) {
  if (const auto* training = std::get_if<TrainingDue>(&payload)) {
    OnTrainingDue(training->client);
  } else if (const auto* upload = std::get_if<UploadDue>(&payload)) {
    OnUploadDue(upload->upload);
  } else if (const auto* vanish = std::get_if<VanishDue>(&payload)) {
    EndTurn(vanish->client);
    StepEngine(aggregator::ClientLeft{
        .session = aggregator::RoundEngine::SimulatedSession(vanish->client), .code = 3324});
  } else if (const auto* timer = std::get_if<EngineTimer>(&payload)) {
    timers_.erase(timer->timer);
    StepEngine(aggregator::TimerFired{.timer = timer->timer});
  } else if (const auto* client_timer = std::get_if<ClientTimer>(&payload)) {
    const auto turn = turns_.find(client_timer->client);
    if (turn == turns_.end()) return;
    turn->second.timers.erase(client_timer->timer);
    StepClient(turn->second, client::TimerFired{.timer = client_timer->timer});
  }
}

// Called while a result is awaited; false to give up.
bool Simulation::Impl::Tick(ClientNumber waiting_for) {
  recorder_.On(Activity{.round = log_.published().empty() ? 1 : log_.published().back().round + 1,
                        .reports = 0,
                        .wanted = setup_.spec->training.clients_per_round,
                        .waiting_for = fmt::format("training client {}", waiting_for)});
  return stop_.load() != StopLevel::kNow;
}

void Simulation::Impl::Fail(int code, std::string text) {
  end_ = RunEnd{.state = EndState::kFailed, .exit_code = 1, .code = code, .text = std::move(text)};
}

RunEnd Simulation::Impl::Finish(model::ParamsPtr* final_model) {
  tasks_.CancelAll();
  RunEnd end = std::move(*end_);
  const auto& published = log_.published();
  end.rounds = published.empty() ? 0 : published.back().round;
  end.time_s = Seconds(ReadClock().steady - started_) + (setup_.resume ? setup_.resume->time_s : 0);
  end.final_metrics = log_.last_metrics();
  end.best = log_.best();
  end.best_round = log_.best_round();
  end.rounds_to_target = log_.rounds_to_target();
  end.model = current_model_;
  end.result_sha256 = ResultHash(setup_.config_sha256, setup_.data_sha256,
                                 setup_.spec->model.layout()->hash(), published);
  if (final_model != nullptr) *final_model = models_.Model(current_model_).value();
  recorder_.On(end);
  return end;
}

}  // namespace skep::simulator
