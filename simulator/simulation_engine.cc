// What the simulation does with the engine's outputs.
#include <fmt/format.h>

#include "shared/base/check.h"
#include "shared/base/error_catalogue.h"
#include "simulator/simulation_impl.h"

namespace skep::simulator {

using aggregator::RoundEngine;

void Simulation::Impl::Do(aggregator::Send& send) {
  const ClientNumber number = RoundEngine::SimulatedClient(send.session);
  if (const auto* offer = std::get_if<wire::TaskOffer>(&send.message)) {
    Turn& turn = StartTurn(number, *offer);
    StepClient(turn, client::ServerMessage{.message = std::move(send.message)});
    return;
  }
  // A client whose turn is over is not there to listen.
  const auto turn = turns_.find(number);
  if (turn == turns_.end()) return;
  StepClient(turn->second, client::ServerMessage{.message = std::move(send.message)});
}

void Simulation::Impl::Do(aggregator::AdmitUpload& admit) {
  const ClientNumber number = RoundEngine::SimulatedClient(admit.session);
  const auto turn = turns_.find(number);
  SKEP_CHECK(turn != turns_.end());
  uploads_[admit.upload] = {.client = number, .transfer_id = admit.transfer_id, .arrival = {}};
  turn->second.upload = admit.upload;
  if (admit.begin.size == 0) {
    OnUploadDue(admit.upload);
    return;
  }
  StepClient(turn->second,
             client::ServerMessage{.message = wire::UploadAccept{.transfer_id = admit.transfer_id,
                                                                 .offset = 0,
                                                                 .chunk_bytes = 262'144}});
}

void Simulation::Impl::Do(aggregator::RefuseUpload& refuse) {
  const auto turn = turns_.find(RoundEngine::SimulatedClient(refuse.session));
  if (turn == turns_.end()) return;
  StepClient(turn->second,
             client::ServerMessage{
                 .message = wire::UpdateRefused{.update_id = refuse.update,
                                                .code = static_cast<std::uint32_t>(refuse.code),
                                                .transfer_id = refuse.transfer_id,
                                                .retry = wire::RetryClass::kNever}});
}

void Simulation::Impl::Do(aggregator::CancelUpload& cancel) {
  const auto upload = uploads_.find(cancel.upload);
  if (upload == uploads_.end()) return;
  const UploadInFlight in_flight = upload->second;
  events_.Remove(in_flight.arrival);
  bodies_.Forget(cancel.upload);
  uploads_.erase(upload);
  StepEngine(aggregator::UploadAborted{.upload = cancel.upload, .code = cancel.code});
  const auto turn = turns_.find(in_flight.client);
  if (turn == turns_.end()) return;
  StepClient(turn->second,
             client::ServerMessage{
                 .message = wire::TransferCancel{.transfer_id = in_flight.transfer_id,
                                                 .code = static_cast<std::uint32_t>(cancel.code)}});
}

void Simulation::Impl::Do(aggregator::Disconnect& disconnect) {
  const ClientNumber number = RoundEngine::SimulatedClient(disconnect.session);
  Fail(9001, fmt::format("the engine closed the session of client {} (SKEP-{})", number,
                         disconnect.code));
}

void Simulation::Impl::Do(aggregator::ArmTimer& arm) {
  timers_[arm.timer] = events_.Push(arm.at, EventKind::kTimer, 0, EngineTimer{.timer = arm.timer});
}

void Simulation::Impl::Do(aggregator::CancelTimer& cancel) {
  const auto timer = timers_.find(cancel.timer);
  if (timer == timers_.end()) return;
  events_.Remove(timer->second);
  timers_.erase(timer);
}

void Simulation::Impl::Do(aggregator::StartJob& start) {
  aggregator::JobResult result = RunJob(start.job);
  StepEngine(aggregator::JobDone{.job = start.id, .result = std::move(result)});
}

// Jobs are done at once; in virtual time they take none.
aggregator::JobResult Simulation::Impl::RunJob(const aggregator::Job& job) {
  const SteadyTime before = ReadClock().steady;
  aggregator::JobResult result;
  double* phase = &log_.phases().aggregate;
  if (std::holds_alternative<aggregator::CommitJob>(job)) {
    // The run directory's checkpoints are what survives a crash; here only the order of commits
    // matters.
    result = aggregator::Committed{.seq = next_seq_++};
  } else if (const auto* sign = std::get_if<aggregator::SignJob>(&job)) {
    result = aggregator::Signed{.manifest = {.payload = sign->payload}};
  } else {
    if (std::holds_alternative<aggregator::EvaluateJob>(job)) phase = &log_.phases().evaluate;
    result = jobs_.Run(job);
    if (const auto* fold = std::get_if<aggregator::FoldJob>(&job)) {
      for (const aggregator::UpdateRow& update : fold->updates) bodies_.Forget(update.upload);
    }
  }
  *phase += Seconds(ReadClock().steady - before);
  return result;
}

void Simulation::Impl::Do(aggregator::RoundPublished& published) {
  current_model_ = published.model;
  models_.ForgetAllBut(current_model_);
}

void Simulation::Impl::Do(aggregator::EngineFailed& failed) {
  Fail(failed.error.code, failed.error.message);
}

void Simulation::Impl::Do(aggregator::Emit& emit) {
  std::visit([this](const auto& event) { OnEvent(event); }, emit.event);
}

void Simulation::Impl::OnEvent(const aggregator::ClientOutcome& outcome) {
  const auto number = outcome.client;
  if (outcome.key.kind == aggregator::TaskKind::kEvaluate) {
    if (outcome.outcome != aggregator::Outcome::kOk) return;
    for (const aggregator::Metric& metric : outcome.update.metrics) {
      const ClientMetric record{.round = outcome.key.round,
                                .client = number,
                                .examples = outcome.update.weight,
                                .name = metric.name,
                                .value = metric.value};
      log_.Add(record);
      recorder_.On(record);
    }
    return;
  }
  ClientRecord record{.round = outcome.key.round,
                      .attempt = outcome.key.attempt,
                      .client = number,
                      .name = setup_.partition.clients[number].name,
                      .outcome = outcome.outcome,
                      .code = outcome.code,
                      .detail = outcome.detail};
  const auto turn = turns_.find(number);
  if (turn != turns_.end() && turn->second.key == outcome.key) {
    const Turn& known = turn->second;
    record.examples = known.result.report.examples;
    record.steps = known.result.report.steps;
    if (known.result.report.steps > 0) record.train_loss = known.result.report.loss;
    record.train_s = known.result.train_s;
    record.bytes_up = known.bytes_up;
    record.bytes_down = known.bytes_down;
    if (devices_.takes_time()) record.virtual_s = Seconds(now_.steady - known.started);
    if (record.detail.empty()) record.detail = known.problem;
  }
  if (record.detail.empty() && outcome.code != 0) {
    const ErrorEntry* const entry = FindError(outcome.code);
    if (entry != nullptr) record.detail = entry->title;
  }
  if (outcome.outcome == aggregator::Outcome::kOk) {
    acknowledged_[number] = outcome.update.update;
    record.update_norm = outcome.update.norm;
    log_.AddUpdateNorm(outcome.update.norm);
  } else if (first_failure_.empty()) {
    first_failure_ = fmt::format("client {}: {}", number, record.detail);
  }
  ++first_attempt_codes_[outcome.code];
  recorder_.On(record);
}

void Simulation::Impl::OnEvent(const aggregator::AttemptEnded& ended) {
  EndTurnsOf(ended.key);
  log_.End(ended);
  if (ended.key.kind != aggregator::TaskKind::kTrain) return;
  current_model_ = ended.model;
  const std::map<ClientNumber, UpdateId> counted = std::exchange(acknowledged_, {});
  if (ended.published) {
    for (const auto& [client, update] : counted) {
      const auto own = own_.find(client);
      if (own != own_.end()) own->second.included = update;
    }
  }
  CheckFirstAttempt(ended);
  if (!ended.published) CompleteRound();
}

void Simulation::Impl::EndTurnsOf(const aggregator::AttemptKey& key) {
  std::vector<ClientNumber> over;
  for (const auto& [number, turn] : turns_) {
    if (turn.key == key) over.push_back(number);
  }
  for (const ClientNumber number : over) EndTurn(number);
}

// Every client of the first attempt failed with the same number: no later attempt will do better.
void Simulation::Impl::CheckFirstAttempt(const aggregator::AttemptEnded& ended) {
  const bool is_first = ended.key.round == 1 && ended.key.attempt == 1;
  const std::map<int, std::uint32_t> codes = std::exchange(first_attempt_codes_, {});
  if (!is_first || setup_.keep_going || ended.published) return;
  // Devices that went away or were slow may do better next time.
  const std::uint32_t failed = ended.counts.failed + ended.counts.rejected;
  if (ended.counts.started == 0 || failed < ended.counts.started || codes.size() != 1) return;
  const int code = codes.begin()->first;
  Fail(2203, fmt::format("every client of the first attempt failed alike, with SKEP-{}; {}", code,
                         first_failure_));
}

void Simulation::Impl::OnEvent(const aggregator::CentralEvaluated& evaluated) {
  log_.Add(evaluated);
}

void Simulation::Impl::OnEvent(const aggregator::SelectionOpened& opened) {
  const bool trains = opened.key.kind == aggregator::TaskKind::kTrain;
  if (trains && log_.has_open_record()) CompleteRound();
  if (end_) return;
  if (trains && stop_.load() != StopLevel::kNone) {
    end_ = RunEnd{.state = EndState::kInterrupted, .exit_code = 130, .text = "interrupted"};
    return;
  }
  phase_started_ = ReadClock().steady;
  aggregator::Eligible eligible{.population = setup_.spec->population, .clients = {}};
  for (ClientNumber client = 0; client < local_.size(); ++client) {
    const bool can =
        trains ? !local_[client].train.empty()
               : local_[client].test.size() >= std::max(1U, setup_.log_rules.min_test_examples);
    if (can) eligible.clients.push_back(client);
  }
  StepEngine(std::move(eligible));
  log_.phases().select += Seconds(ReadClock().steady - phase_started_);
}

void Simulation::Impl::OnEvent(const aggregator::RunEnded& ended) {
  if (log_.has_open_record()) CompleteRound();
  if (end_) return;
  const bool is_good = ended.state == aggregator::RunState::kFinished;
  end_ = RunEnd{.state = is_good ? EndState::kFinished : EndState::kFailed,
                .exit_code = is_good ? 0 : 1,
                .code = ended.code,
                .text = ended.reason};
}

// Everything about the attempt is known: record it, and make a published one survive a crash.
void Simulation::Impl::CompleteRound() {
  const double before = setup_.resume ? setup_.resume->time_s : 0;
  std::optional<double> virtual_s;
  if (devices_.takes_time()) virtual_s = Seconds(now_.steady.time_since_epoch());
  const RoundRecord record = log_.Take(before + Seconds(ReadClock().steady - started_), virtual_s);
  recorder_.On(record);
  if (!record.published) return;
  const bool is_last = record.round == setup_.spec->training.rounds;
  const model::ParamsPtr model = models_.Model(record.model).value();
  const Status written = checkpoints_.Write(
      {.round = record.round, .model = *model, .own = IncludedStates(), .is_last = is_last});
  if (!written.has_value()) {
    Fail(written.error().code, written.error().message);
    return;
  }
  if (IsBudgetSpent(record) && !end_) {
    end_ = RunEnd{.state = EndState::kStopped,
                  .text = "the limit set by training.stop_after or stop_after_bytes is reached",
                  .reproducible = !setup_.stop_after || devices_.takes_time()};
  }
}

OwnStates Simulation::Impl::IncludedStates() const {
  OwnStates included;
  for (const auto& [client, own] : own_) {
    if (!own.included) continue;
    included.push_back(
        {.client = client, .update = *own.included, .tensors = own.states.Of(*own.included)});
    SKEP_CHECK(included.back().tensors != nullptr);
  }
  return included;
}

bool Simulation::Impl::IsBudgetSpent(const RoundRecord& record) {
  bytes_total_ += record.bytes_up + record.bytes_down;
  if (setup_.stop_after_bytes && bytes_total_ >= *setup_.stop_after_bytes) return true;
  if (!setup_.stop_after) return false;
  return record.virtual_s.value_or(record.time_s) >= Seconds(*setup_.stop_after);
}

}  // namespace skep::simulator
