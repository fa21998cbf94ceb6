// Evaluating: a published model on the aggregator's test data, then, where due, on a fixed sample
// of clients (Selecting and Collecting of kind evaluate). Decides whether the run ends.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {

bool Machine::IsCentralDue(const RunSpec& spec, std::uint32_t round) {
  const EvaluationRules& rules = spec.evaluation;
  if (!rules.has_test_data) return false;
  return round == spec.training.rounds || (rules.eval_every > 0 && round % rules.eval_every == 0);
}

bool Machine::Ends(const Run& run, std::uint32_t round) {
  return round >= run.spec->training.rounds || run.tracker.reason().has_value();
}

bool Machine::IsClientDue(const Run& run, std::uint32_t round) {
  const std::uint32_t every = run.spec->evaluation.client_eval_every;
  return every > 0 && (round % every == 0 || Ends(run, round));
}

std::string Machine::EndReason(const Run& run) {
  return run.tracker.reason().value_or(
      fmt::format("finished after {} rounds", run.spec->training.rounds));
}

// `key`: the train attempt whose model is the run's now.
void Machine::AfterPublished(Run& run, const AttemptKey& key) {
  if (!IsCentralDue(*run.spec, key.round)) return AfterCentral(run, key);
  Enter(run, Evaluating{.key = key, .attempt = {}, .metrics = {}, .is_committing = false});
  Start(JobKind::kEvaluate, key, EvaluateJob{key.run, key.round, run.model});
}

void Machine::OnEvaluated(Run& run, const AttemptKey& key, Evaluated evaluated) {
  auto* evaluating = std::get_if<Evaluating>(&run.phase);
  if (evaluating == nullptr || evaluating->key != key || evaluating->is_committing) return;
  std::erase_if(evaluated.metrics, [](const Metric& m) { return !std::isfinite(m.value); });
  evaluating->metrics = std::move(evaluated.metrics);
  evaluating->is_committing = true;
  run.tracker.Add(key.round, evaluating->metrics);
  const bool is_last = Ends(run, key.round) && !IsClientDue(run, key.round);
  Commit(JobKind::kEvaluated, key,
         EvaluatedTx{.key = key,
                     .metrics = evaluating->metrics,
                     .run_state = is_last ? RunState::kFinished : RunState::kRunning,
                     .reason = is_last ? EndReason(run) : ""});
}

void Machine::FinishClientEvaluation(Run& run, std::unique_ptr<Attempt> attempt) {
  const AttemptKey key = attempt->key;
  Evaluating evaluating{.key = key, .attempt = {}, .metrics = MeansOf(*attempt)};
  evaluating.attempt = std::move(attempt);
  evaluating.is_committing = true;
  const bool is_last = Ends(run, key.round);
  Commit(JobKind::kEvaluated, key,
         EvaluatedTx{.key = key,
                     .metrics = evaluating.metrics,
                     .run_state = is_last ? RunState::kFinished : RunState::kRunning,
                     .reason = is_last ? EndReason(run) : ""});
  Enter(run, std::move(evaluating));
}

void Machine::OnEvaluationStored(Run& run, const AttemptKey& key) {
  auto* phase = std::get_if<Evaluating>(&run.phase);
  if (phase == nullptr || phase->key != key) return;
  Evaluating evaluating = std::move(*phase);
  const bool is_client = key.kind == TaskKind::kEvaluate;
  for (const Metric& metric : evaluating.metrics) {
    std::erase_if(run.last_metrics, [&](const Metric& old) {
      return old.name == metric.name && (old.clients == 0) == (metric.clients == 0);
    });
    run.last_metrics.push_back(metric);
  }
  if (!is_client) {
    out_.push_back(Emit{CentralEvaluated{key.run, key.round, std::move(evaluating.metrics)}});
    return AfterCentral(run, key);
  }
  out_.push_back(Emit{AttemptEnded{.key = key,
                                   .published = true,
                                   .code = 0,
                                   .reason = {},
                                   .counts = evaluating.attempt->counts,
                                   .metrics = std::move(evaluating.metrics),
                                   .model = run.model}});
  Start(JobKind::kRelease, key, ReleaseJob{key});
  Retire(run, std::move(evaluating.attempt));
  if (Ends(run, key.round)) run.state = RunState::kFinished;  // as the transaction said
  RoundDone(run, key.round);
}

// Nobody was held at the end of the window: there is no row to end.
void Machine::EndEmptyEvaluation(Run& run, const AttemptKey& key) {
  out_.push_back(Emit{AttemptEnded{.key = key,
                                   .published = true,
                                   .code = 0,
                                   .reason = "no client was there to evaluate",
                                   .counts = {},
                                   .metrics = {},
                                   .model = run.model}});
  RoundDone(run, key.round);
}

void Machine::AfterCentral(Run& run, const AttemptKey& key) {
  if (IsClientDue(run, key.round) && run.wish != Wish::kStopNow) {
    return EnterSelecting(run, {key.run, key.round, TaskKind::kEvaluate, 1});
  }
  if (IsCentralDue(*run.spec, key.round) && Ends(run, key.round) && !IsClientDue(run, key.round)) {
    run.state = RunState::kFinished;  // as the transaction said
  }
  RoundDone(run, key.round);
}

// Everything that belongs to a round is over: the run ends, rests, or goes on.
void Machine::RoundDone(Run& run, std::uint32_t round) {
  if (run.state == RunState::kFinished) {
    run.reason = EndReason(run);
    return EnterStopped(run);
  }
  if (Ends(run, round)) return ChangeState(run, RunState::kFinished, 0, EndReason(run));
  GoOn(run);
}

// Nothing is open: does what the operator asked for, else opens what comes next.
void Machine::GoOn(Run& run) {
  if (run.wish == Wish::kPause) {
    return ChangeState(run, RunState::kPaused, 0, "paused by the operator");
  }
  if (run.wish != Wish::kNone) {
    return ChangeState(run, RunState::kStopped, 0, "stopped by the operator");
  }
  EnterSelecting(run, {run.spec->id, run.next_round, TaskKind::kTrain, run.next_attempt});
}

}  // namespace skep::aggregator
