// Publishing: the set of updates is fixed (T4), they are added up, the next model is made and
// written, the round is published (T5). Failed: the attempt is abandoned (T6) and the model stays.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "aggregator/engine/machine.h"
#include "aggregator/engine/report_means.h"

namespace skep::aggregator {
namespace {

constexpr int kTooManyAttempts = 2201;

std::string AsText(CloseReason reason) {
  switch (reason) {
    case CloseReason::kComplete:
      return "when the attempt was complete";
    case CloseReason::kNobodyLeft:
      return "and no client is left";
    case CloseReason::kDeadline:
      return "by the report deadline";
  }
  return {};
}

std::vector<const UpdateRow*> AcknowledgedByClient(const Attempt& attempt) {
  std::vector<const UpdateRow*> reports;
  for (const Assignment& assignment : attempt.assignments) {
    if (assignment.state == AssignmentState::kAcknowledged) reports.push_back(&assignment.update);
  }
  std::sort(reports.begin(), reports.end(),
            [](const UpdateRow* a, const UpdateRow* b) { return a->client < b->client; });
  return reports;
}

}  // namespace

std::vector<Metric> Machine::MeansOf(const Attempt& attempt) {
  return WeightedMeans(AcknowledgedByClient(attempt), attempt.metric_names);
}

void Machine::EnterPublishing(Run& run, std::unique_ptr<Attempt> attempt, bool is_closed) {
  const AttemptKey key = attempt->key;
  Publishing publishing;
  publishing.metrics = MeansOf(*attempt);
  for (const UpdateRow* report : AcknowledgedByClient(*attempt)) {
    publishing.total_weight += report->weight;
  }
  publishing.attempt = std::move(attempt);
  publishing.step = is_closed ? Publishing::Step::kFolding : Publishing::Step::kClosing;
  Enter(run, std::move(publishing));
  if (!is_closed) Commit(JobKind::kClose, key, CloseRoundTx{key});
}

// Makes the model once the round is closed and every acknowledged update is in the sum.
void Machine::TryFinish(Run& run) {
  auto* publishing = std::get_if<Publishing>(&run.phase);
  if (publishing == nullptr || publishing->step != Publishing::Step::kFolding) return;
  const Attempt& attempt = *publishing->attempt;
  if (attempt.is_folding || !attempt.to_fold.empty()) return;
  publishing->step = Publishing::Step::kFinishing;
  Start(JobKind::kFinish, attempt.key, FinishJob{attempt.key, attempt.terms.model});
}

void Machine::OnFinished(Run& run, const AttemptKey& key, const Hash32& model) {
  auto* publishing = PhaseOf<Publishing>(key);
  if (publishing == nullptr) return;
  publishing->step = Publishing::Step::kCommitting;
  publishing->model_out = model;
  const RunSpec& spec = *run.spec;
  const bool is_last = key.round == spec.training.rounds && !IsCentralDue(spec, key.round) &&
                       !IsClientDue(run, key.round);
  Commit(JobKind::kPublish, key,
         PublishTx{.key = key,
                   .model_out = model,
                   .total_weight = publishing->total_weight,
                   .metrics = publishing->metrics,
                   .run_state = is_last ? RunState::kFinished : RunState::kRunning,
                   .next_round = key.round + 1,
                   .reason = is_last ? EndReason(run) : ""});
}

void Machine::OnPublished(Run& run, const AttemptKey& key) {
  auto* phase = PhaseOf<Publishing>(key);
  if (phase == nullptr) return;
  Publishing publishing = std::move(*phase);
  std::unique_ptr<Attempt> attempt = std::move(publishing.attempt);
  run.model = publishing.model_out;
  run.next_round = key.round + 1;
  run.next_attempt = 1;
  run.abandoned_in_a_row = 0;
  run.last_metrics = publishing.metrics;
  run.periods.Add(now_.steady - run.round_began);
  if (run.keeps_contributions) {
    for (const UpdateRow* report : AcknowledgedByClient(*attempt)) {
      run.contributions[report->client] = {report->update, attempt->row.opened};
    }
  }
  out_.push_back(RoundPublished{key.run, key.round, run.model});
  out_.push_back(Emit{AttemptEnded{.key = key,
                                   .published = true,
                                   .code = 0,
                                   .reason = {},
                                   .counts = attempt->counts,
                                   .metrics = std::move(publishing.metrics),
                                   .model = run.model}});
  Start(JobKind::kRelease, key, ReleaseJob{key});
  Retire(run, std::move(attempt));
  const RunSpec& spec = *run.spec;
  if (key.round == spec.training.rounds && !IsCentralDue(spec, key.round) &&
      !IsClientDue(run, key.round)) {
    run.state = RunState::kFinished;  // as the transaction said
    run.reason = EndReason(run);
    return EnterStopped(run);
  }
  AfterPublished(run, key);
}

std::string Machine::TooFewText(const Attempt& attempt, CloseReason reason) {
  std::string text = fmt::format("{} of {} updates needed {}", attempt.acknowledged,
                                 attempt.min_reports, AsText(reason));
  const auto commonest = std::max_element(
      attempt.failures.begin(), attempt.failures.end(),
      [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  if (commonest != attempt.failures.end()) {
    text += fmt::format("; most often SKEP-{} ({} clients, client {} for one)", commonest->first,
                        commonest->second.first, commonest->second.second);
  }
  return text;
}

void Machine::Abandon(Run& run, std::unique_ptr<Attempt> attempt, int code, std::string reason) {
  const AttemptKey key = attempt->key;
  for (const AlarmKind kind : {AlarmKind::kDeadline, AlarmKind::kOffers, AlarmKind::kLeases}) {
    alarms_.Clear({kind, key.run});
  }
  const bool is_evaluation = attempt->IsEvaluation();
  const std::uint32_t in_a_row = run.abandoned_in_a_row + (is_evaluation ? 0 : 1);
  AbandonTx abandon{.key = key, .code = code, .reason = reason};
  abandon.next_attempt = is_evaluation ? run.next_attempt : key.attempt + 1;
  abandon.abandoned_in_a_row = in_a_row;
  const bool is_stopped = run.wish == Wish::kStop || run.wish == Wish::kStopNow;
  abandon.run_state = is_stopped ? RunState::kStopped
                      : in_a_row >= run.spec->training.max_attempts || run.wish == Wish::kPause
                          ? RunState::kPaused
                          : RunState::kRunning;
  CloseToClients(*attempt, is_stopped ? wire::RoundClosedReason::kStopped
                                      : wire::RoundClosedReason::kAbandoned);
  Enter(run, Failed{.attempt = std::move(attempt),
                    .code = code,
                    .reason = std::move(reason),
                    .next_state = abandon.run_state});
  Commit(JobKind::kAbandon, key, std::move(abandon));
}

void Machine::OnAbandoned(Run& run, const AttemptKey& key) {
  auto* phase = PhaseOf<Failed>(key);
  if (phase == nullptr) return;
  Failed failed = std::move(*phase);
  const bool is_evaluation = failed.attempt->IsEvaluation();
  if (!is_evaluation) {
    run.next_attempt = key.attempt + 1;
    ++run.abandoned_in_a_row;
  }
  out_.push_back(Emit{AttemptEnded{.key = key,
                                   .published = false,
                                   .code = failed.code,
                                   .reason = failed.reason,
                                   .counts = failed.attempt->counts,
                                   .metrics = {},
                                   .model = run.model}});
  Start(JobKind::kRelease, key, ReleaseJob{key});
  Retire(run, std::move(failed.attempt));
  if (failed.next_state == RunState::kRunning) return GoOn(run);
  run.state = failed.next_state;
  if (run.state == RunState::kStopped) {
    run.reason = "stopped by the operator";
  } else if (run.abandoned_in_a_row >= run.spec->training.max_attempts) {
    run.code = kTooManyAttempts;
    run.reason = TooManyText(run, failed.reason);
  } else {
    run.reason = "paused by the operator";
  }
  EnterStopped(run);
}

std::string Machine::TooManyText(const Run& run, const std::string& last) {
  return fmt::format("{} attempts of round {} in a row were abandoned; the last one: {}",
                     run.abandoned_in_a_row, run.next_round, last);
}

// Tells those who are still at work that nobody waits for them.
void Machine::CloseToClients(Attempt& attempt, wire::RoundClosedReason reason) {
  for (const Assignment& assignment : attempt.assignments) {
    if (!assignment.IsLive() || assignment.is_settling || assignment.session == 0) continue;
    wire::RoundClosed closed{.task = RefOf(attempt.key), .reason = reason, .come_back = {}};
    if (!attempt.is_simulated) {
      closed.come_back = Pace(attempt.population, wire::ComeBackReason::kRoundFull);
    }
    Tell(assignment.session, std::move(closed));
  }
}

// The attempt has ended: what is still live ends with it.
void Machine::Dismiss(Attempt& attempt) {
  for (Assignment& assignment : attempt.assignments) {
    CancelUploadOf(attempt, assignment, 2109);
    if (attempt.is_simulated) {
      roster_.DropSimulated(assignment.client);
    } else if (assignment.IsLive()) {
      if (Device* device = roster_.FindDevice(assignment.device)) {
        Change(*device, [&] { --device->live; });
      }
    }
    if (assignment.IsLive()) assignment.state = AssignmentState::kExpired;
  }
  attempt.live = 0;
}

void Machine::Retire(Run& run, std::unique_ptr<Attempt> attempt) {
  Dismiss(*attempt);
  attempt->draw.reset();
  run.last = std::move(attempt);
}

}  // namespace skep::aggregator
