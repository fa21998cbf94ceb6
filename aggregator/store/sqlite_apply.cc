// The transactions T1 to T7 and those of runs, as SQL.
#include <string>

#include "aggregator/store/row_text.h"
#include "aggregator/store/sqlite_rounds.h"
#include "aggregator/store/transitions.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr std::uint64_t kNoSeq = 0;
constexpr std::string_view kActor = "aggregator";

Result<RoundPlace> NeedRound(Database& database, const AttemptKey& key) {
  SKEP_ASSIGN(const std::optional<RoundPlace> place, FindRound(database, key));
  if (!place) return Contradiction("no such round");
  return *place;
}

Status SetRunState(Database& database, const RunId& run, RunState state, int code,
                   const std::string& reason) {
  return database.Run("UPDATE runs SET state = ?, code = ?, reason = ? WHERE run = ?", Word(state),
                      code, reason, run);
}

// A round that ends and lets its run go on does not wake a run that was paused meanwhile.
Status EndRound(Database& database, const RunId& run, RunState state, int code,
                const std::string& reason) {
  if (state == RunState::kRunning) return Ok();
  return SetRunState(database, run, state, code, reason);
}

// A model may be named once its file is durable.
Status NameModel(const ApplyContext& context, const Hash32& model) {
  const Result<std::uint64_t> size = context.models.Size(model);
  if (!size) return Contradiction("the model was not stored");
  return context.database.Run(
      "INSERT OR IGNORE INTO blobs (sha256, kind, size, created) VALUES (?, 'model', ?, ?)", model,
      *size, context.now);
}

Status NamePlan(Database& database, const Hash32& hash, const Bytes& bytes) {
  if (bytes.empty()) return Ok();  // named by a row only if it is there: a foreign key
  return database.Run("INSERT OR IGNORE INTO plans (sha256, bytes) VALUES (?, ?)", hash, bytes);
}

Status AddMetrics(Database& database, std::int64_t round, const std::vector<Metric>& metrics) {
  SKEP_ASSIGN(const std::optional<std::int64_t> count,
              database.Number("SELECT count(*) FROM round_metrics WHERE round = ?", round));
  std::int64_t position = count.value_or(0);
  for (const Metric& metric : metrics) {
    SKEP_TRY(database.Run(
        "INSERT INTO round_metrics (round, position, name, value, clients) VALUES (?, ?, ?, ?, ?)",
        round, position++, metric.name, metric.value, metric.clients));
  }
  return Ok();
}

Status AddAssignment(const ApplyContext& context, std::int64_t round, std::size_t position,
                     const AssignmentRow& assignment) {
  return context.database.Run(
      "INSERT INTO assignments (round, device, position, client_number, offered, state, code)"
      " VALUES (?, ?, ?, ?, ?, ?, ?)",
      round, assignment.device, position, assignment.client, context.now, Word(assignment.state),
      assignment.code);
}

Result<std::uint64_t> On(const ApplyContext& context, const StartRunTx& tx) {
  const RunRow& run = tx.run;
  SKEP_TRY(NameModel(context, run.model));
  const Hash32 plan = Sha256::Of(run.plan);
  SKEP_TRY(context.database.Run("INSERT OR IGNORE INTO plans (sha256, bytes) VALUES (?, ?)", plan,
                                run.plan));
  SKEP_TRY(context.database.Run(
      "INSERT INTO runs (run, name, population, state, code, reason, experiment, seed, plan, model,"
      " next_round, next_attempt, abandoned, scale, request_key, started, evaluated_round)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
      run.id, run.name, run.population, Word(run.state), run.code, run.reason, run.experiment_toml,
      run.seed, plan, run.model, run.next_round, run.next_attempt, run.abandoned_in_a_row,
      run.scale, run.request_key, context.now));
  SKEP_TRY(AppendAudit(context.database, context.now, kActor, "run start", run.id.Hex(), run.name));
  return kNoSeq;
}

Result<std::uint64_t> On(const ApplyContext& context, const ChangeRunTx& tx) {
  std::optional<RunState> from;
  SKEP_TRY(context.database.ForEach(
      "SELECT state FROM runs WHERE run = ?",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(from, FromWord<RunState>(kRunStates, row.Text(0)));
        return Ok();
      },
      tx.run));
  if (!from) return Contradiction("no such run");
  SKEP_TRY(MayChange(*from, tx.state));
  SKEP_TRY(SetRunState(context.database, tx.run, tx.state, tx.code, tx.reason));
  SKEP_TRY(AppendAudit(context.database, context.now, kActor, "run " + std::string(Word(tx.state)),
                       tx.run.Hex(), tx.reason));
  return kNoSeq;
}

Result<RunFacts> FindRunFacts(Database& database, const RunId& run) {
  std::optional<RunFacts> facts;
  SKEP_TRY(database.ForEach(
      "SELECT state, model, next_round, next_attempt, EXISTS (SELECT 1 FROM rounds WHERE"
      " rounds.run = runs.run AND rounds.state IN ('open', 'closing')) FROM runs WHERE run = ?",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(const RunState state, FromWord<RunState>(kRunStates, row.Text(0)));
        facts = RunFacts{.state = state,
                         .model = row.Id<Hash32>(1),
                         .next_round = row.Int<std::uint32_t>(2),
                         .next_attempt = row.Int<std::uint32_t>(3),
                         .has_open_round = row.Int<int>(4) != 0};
        return Ok();
      },
      run));
  if (!facts) return Contradiction("no such run");
  return *facts;
}

Result<std::uint64_t> On(const ApplyContext& context, const OpenRoundTx& tx) {
  Database& database = context.database;
  const RoundRow& round = tx.round;
  SKEP_ASSIGN(const RunFacts facts, FindRunFacts(database, round.key.run));
  SKEP_TRY(MayOpen(facts, tx));
  SKEP_TRY(NamePlan(database, tx.plan_sha256, tx.plan));
  SKEP_TRY(database.Run(
      "INSERT INTO rounds (run, round, kind, attempt, epoch, state, payload, key_id, signature,"
      " plan, opened, deadline, model_in, total_weight, code, reason)"
      " VALUES (?, ?, ?, ?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, 0, 0, '')",
      round.key.run, round.key.round, static_cast<int>(round.key.kind), round.key.attempt,
      round.epoch, round.manifest.payload, round.manifest.key_id, round.manifest.signature,
      tx.plan_sha256, round.opened, round.deadline, round.model_in));
  SKEP_ASSIGN(const RoundPlace place, NeedRound(database, round.key));
  for (std::size_t i = 0; i < tx.cohort.size(); ++i) {
    SKEP_TRY(AddAssignment(context, place.position, i, tx.cohort[i]));
  }
  return kNoSeq;
}

Result<std::uint64_t> On(const ApplyContext& context, const AssignTx& tx) {
  SKEP_ASSIGN(const RoundPlace place, NeedRound(context.database, tx.key));
  SKEP_TRY(MayAssign(place.state));
  SKEP_ASSIGN(
      const std::optional<std::int64_t> count,
      context.database.Number("SELECT count(*) FROM assignments WHERE round = ?", place.position));
  SKEP_TRY(AddAssignment(context, place.position, static_cast<std::size_t>(count.value_or(0)),
                         tx.assignment));
  return kNoSeq;
}

Result<AssignmentRow> NeedAssignment(Database& database, const RoundPlace& place,
                                     const DeviceId& device) {
  std::optional<AssignmentRow> assignment;
  SKEP_TRY(database.ForEach(
      "SELECT client_number, state, code FROM assignments WHERE round = ? AND device = ?",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(const AssignmentState state,
                    FromWord<AssignmentState>(kAssignmentStates, row.Text(1)));
        assignment = AssignmentRow{device, row.Int<ClientNumber>(0), state, row.Int<int>(2)};
        return Ok();
      },
      place.position, device));
  if (!assignment) return Contradiction("no such assignment");
  return *assignment;
}

Status SetAssignment(Database& database, const RoundPlace& place, const DeviceId& device,
                     AssignmentState state, int code) {
  return database.Run("UPDATE assignments SET state = ?, code = ? WHERE round = ? AND device = ?",
                      Word(state), code, place.position, device);
}

Result<std::uint64_t> On(const ApplyContext& context, const EndAssignmentTx& tx) {
  SKEP_ASSIGN(const RoundPlace place, NeedRound(context.database, tx.key));
  SKEP_ASSIGN(const AssignmentRow stored, NeedAssignment(context.database, place, tx.device));
  SKEP_TRY(MayEnd(place.state, stored, tx));
  SKEP_TRY(SetAssignment(context.database, place, tx.device, tx.state, tx.code));
  return kNoSeq;
}

Status InsertUpdate(const ApplyContext& context, const RoundPlace& place, const UpdateRow& update,
                    std::uint64_t seq) {
  std::optional<UploadNumber> upload;
  if (update.upload != 0) upload = update.upload;
  std::shared_ptr<const Bytes> body;
  if (upload) {
    body = context.bodies.Body(update.upload);
    if (body == nullptr || body->size() != update.size) return Contradiction("no such body");
  }
  const auto bytes = body == nullptr ? std::nullopt : std::optional<BytesView>(*body);
  SKEP_TRY(context.database.Run(
      "INSERT INTO updates (seq, update_id, round, device, client_number, upload, size, sha256,"
      " encoding, weight, norm, aux_norm, train_ms, received, body)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      seq, update.update, place.position, update.device, update.client, upload, update.size,
      update.sha256, static_cast<std::uint32_t>(update.encoding), update.weight, update.norm,
      update.aux_norm, update.train_ms, context.now, bytes));
  for (std::size_t i = 0; i < update.metrics.size(); ++i) {
    const Metric& metric = update.metrics[i];
    SKEP_TRY(context.database.Run(
        "INSERT INTO update_metrics (seq, position, name, value, clients) VALUES (?, ?, ?, ?, ?)",
        seq, i, metric.name, metric.value, metric.clients));
  }
  return Ok();
}

Result<std::uint64_t> On(const ApplyContext& context, const UpdateTx& tx) {
  Database& database = context.database;
  SKEP_ASSIGN(const RoundPlace place, NeedRound(database, tx.key));
  SKEP_ASSIGN(const AssignmentRow stored, NeedAssignment(database, place, tx.update.device));
  SKEP_TRY(MayUpdate(place.state, stored.state));
  SKEP_ASSIGN(const std::optional<std::int64_t> last,
              database.Number("SELECT max(seq) FROM updates"));
  const std::uint64_t seq = static_cast<std::uint64_t>(last.value_or(0)) + 1;
  SKEP_TRY(InsertUpdate(context, place, tx.update, seq));
  SKEP_TRY(SetAssignment(database, place, tx.update.device, AssignmentState::kAcknowledged, 0));
  return seq;
}

Result<std::uint64_t> On(const ApplyContext& context, const CloseRoundTx& tx) {
  SKEP_ASSIGN(const RoundPlace place, NeedRound(context.database, tx.key));
  SKEP_TRY(MayClose(place.state));
  SKEP_TRY(context.database.Run("UPDATE rounds SET state = 'closing' WHERE position = ?",
                                place.position));
  return kNoSeq;
}

// The bodies of an ended round are not needed again; their rows stay.
Status EndUpdates(Database& database, const RoundPlace& place, bool is_included) {
  return database.Run("UPDATE updates SET included = ?, body = NULL WHERE round = ?", is_included,
                      place.position);
}

Result<std::uint64_t> On(const ApplyContext& context, const PublishTx& tx) {
  Database& database = context.database;
  SKEP_ASSIGN(const RoundPlace place, NeedRound(database, tx.key));
  SKEP_TRY(MayPublish(place.state, tx));
  SKEP_TRY(NameModel(context, tx.model_out));
  SKEP_TRY(database.Run(
      "UPDATE rounds SET state = 'published', ended = ?, model_out = ?, total_weight = ?"
      " WHERE position = ?",
      context.now, tx.model_out, tx.total_weight, place.position));
  SKEP_TRY(AddMetrics(database, place.position, tx.metrics));
  SKEP_TRY(EndUpdates(database, place, true));
  SKEP_TRY(
      database.Run("INSERT INTO participation (run, device, contributions, last_round, last_time)"
                   " SELECT ?1, device, 1, ?2, ?3 FROM updates WHERE round = ?4"
                   " ON CONFLICT (run, device) DO UPDATE SET contributions = contributions + 1,"
                   " last_round = ?2, last_time = ?3",
                   tx.key.run, tx.key.round, context.now, place.position));
  SKEP_TRY(database.Run(
      "UPDATE runs SET model = ?, next_round = ?, next_attempt = 1, abandoned = 0 WHERE run = ?",
      tx.model_out, tx.next_round, tx.key.run));
  SKEP_TRY(EndRound(database, tx.key.run, tx.run_state, 0, tx.reason));
  SKEP_TRY(AppendAudit(database, context.now, kActor, "round published", tx.key.run.Hex(),
                       "round " + std::to_string(tx.key.round)));
  return kNoSeq;
}

Result<std::uint64_t> On(const ApplyContext& context, const AbandonTx& tx) {
  Database& database = context.database;
  SKEP_ASSIGN(const RoundPlace place, NeedRound(database, tx.key));
  SKEP_TRY(MayAbandon(place.state));
  SKEP_TRY(database.Run(
      "UPDATE rounds SET state = 'abandoned', ended = ?, code = ?, reason = ? WHERE position = ?",
      context.now, tx.code, tx.reason, place.position));
  SKEP_TRY(EndUpdates(database, place, false));
  if (tx.key.kind == TaskKind::kTrain) {
    SKEP_TRY(database.Run("UPDATE runs SET next_attempt = ?, abandoned = ? WHERE run = ?",
                          tx.next_attempt, tx.abandoned_in_a_row, tx.key.run));
  }
  SKEP_TRY(EndRound(database, tx.key.run, tx.run_state, tx.code, tx.reason));
  SKEP_TRY(AppendAudit(database, context.now, kActor, "attempt abandoned", tx.key.run.Hex(),
                       "round " + std::to_string(tx.key.round) + " attempt " +
                           std::to_string(tx.key.attempt) + ": " + tx.reason));
  return kNoSeq;
}

Result<std::uint64_t> On(const ApplyContext& context, const EvaluatedTx& tx) {
  Database& database = context.database;
  SKEP_ASSIGN(const RoundPlace place, NeedRound(database, tx.key));
  SKEP_TRY(MayEvaluate(place.state, tx.key.kind));
  SKEP_TRY(AddMetrics(database, place.position, tx.metrics));
  if (tx.key.kind == TaskKind::kTrain) {
    SKEP_TRY(database.Run("UPDATE runs SET evaluated_round = max(evaluated_round, ?) WHERE run = ?",
                          tx.key.round, tx.key.run));
  } else {
    SKEP_TRY(database.Run("UPDATE rounds SET state = 'published', ended = ? WHERE position = ?",
                          context.now, place.position));
    SKEP_TRY(EndUpdates(database, place, true));
  }
  SKEP_TRY(EndRound(database, tx.key.run, tx.run_state, 0, tx.reason));
  return kNoSeq;
}

}  // namespace

Result<std::uint64_t> ApplyTransaction(const ApplyContext& context,
                                       const Transaction& transaction) {
  return std::visit([&](const auto& tx) { return On(context, tx); }, transaction);
}

Status AppendAudit(Database& database, WallMs now, std::string_view actor, std::string_view action,
                   std::string_view target, std::string_view detail) {
  return database.Run(
      "INSERT INTO audit (time, actor, action, target, detail) VALUES (?, ?, ?, ?, ?)", now, actor,
      action, target, detail);
}

}  // namespace skep::aggregator
