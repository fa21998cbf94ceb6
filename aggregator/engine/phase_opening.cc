// Opening: the cohort is drawn. Its manifest is signed, then round, manifest and assignments are
// one transaction (T1); only then the first offer goes out.
#include <algorithm>
#include <utility>

#include "aggregator/engine/machine.h"
#include "shared/base/rng.h"
#include "shared/base/sha256.h"
#include "shared/wire/codec.h"

namespace skep::aggregator {
namespace {

constexpr std::uint64_t kBytesPerValue = 4;
constexpr std::uint32_t kMaxEvaluationWeight = 1'048'576;
constexpr WallMs kManifestGraceMs = 10 * 60 * 1000;

WallMs InMs(Nanoseconds duration) {
  return static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(duration).count());
}

}  // namespace

// The encoded plan of `round`, kept while the learning rate does not change it.
bool Machine::RefreshPlan(Run& run, std::uint32_t round) {
  const bool is_same_for_all = run.spec->learning_rates.empty();
  if (run.plan_round == round || (run.plan_round != 0 && is_same_for_all)) return true;
  Result<Bytes> plan = wire::EncodePlan(PlanForRound(*run.spec, round));
  if (!plan) {
    Halt(run, std::move(plan).error());
    return false;
  }
  run.plan = std::move(plan).value();
  run.plan_hash = Sha256::Of(run.plan);
  run.plan_round = round;
  return true;
}

std::unique_ptr<Attempt> Machine::MakeAttempt(Run& run, const AttemptKey& key) {
  const RunSpec& spec = *run.spec;
  const model::Layout& layout = *spec.model.layout();
  auto attempt = std::make_unique<Attempt>();
  attempt->key = key;
  attempt->population = run.population();
  attempt->metric_names = spec.plan.metrics;
  attempt->terms = {
      .kind = key.kind,
      .encodings = {wire::Encoding::kF32},
      .layout = layout.hash(),
      .model = run.model,
      .update_values = layout.update_values(),
      .max_update_bytes = config_.max_update_bytes,
      .max_weight = attempt->IsEvaluation() ? kMaxEvaluationWeight : spec.admission.max_weight,
      .metric_names = spec.plan.metrics.size()};
  const bool is_evaluation = attempt->IsEvaluation();
  attempt->invited = is_evaluation ? spec.evaluation.client_eval_clients : spec.training.invited;
  attempt->wanted = is_evaluation ? 0 : spec.training.clients_per_round;
  attempt->min_reports = is_evaluation ? 1 : spec.training.min_reports;
  return attempt;
}

wire::Manifest Machine::MakeManifest(const Run& run, const Attempt& attempt) const {
  return {.federation_id = config_.federation,
          .run_id = attempt.key.run,
          .epoch = config_.epoch,
          .round = attempt.key.round,
          .attempt = attempt.key.attempt,
          .kind = static_cast<wire::TaskKind>(attempt.key.kind),
          .population = attempt.population,
          .plan_sha256 = attempt.plan_hash,
          .plan_bytes = static_cast<std::uint32_t>(attempt.plan.size()),
          .model_sha256 = run.model,
          .model_bytes = run.spec->model.layout()->model_values() * kBytesPerValue,
          .layout_sha256 = attempt.terms.layout,
          .round_seed = RoundSeed(run.spec->seed, attempt.key.round),
          .issued_at_ms = attempt.row.opened,
          .expires_at_ms = attempt.row.deadline + kManifestGraceMs,
          .encodings = attempt.terms.encodings,
          .max_weight = attempt.terms.max_weight};
}

// Takes over a drawn attempt: from here its assignments are live.
void Machine::Open(Run& run, std::unique_ptr<Attempt> attempt) {
  const AttemptKey key = attempt->key;
  alarms_.Clear({AlarmKind::kWindow, key.run});
  const auto cohort = static_cast<std::uint32_t>(attempt->assignments.size());
  attempt->wanted = attempt->IsEvaluation() ? cohort : std::min(attempt->wanted, cohort);
  attempt->opened = now_.steady;
  attempt->deadline = now_.steady + run.spec->training.report_deadline;
  attempt->row.key = key;
  attempt->row.epoch = config_.epoch;
  attempt->row.opened = now_.wall;
  attempt->row.deadline = now_.wall + InMs(run.spec->training.report_deadline);
  attempt->row.model_in = run.model;
  if (!RefreshPlan(run, key.round)) return Dismiss(*attempt);
  attempt->plan = run.plan;
  attempt->plan_hash = run.plan_hash;
  Start(JobKind::kSign, key, SignJob{wire::EncodeManifest(MakeManifest(run, *attempt))});
  Enter(run, Opening{.attempt = std::move(attempt)});
}

void Machine::OnSigned(Run& run, const AttemptKey& key, wire::SignedManifest manifest) {
  auto* opening = PhaseOf<Opening>(key);
  if (opening == nullptr) return;
  Attempt& attempt = *opening->attempt;
  if (run.wish == Wish::kStopNow) {
    // Nothing of this attempt is stored yet.
    Dismiss(attempt);
    return ChangeState(run, RunState::kStopped, 0, "stopped by the operator");
  }
  opening->is_signed = true;
  attempt.row.manifest = std::move(manifest);
  OpenRoundTx open{.round = attempt.row,
                   .plan = std::move(attempt.plan),
                   .plan_sha256 = attempt.plan_hash,
                   .cohort = {}};
  open.cohort.reserve(attempt.assignments.size());
  for (const Assignment& assignment : attempt.assignments) {
    open.cohort.push_back({assignment.device, assignment.client, AssignmentState::kOffered, 0});
  }
  Commit(JobKind::kOpen, key, std::move(open));
}

void Machine::OnOpened(Run& run, const AttemptKey& key) {
  auto* opening = PhaseOf<Opening>(key);
  if (opening == nullptr) return;
  std::unique_ptr<Attempt> owned = std::move(opening->attempt);
  if (!owned->IsEvaluation()) run.latest = key;
  run.last.reset();
  if (run.wish == Wish::kStopNow) {
    return Abandon(run, std::move(owned), 0, "stopped by the operator");
  }
  Attempt& attempt = *owned;
  Enter(run, Collecting{.attempt = std::move(owned), .closing = {}});
  alarms_.Set({AlarmKind::kDeadline, key.run}, attempt.deadline);
  for (Place place = 0; place < attempt.assignments.size(); ++place) {
    attempt.assignments[place].is_committed = true;
    if (attempt.assignments[place].IsLive()) Offer(run, attempt, place);
  }
  MaybeClose(run);
}

}  // namespace skep::aggregator
