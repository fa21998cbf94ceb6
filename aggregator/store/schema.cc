#include "aggregator/store/schema.h"

#include <string>

namespace skep::aggregator {
namespace {

constexpr std::int64_t kApplicationId = 0x534B4550;  // "SKEP"

constexpr const char* kTablesOfDevices = R"sql(
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT;
CREATE TABLE populations (
  name TEXT PRIMARY KEY, is_open INTEGER NOT NULL, created INTEGER NOT NULL,
  next_client INTEGER NOT NULL) STRICT;
CREATE TABLE devices (
  device BLOB PRIMARY KEY CHECK (length(device) = 16), hint TEXT NOT NULL, state TEXT NOT NULL,
  strikes INTEGER NOT NULL, enrolled INTEGER NOT NULL, last_seen INTEGER NOT NULL,
  software TEXT NOT NULL) STRICT;
CREATE TABLE memberships (
  device BLOB NOT NULL REFERENCES devices, population TEXT NOT NULL REFERENCES populations,
  since INTEGER NOT NULL, client_number INTEGER NOT NULL,
  PRIMARY KEY (device, population), UNIQUE (population, client_number)) STRICT;
CREATE TABLE certificates (
  serial BLOB PRIMARY KEY CHECK (length(serial) = 16), device BLOB NOT NULL REFERENCES devices,
  key_sha256 BLOB NOT NULL CHECK (length(key_sha256) = 32), not_before INTEGER NOT NULL,
  not_after INTEGER NOT NULL, state TEXT NOT NULL, issued INTEGER NOT NULL,
  der BLOB NOT NULL) STRICT;
CREATE INDEX certificates_of_key ON certificates (key_sha256);
CREATE UNIQUE INDEX certificates_live_key ON certificates (key_sha256) WHERE state = 'live';
CREATE INDEX certificates_of_device ON certificates (device);
CREATE TABLE tokens (
  secret_sha256 BLOB PRIMARY KEY CHECK (length(secret_sha256) = 32),
  token BLOB NOT NULL UNIQUE CHECK (length(token) = 8),
  population TEXT NOT NULL REFERENCES populations, client_number INTEGER NOT NULL,
  created INTEGER NOT NULL, created_by TEXT NOT NULL, expires INTEGER NOT NULL,
  used INTEGER, key_sha256 BLOB, device BLOB REFERENCES devices,
  UNIQUE (population, client_number)) STRICT;
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
  target TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
)sql";

constexpr const char* kTablesOfRuns = R"sql(
CREATE TABLE plans (sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32), bytes BLOB NOT NULL) STRICT;
CREATE TABLE blobs (
  sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32), kind TEXT NOT NULL, size INTEGER NOT NULL,
  created INTEGER NOT NULL) STRICT;
CREATE TABLE runs (
  position INTEGER PRIMARY KEY, run BLOB NOT NULL UNIQUE CHECK (length(run) = 16),
  name TEXT NOT NULL, population TEXT NOT NULL, state TEXT NOT NULL, code INTEGER NOT NULL,
  reason TEXT NOT NULL, experiment TEXT NOT NULL, seed INTEGER NOT NULL,
  plan BLOB NOT NULL REFERENCES plans, model BLOB NOT NULL REFERENCES blobs,
  next_round INTEGER NOT NULL, next_attempt INTEGER NOT NULL, abandoned INTEGER NOT NULL,
  scale INTEGER NOT NULL, request_key TEXT NOT NULL, started INTEGER NOT NULL,
  evaluated_round INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX runs_alive ON runs (name) WHERE state IN ('running', 'paused');
CREATE TABLE rounds (
  position INTEGER PRIMARY KEY, run BLOB NOT NULL REFERENCES runs (run), round INTEGER NOT NULL,
  kind INTEGER NOT NULL, attempt INTEGER NOT NULL, epoch INTEGER NOT NULL, state TEXT NOT NULL,
  payload BLOB NOT NULL, key_id BLOB NOT NULL, signature BLOB NOT NULL,
  plan BLOB NOT NULL REFERENCES plans, opened INTEGER NOT NULL, deadline INTEGER NOT NULL,
  ended INTEGER, model_in BLOB NOT NULL REFERENCES blobs, model_out BLOB REFERENCES blobs,
  total_weight INTEGER NOT NULL, code INTEGER NOT NULL, reason TEXT NOT NULL,
  UNIQUE (run, round, kind, attempt)) STRICT;
CREATE UNIQUE INDEX rounds_open ON rounds (run) WHERE state IN ('open', 'closing');
CREATE TABLE round_metrics (
  round INTEGER NOT NULL REFERENCES rounds, position INTEGER NOT NULL, name TEXT NOT NULL,
  value REAL, clients INTEGER NOT NULL, PRIMARY KEY (round, position)) STRICT;
CREATE TABLE assignments (
  round INTEGER NOT NULL REFERENCES rounds, device BLOB NOT NULL CHECK (length(device) = 16),
  position INTEGER NOT NULL, client_number INTEGER NOT NULL, offered INTEGER NOT NULL,
  state TEXT NOT NULL, code INTEGER NOT NULL, PRIMARY KEY (round, device)) STRICT;
CREATE TABLE updates (
  seq INTEGER PRIMARY KEY, update_id BLOB NOT NULL UNIQUE CHECK (length(update_id) = 16),
  round INTEGER NOT NULL REFERENCES rounds, device BLOB NOT NULL, client_number INTEGER NOT NULL,
  upload INTEGER UNIQUE, size INTEGER NOT NULL, sha256 BLOB NOT NULL, encoding INTEGER NOT NULL,
  weight INTEGER NOT NULL, norm REAL, aux_norm REAL, train_ms INTEGER NOT NULL,
  received INTEGER NOT NULL, included INTEGER, body BLOB, UNIQUE (round, device),
  FOREIGN KEY (round, device) REFERENCES assignments) STRICT;
CREATE TABLE update_metrics (
  seq INTEGER NOT NULL REFERENCES updates, position INTEGER NOT NULL, name TEXT NOT NULL,
  value REAL, clients INTEGER NOT NULL, PRIMARY KEY (seq, position)) STRICT;
CREATE TABLE participation (
  run BLOB NOT NULL REFERENCES runs (run), device BLOB NOT NULL, contributions INTEGER NOT NULL,
  last_round INTEGER NOT NULL, last_time INTEGER NOT NULL, PRIMARY KEY (run, device)) STRICT;
)sql";

// What outside readers may rely on; the tables may change with any version.
constexpr const char* kViews = R"sql(
CREATE VIEW v_runs AS SELECT
  lower(hex(run)) AS run, name, population, state, code, reason, next_round, next_attempt,
  lower(hex(model)) AS model_sha256, started AS started_ms FROM runs;
CREATE VIEW v_rounds AS SELECT
  lower(hex(rounds.run)) AS run, runs.name AS name, rounds.round AS round, rounds.kind AS kind,
  rounds.attempt AS attempt, rounds.state AS state, rounds.reason AS reason,
  opened AS opened_ms, ended AS ended_ms, total_weight,
  lower(hex(model_in)) AS model_in, lower(hex(model_out)) AS model_out,
  (SELECT count(*) FROM assignments WHERE assignments.round = rounds.position) AS invited,
  (SELECT count(*) FROM updates WHERE updates.round = rounds.position) AS acknowledged
  FROM rounds JOIN runs ON runs.run = rounds.run;
CREATE VIEW v_devices AS SELECT
  lower(hex(devices.device)) AS device, hint, population, client_number, state, strikes,
  enrolled AS enrolled_ms, last_seen AS last_seen_ms
  FROM devices LEFT JOIN memberships ON memberships.device = devices.device;
)sql";

Result<std::int64_t> Pragma(Database& database, const char* sql) {
  SKEP_ASSIGN(const std::optional<std::int64_t> value, database.Number(sql));
  return value.value_or(0);
}

}  // namespace

Status Configure(Database& database) {
  // page_size counts only before the first page is written.
  return database.Execute(
      "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
      "PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=0; PRAGMA mmap_size=0;"
      "PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON;");
}

Status CreateSchema(Database& database, const FederationId& federation, WallMs now) {
  SKEP_TRY(database.Execute("BEGIN IMMEDIATE"));
  SKEP_TRY(database.Execute(kTablesOfDevices));
  SKEP_TRY(database.Execute(kTablesOfRuns));
  SKEP_TRY(database.Execute(kViews));
  constexpr const char* kInsert = "INSERT INTO meta (name, value) VALUES (?, ?)";
  SKEP_TRY(database.Run(kInsert, "federation", federation));
  SKEP_TRY(database.Run(kInsert, "epoch", 1));
  SKEP_TRY(database.Run(kInsert, "created", now));
  SKEP_TRY(database.Run(kInsert, "is_clean", 1));
  SKEP_TRY(database.Execute("PRAGMA application_id=0x534B4550; PRAGMA user_version=1;"));
  return database.Execute("COMMIT");
}

Status CheckSchema(Database& database) {
  SKEP_ASSIGN(const std::int64_t application, Pragma(database, "PRAGMA application_id"));
  if (application != kApplicationId) {
    return Error{4006, "the database is not one of skep-aggregator", "restore a backup"};
  }
  SKEP_ASSIGN(const std::int64_t version, Pragma(database, "PRAGMA user_version"));
  if (version == kSchemaVersion) return Ok();
  const bool is_newer = version > kSchemaVersion;
  return Error{
      is_newer ? 4012 : 4013,
      "the database has schema " + std::to_string(version) + ", this program reads " +
          std::to_string(kSchemaVersion),
      is_newer ? "use the newer program" : "open it with the version before this one first"};
}

Status QuickCheck(Database& database) {
  return database.ForEach("PRAGMA quick_check(1)", [](const Statement& row) -> Status {
    const std::string found = row.Text(0);
    if (found == "ok") return Ok();
    return Error{4006, "the database is damaged: " + found, "restore a backup"};
  });
}

}  // namespace skep::aggregator
