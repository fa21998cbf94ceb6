#include "aggregator/store/memory_store.h"

#include <algorithm>
#include <utility>

#include "aggregator/store/transitions.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr std::uint64_t kNoSeq = 0;

void SetRunState(RunRow& run, RunState state, int code, const std::string& reason) {
  run.state = state;
  run.code = code;
  run.reason = reason;
}

// A round that ends and lets its run go on does not wake a run that was paused meanwhile.
void EndRound(RunRow& run, RunState state, int code, const std::string& reason) {
  if (state != RunState::kRunning) SetRunState(run, state, code, reason);
}

bool IsAlive(RunState state) {
  return state == RunState::kRunning || state == RunState::kPaused;
}

}  // namespace

AssignmentRow* MemoryStore::Attempt::Assignment(const DeviceId& device) {
  const auto found = in_cohort.find(device);
  return found == in_cohort.end() ? nullptr : &rows.cohort[found->second];
}

Result<std::uint64_t> MemoryStore::Apply(const Transaction& transaction, WallMs,
                                         BodySource& bodies) {
  return std::visit(
      [&](const auto& tx) -> Result<std::uint64_t> {
        if constexpr (std::is_same_v<std::decay_t<decltype(tx)>, UpdateTx>) {
          return On(tx, bodies);
        } else {
          return On(tx);
        }
      },
      transaction);
}

Result<MemoryStore::Run*> MemoryStore::FindRun(const RunId& id) {
  for (const auto& run : runs_) {
    if (run->row.id == id) return run.get();
  }
  return Contradiction("no such run");
}

Result<MemoryStore::Attempt*> MemoryStore::FindAttempt(const AttemptKey& key) {
  const auto found = attempts_.find(key);
  if (found == attempts_.end()) return Contradiction("no such round");
  return &found->second;
}

Result<std::uint64_t> MemoryStore::On(const StartRunTx& tx) {
  for (const auto& run : runs_) {
    if (run->row.id == tx.run.id) return Contradiction("the run exists");
    if (run->row.name == tx.run.name && IsAlive(run->row.state)) {
      return Contradiction("a run of this name is alive");
    }
  }
  if (!models_.contains(tx.run.model)) return Contradiction("the model was not stored");
  runs_.push_back(std::make_unique<Run>(Run{.row = tx.run, .order = {}}));
  plans_[Sha256::Of(tx.run.plan)] = tx.run.plan;
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const ChangeRunTx& tx) {
  SKEP_ASSIGN(Run* const run, FindRun(tx.run));
  SKEP_TRY(MayChange(run->row.state, tx.state));
  SetRunState(run->row, tx.state, tx.code, tx.reason);
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const OpenRoundTx& tx) {
  SKEP_ASSIGN(Run* const run, FindRun(tx.round.key.run));
  RunFacts facts{.state = run->row.state,
                 .model = run->row.model,
                 .next_round = run->row.next_round,
                 .next_attempt = run->row.next_attempt};
  for (const AttemptKey& key : run->order) {
    facts.has_open_round = facts.has_open_round || !HasEnded(attempts_.at(key).rows.round.state);
  }
  SKEP_TRY(MayOpen(facts, tx));
  if (attempts_.contains(tx.round.key)) return Contradiction("the round was opened before");
  Attempt attempt{.rows = {.round = tx.round, .cohort = tx.cohort, .updates = {}},
                  .in_cohort = {},
                  .updated = {}};
  attempt.rows.round.state = RoundState::kOpen;
  for (std::size_t i = 0; i < tx.cohort.size(); ++i) {
    if (!attempt.in_cohort.emplace(tx.cohort[i].device, i).second) {
      return Contradiction("a device is in twice");
    }
  }
  if (tx.plan.empty() && !plans_.contains(tx.plan_sha256)) return Contradiction("no such plan");
  if (!tx.plan.empty()) plans_[tx.plan_sha256] = tx.plan;
  attempts_.emplace(tx.round.key, std::move(attempt));
  run->order.push_back(tx.round.key);
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const AssignTx& tx) {
  SKEP_ASSIGN(Attempt* const attempt, FindAttempt(tx.key));
  SKEP_TRY(MayAssign(attempt->rows.round.state));
  if (attempt->Assignment(tx.assignment.device) != nullptr) {
    return Contradiction("the device is in already");
  }
  attempt->in_cohort[tx.assignment.device] = attempt->rows.cohort.size();
  attempt->rows.cohort.push_back(tx.assignment);
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const EndAssignmentTx& tx) {
  SKEP_ASSIGN(Attempt* const attempt, FindAttempt(tx.key));
  AssignmentRow* const assignment = attempt->Assignment(tx.device);
  if (assignment == nullptr) return Contradiction("no such assignment");
  SKEP_TRY(MayEnd(attempt->rows.round.state, *assignment, tx));
  assignment->state = tx.state;
  assignment->code = tx.code;
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const UpdateTx& tx, BodySource& bodies) {
  SKEP_ASSIGN(Attempt* const attempt, FindAttempt(tx.key));
  AssignmentRow* const assignment = attempt->Assignment(tx.update.device);
  if (assignment == nullptr) return Contradiction("no such assignment");
  SKEP_TRY(MayUpdate(attempt->rows.round.state, assignment->state));
  if (update_ids_.contains(tx.update.update)) return Contradiction("the update id was used");
  if (tx.update.upload != 0) {
    const std::shared_ptr<const Bytes> body = bodies.Body(tx.update.upload);
    if (body == nullptr || body->size() != tx.update.size) {
      return Contradiction("the body is not there");
    }
    if (!uploads_.insert(tx.update.upload).second) {
      return Contradiction("the upload number was used");
    }
    bodies_[tx.update.upload] = body;
    next_upload_ = std::max(next_upload_, tx.update.upload + 1);
  }
  update_ids_.insert(tx.update.update);
  attempt->updated[tx.update.device] = attempt->rows.updates.size();
  attempt->rows.updates.push_back(tx.update);
  attempt->rows.updates.back().seq = next_seq_;
  assignment->state = AssignmentState::kAcknowledged;
  assignment->code = 0;
  return next_seq_++;
}

Result<std::uint64_t> MemoryStore::On(const CloseRoundTx& tx) {
  SKEP_ASSIGN(Attempt* const attempt, FindAttempt(tx.key));
  SKEP_TRY(MayClose(attempt->rows.round.state));
  attempt->rows.round.state = RoundState::kClosing;
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const PublishTx& tx) {
  SKEP_ASSIGN(Run* const run, FindRun(tx.key.run));
  SKEP_ASSIGN(Attempt* const attempt, FindAttempt(tx.key));
  SKEP_TRY(MayPublish(attempt->rows.round.state, tx));
  if (!models_.contains(tx.model_out)) return Contradiction("the model was not stored");
  attempt->rows.round.state = RoundState::kPublished;
  attempt->rows.round.model_out = tx.model_out;
  attempt->rows.round.total_weight = tx.total_weight;
  attempt->rows.round.metrics = tx.metrics;
  ForgetBodies(*attempt);
  run->row.model = tx.model_out;
  run->row.next_round = tx.next_round;
  run->row.next_attempt = 1;
  run->row.abandoned_in_a_row = 0;
  EndRound(run->row, tx.run_state, 0, tx.reason);
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const AbandonTx& tx) {
  SKEP_ASSIGN(Run* const run, FindRun(tx.key.run));
  SKEP_ASSIGN(Attempt* const attempt, FindAttempt(tx.key));
  SKEP_TRY(MayAbandon(attempt->rows.round.state));
  attempt->rows.round.state = RoundState::kAbandoned;
  attempt->rows.round.reason = tx.reason;
  ForgetBodies(*attempt);
  if (tx.key.kind == TaskKind::kTrain) {
    run->row.next_attempt = tx.next_attempt;
    run->row.abandoned_in_a_row = tx.abandoned_in_a_row;
  }
  EndRound(run->row, tx.run_state, tx.code, tx.reason);
  return kNoSeq;
}

Result<std::uint64_t> MemoryStore::On(const EvaluatedTx& tx) {
  SKEP_ASSIGN(Run* const run, FindRun(tx.key.run));
  SKEP_ASSIGN(Attempt* const attempt, FindAttempt(tx.key));
  SKEP_TRY(MayEvaluate(attempt->rows.round.state, tx.key.kind));
  std::vector<Metric>& metrics = attempt->rows.round.metrics;
  metrics.insert(metrics.end(), tx.metrics.begin(), tx.metrics.end());
  if (tx.key.kind == TaskKind::kTrain) {
    run->evaluated_round = std::max(run->evaluated_round, tx.key.round);
  } else {
    attempt->rows.round.state = RoundState::kPublished;
    ForgetBodies(*attempt);
  }
  EndRound(run->row, tx.run_state, 0, tx.reason);
  return kNoSeq;
}

void MemoryStore::ForgetBodies(const Attempt& attempt) {
  for (const UpdateRow& update : attempt.rows.updates) bodies_.erase(update.upload);
}

Result<StoreSnapshot> MemoryStore::Load() {
  StoreSnapshot snapshot{.federation = federation_,
                         .epoch = epoch_,
                         .next_seq = next_seq_,
                         .next_upload = next_upload_,
                         .runs = {}};
  for (const auto& run : runs_) {
    RunSnapshot& one = snapshot.runs.emplace_back();
    one.run = run->row;
    one.evaluated_round = run->evaluated_round;
    std::map<ClientNumber, ContributionRow> latest;
    for (const AttemptKey& key : run->order) {
      const OpenRound& attempt = attempts_.at(key).rows;
      const bool counts =
          key.kind == TaskKind::kTrain && attempt.round.state == RoundState::kPublished;
      for (const UpdateRow& update : attempt.updates) {
        if (counts) latest[update.client] = {update.client, update.update, attempt.round.opened};
      }
      if (HasEnded(attempt.round.state)) {
        one.rounds.push_back(attempt.round);
      } else {
        one.open_rounds.push_back(attempt);
      }
    }
    if (!IsAlive(run->row.state)) continue;
    for (const auto& [client, contribution] : latest) one.contributions.push_back(contribution);
  }
  return snapshot;
}

Result<std::optional<StoredVerdict>> MemoryStore::Verdict(const AttemptKey& task,
                                                          const DeviceId& device) {
  const auto found = attempts_.find(task);
  if (found == attempts_.end()) return std::optional<StoredVerdict>();
  Attempt& attempt = found->second;
  if (const auto updated = attempt.updated.find(device); updated != attempt.updated.end()) {
    const UpdateRow& update = attempt.rows.updates[updated->second];
    return std::optional(StoredVerdict{update.update, update.sha256, update.seq, 0});
  }
  const AssignmentRow* const assignment = attempt.Assignment(device);
  if (assignment == nullptr || assignment->state != AssignmentState::kRefused) {
    return std::optional<StoredVerdict>();
  }
  return std::optional(StoredVerdict{.update = {}, .sha256 = {}, .code = assignment->code});
}

Result<Bytes> MemoryStore::UpdateBody(UploadNumber upload) {
  const auto found = bodies_.find(upload);
  if (found == bodies_.end()) return Contradiction("no such update body");
  return *found->second;
}

Status MemoryStore::PutModel(const Hash32& hash, BytesView bytes) {
  if (Sha256::Of(bytes) != hash) return Error{4008, "the model has another hash", ""};
  models_[hash] = Bytes(bytes.begin(), bytes.end());
  return Ok();
}

Result<Bytes> MemoryStore::GetModel(const Hash32& hash) {
  const auto found = models_.find(hash);
  if (found == models_.end()) return Error{4008, "model " + hash.Hex() + " is missing", ""};
  return found->second;
}

Result<Bytes> MemoryStore::GetPlan(const Hash32& hash) {
  const auto found = plans_.find(hash);
  if (found == plans_.end()) return Error{2214, "plan " + hash.Hex() + " is unknown", ""};
  return found->second;
}

}  // namespace skep::aggregator
