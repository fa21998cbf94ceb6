// What recovery reads, and what it finds damaged.
#include <string>
#include <utility>

#include "aggregator/store/row_text.h"
#include "aggregator/store/sqlite_rounds.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

Result<RoundRow> ReadRound(const Statement& row, const AttemptKey& key, RoundState state) {
  RoundRow round;
  round.key = key;
  round.state = state;
  round.epoch = row.Int<std::uint32_t>(0);
  const BytesView payload = row.Blob(1);
  round.manifest.payload.assign(payload.begin(), payload.end());
  round.manifest.key_id = row.Id<KeyId>(2);
  round.manifest.signature = row.Id<wire::Signature>(3);
  round.opened = row.Int<WallMs>(4);
  round.deadline = row.Int<WallMs>(5);
  round.model_in = row.Id<Hash32>(6);
  round.model_out = row.Id<Hash32>(7);
  round.total_weight = row.Int<std::uint64_t>(8);
  round.reason = row.Text(9);
  return round;
}

Status ReadMetrics(Database& database, const char* sql, std::int64_t owner,
                   std::vector<Metric>& metrics) {
  return database.ForEach(
      sql,
      [&](const Statement& row) {
        metrics.push_back({row.Text(0), row.Real(1), row.Int<std::uint32_t>(2)});
        return Ok();
      },
      owner);
}

Result<RoundRow> LoadRoundRow(Database& database, const AttemptKey& key, const RoundPlace& place) {
  RoundRow round;
  SKEP_TRY(database.ForEach(
      "SELECT epoch, payload, key_id, signature, opened, deadline, model_in, model_out,"
      " total_weight, reason FROM rounds WHERE position = ?",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(round, ReadRound(row, key, place.state));
        return Ok();
      },
      place.position));
  SKEP_TRY(ReadMetrics(
      database, "SELECT name, value, clients FROM round_metrics WHERE round = ? ORDER BY position",
      place.position, round.metrics));
  return round;
}

Status LoadCohort(Database& database, const RoundPlace& place, OpenRound& round) {
  return database.ForEach(
      "SELECT device, client_number, state, code FROM assignments WHERE round = ?"
      " ORDER BY position",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(const AssignmentState state,
                    FromWord<AssignmentState>(kAssignmentStates, row.Text(2)));
        round.cohort.push_back(
            {row.Id<DeviceId>(0), row.Int<ClientNumber>(1), state, row.Int<int>(3)});
        return Ok();
      },
      place.position);
}

UpdateRow ReadUpdate(const Statement& row) {
  UpdateRow update;
  update.seq = row.Int<std::uint64_t>(0);
  update.update = row.Id<UpdateId>(1);
  update.device = row.Id<DeviceId>(2);
  update.client = row.Int<ClientNumber>(3);
  update.upload = row.Int<UploadNumber>(4);  // null reads as 0
  update.size = row.Int<std::uint64_t>(5);
  update.sha256 = row.Id<Hash32>(6);
  update.encoding = static_cast<wire::Encoding>(row.Int<std::uint32_t>(7));
  update.weight = row.Int<std::uint32_t>(8);
  update.norm = row.Real(9);
  update.aux_norm = row.Real(10);
  update.train_ms = row.Int<std::uint32_t>(11);
  return update;
}

Status LoadUpdates(Database& database, const RoundPlace& place, OpenRound& round) {
  SKEP_TRY(database.ForEach(
      "SELECT seq, update_id, device, client_number, upload, size, sha256, encoding, weight, norm,"
      " aux_norm, train_ms FROM updates WHERE round = ? ORDER BY seq",
      [&](const Statement& row) {
        round.updates.push_back(ReadUpdate(row));
        return Ok();
      },
      place.position));
  for (UpdateRow& update : round.updates) {
    SKEP_TRY(ReadMetrics(
        database, "SELECT name, value, clients FROM update_metrics WHERE seq = ? ORDER BY position",
        static_cast<std::int64_t>(update.seq), update.metrics));
  }
  return Ok();
}

// SKEP-4007: an acknowledged update of a round that goes on is not there as it was.
Status CheckBodies(Database& database, const RoundPlace& place) {
  return database.ForEach(
      "SELECT seq, size, sha256, body FROM updates WHERE round = ? AND upload IS NOT NULL",
      [](const Statement& row) -> Status {
        const BytesView body = row.Blob(3);
        const bool is_whole =
            body.size() == row.Int<std::uint64_t>(1) && Sha256::Of(body) == row.Id<Hash32>(2);
        if (is_whole) return Ok();
        return Error{4007, "acknowledged update " + row.Text(0) + " is missing or damaged",
                     "abandon the round or restore a backup"};
      },
      place.position);
}

struct StoredRound {
  AttemptKey key;
  RoundPlace place;
};

Result<std::vector<StoredRound>> RoundsOf(Database& database, const RunId& run) {
  std::vector<StoredRound> rounds;
  SKEP_TRY(database.ForEach(
      "SELECT round, kind, attempt, position, state FROM rounds WHERE run = ? ORDER BY position",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(const RoundState state, FromWord<RoundState>(kRoundStates, row.Text(4)));
        rounds.push_back({{.run = run,
                           .round = row.Int<std::uint32_t>(0),
                           .kind = static_cast<TaskKind>(row.Int<std::uint32_t>(1)),
                           .attempt = row.Int<std::uint32_t>(2)},
                          {row.Int<std::int64_t>(3), state}});
        return Ok();
      },
      run));
  return rounds;
}

Result<std::vector<RunSnapshot>> LoadRuns(Database& database) {
  std::vector<RunSnapshot> runs;
  SKEP_TRY(database.ForEach(
      "SELECT run, name, population, state, code, reason, experiment, seed, plans.bytes, model,"
      " next_round, next_attempt, abandoned, scale, request_key, evaluated_round"
      " FROM runs JOIN plans ON plans.sha256 = runs.plan ORDER BY position",
      [&](const Statement& row) -> Status {
        RunSnapshot& snapshot = runs.emplace_back();
        RunRow& run = snapshot.run;
        run.id = row.Id<RunId>(0);
        run.name = row.Text(1);
        run.population = row.Text(2);
        SKEP_ASSIGN(run.state, FromWord<RunState>(kRunStates, row.Text(3)));
        run.code = row.Int<int>(4);
        run.reason = row.Text(5);
        run.experiment_toml = row.Text(6);
        run.seed = row.Int<std::uint64_t>(7);
        const BytesView plan = row.Blob(8);
        run.plan.assign(plan.begin(), plan.end());
        run.model = row.Id<Hash32>(9);
        run.next_round = row.Int<std::uint32_t>(10);
        run.next_attempt = row.Int<std::uint32_t>(11);
        run.abandoned_in_a_row = row.Int<std::uint32_t>(12);
        run.scale = row.Int<int>(13);
        run.request_key = row.Text(14);
        snapshot.evaluated_round = row.Int<std::uint32_t>(15);
        return Ok();
      }));
  return runs;
}

// The latest update of each client in a published model: SQLite takes the other columns from the
// row of the maximum.
Status LoadContributions(Database& database, RunSnapshot& snapshot) {
  return database.ForEach(
      "SELECT client_number, update_id, opened, max(rounds.round) FROM updates"
      " JOIN rounds ON rounds.position = updates.round"
      " WHERE rounds.run = ? AND rounds.kind = ? AND rounds.state = 'published'"
      " GROUP BY client_number",
      [&](const Statement& row) {
        snapshot.contributions.push_back(
            {row.Int<ClientNumber>(0), row.Id<UpdateId>(1), row.Int<WallMs>(2)});
        return Ok();
      },
      snapshot.run.id, static_cast<int>(TaskKind::kTrain));
}

bool IsAlive(const RunRow& run) {
  return run.state == RunState::kRunning || run.state == RunState::kPaused;
}

// A run whose model or acknowledged updates are not what was stored must not go on.
Status HaltIfDamaged(Database& database, const ModelFiles& models, RunSnapshot& snapshot,
                     Status bodies) {
  RunRow& run = snapshot.run;
  if (!IsAlive(run)) return Ok();
  Status damage = std::move(bodies);
  if (damage) {
    if (Result<Bytes> model = models.Get(run.model); !model) damage = std::move(model).error();
  }
  if (damage) return Ok();
  const Error& why = damage.error();
  if (why.code != 4007 && why.code != 4008) return why;
  run.state = RunState::kHalted;
  run.code = why.code;
  run.reason = why.message;
  return database.Run("UPDATE runs SET state = 'halted', code = ?, reason = ? WHERE run = ?",
                      run.code, run.reason, run.id);
}

}  // namespace

Result<std::optional<RoundPlace>> FindRound(Database& database, const AttemptKey& key) {
  std::optional<RoundPlace> place;
  SKEP_TRY(database.ForEach(
      "SELECT position, state FROM rounds WHERE run = ? AND round = ? AND kind = ? AND attempt = ?",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(const RoundState state, FromWord<RoundState>(kRoundStates, row.Text(1)));
        place = RoundPlace{row.Int<std::int64_t>(0), state};
        return Ok();
      },
      key.run, key.round, static_cast<int>(key.kind), key.attempt));
  return place;
}

Result<std::vector<RoundRow>> LoadAttempts(Database& database, const RunId& run) {
  std::vector<RoundRow> attempts;
  SKEP_ASSIGN(const std::vector<StoredRound> rounds, RoundsOf(database, run));
  for (const StoredRound& round : rounds) {
    SKEP_ASSIGN(RoundRow row, LoadRoundRow(database, round.key, round.place));
    attempts.push_back(std::move(row));
  }
  return attempts;
}

Result<OpenRound> LoadRound(Database& database, const AttemptKey& key, const RoundPlace& place) {
  OpenRound round;
  SKEP_ASSIGN(round.round, LoadRoundRow(database, key, place));
  SKEP_TRY(LoadCohort(database, place, round));
  SKEP_TRY(LoadUpdates(database, place, round));
  return round;
}

Result<StoreSnapshot> LoadSnapshot(Database& database, const ModelFiles& models) {
  StoreSnapshot snapshot;
  SKEP_TRY(database.ForEach(
      "SELECT (SELECT value FROM meta WHERE name = 'federation'),"
      " (SELECT value FROM meta WHERE name = 'epoch'),"
      " (SELECT ifnull(max(seq), 0) FROM updates), (SELECT ifnull(max(upload), 0) FROM updates)",
      [&](const Statement& row) {
        snapshot.federation = row.Id<FederationId>(0);
        snapshot.epoch = row.Int<std::uint32_t>(1);
        snapshot.next_seq = row.Int<std::uint64_t>(2) + 1;
        snapshot.next_upload = row.Int<UploadNumber>(3) + 1;
        return Ok();
      }));
  SKEP_ASSIGN(snapshot.runs, LoadRuns(database));
  for (RunSnapshot& run : snapshot.runs) {
    Status bodies = Ok();
    SKEP_ASSIGN(const std::vector<StoredRound> rounds, RoundsOf(database, run.run.id));
    for (const StoredRound& round : rounds) {
      const bool has_ended = round.place.state == RoundState::kPublished ||
                             round.place.state == RoundState::kAbandoned;
      if (has_ended) {
        SKEP_ASSIGN(RoundRow row, LoadRoundRow(database, round.key, round.place));
        run.rounds.push_back(std::move(row));
        continue;
      }
      SKEP_ASSIGN(OpenRound open, LoadRound(database, round.key, round.place));
      run.open_rounds.push_back(std::move(open));
      if (bodies) bodies = CheckBodies(database, round.place);
    }
    if (IsAlive(run.run)) SKEP_TRY(LoadContributions(database, run));
    SKEP_TRY(HaltIfDamaged(database, models, run, std::move(bodies)));
  }
  return snapshot;
}

Result<std::optional<StoredVerdict>> LoadVerdict(Database& database, const AttemptKey& task,
                                                 const DeviceId& device) {
  std::optional<StoredVerdict> verdict;
  SKEP_ASSIGN(const std::optional<RoundPlace> place, FindRound(database, task));
  if (!place) return verdict;
  SKEP_TRY(database.ForEach(
      "SELECT update_id, sha256, seq FROM updates WHERE round = ? AND device = ?",
      [&](const Statement& row) {
        verdict =
            StoredVerdict{row.Id<UpdateId>(0), row.Id<Hash32>(1), row.Int<std::uint64_t>(2), 0};
        return Ok();
      },
      place->position, device));
  if (verdict) return verdict;
  SKEP_TRY(database.ForEach(
      "SELECT code FROM assignments WHERE round = ? AND device = ? AND state = 'refused'",
      [&](const Statement& row) {
        verdict = StoredVerdict{.update = {}, .sha256 = {}, .seq = 0, .code = row.Int<int>(0)};
        return Ok();
      },
      place->position, device));
  return verdict;
}

}  // namespace skep::aggregator
