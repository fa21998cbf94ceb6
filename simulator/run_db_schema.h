// The schema of run.db, exactly as docs/formats.md has it. Nobody but the writer and the reader of
// run.db includes this.
#pragma once

namespace skep::simulator {

inline constexpr int kRunDbApplication = 1397441874;  // the bytes 'SKER'
inline constexpr int kRunDbVersion = 1;

inline constexpr const char* kRunDbTables = R"sql(
CREATE TABLE run (
  run_id TEXT PRIMARY KEY, name TEXT NOT NULL, sweep_id TEXT, state TEXT NOT NULL
    CHECK (state IN ('running','finished','stopped','interrupted','failed')),
  seed INTEGER NOT NULL, config_sha256 TEXT NOT NULL, data_sha256 TEXT NOT NULL, config_toml TEXT NOT NULL, result_sha256 TEXT,
  version TEXT NOT NULL, command TEXT NOT NULL, device TEXT NOT NULL, isa TEXT NOT NULL, jobs INTEGER NOT NULL,
  rounds_planned INTEGER NOT NULL, model_parameters INTEGER NOT NULL, started_at TEXT NOT NULL, ended_at TEXT,
  wall_s REAL, code INTEGER, message TEXT) STRICT;
CREATE TABLE setting (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, key TEXT NOT NULL, value TEXT NOT NULL,
  source TEXT NOT NULL, PRIMARY KEY (run_id, key)) STRICT, WITHOUT ROWID;
CREATE TABLE round (
  run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, round INTEGER NOT NULL, attempt INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('published','abandoned')),
  invited INTEGER NOT NULL, started INTEGER NOT NULL, ok INTEGER NOT NULL, rejected INTEGER NOT NULL, failed INTEGER NOT NULL,
  dropped INTEGER NOT NULL, late INTEGER NOT NULL, bytes_up INTEGER NOT NULL, bytes_down INTEGER NOT NULL,
  ended_s REAL NOT NULL, virtual_s REAL, select_s REAL NOT NULL, train_s REAL NOT NULL, aggregate_s REAL NOT NULL,
  evaluate_s REAL NOT NULL, model_sha256 TEXT NOT NULL, PRIMARY KEY (run_id, round, attempt)) STRICT, WITHOUT ROWID;
CREATE TABLE metric (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, round INTEGER NOT NULL, name TEXT NOT NULL,
  value REAL, clients INTEGER, PRIMARY KEY (run_id, name, round)) STRICT, WITHOUT ROWID;  -- published attempts; clients: of a mean
CREATE TABLE client (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, client INTEGER NOT NULL, name TEXT,
  device_class TEXT, examples INTEGER NOT NULL, test_examples INTEGER NOT NULL, PRIMARY KEY (run_id, client)) STRICT, WITHOUT ROWID;
CREATE TABLE client_label (run_id TEXT NOT NULL, client INTEGER NOT NULL, label TEXT NOT NULL, examples INTEGER NOT NULL,
  PRIMARY KEY (run_id, client, label)) STRICT, WITHOUT ROWID;
CREATE TABLE participation (
  run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, round INTEGER NOT NULL, client INTEGER NOT NULL, attempt INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok','rejected','failed','dropped','late')), code INTEGER, message TEXT,
  examples INTEGER, steps INTEGER, train_loss REAL, update_norm REAL, staleness INTEGER NOT NULL DEFAULT 0, train_s REAL, virtual_s REAL,
  bytes_up INTEGER NOT NULL, bytes_down INTEGER NOT NULL, PRIMARY KEY (run_id, round, client, attempt, staleness)) STRICT, WITHOUT ROWID;
CREATE TABLE client_metric (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, round INTEGER NOT NULL, client INTEGER NOT NULL,
  name TEXT NOT NULL, value REAL, PRIMARY KEY (run_id, name, round, client)) STRICT, WITHOUT ROWID;
CREATE TABLE privacy (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, round INTEGER NOT NULL, attempt INTEGER NOT NULL, mechanism TEXT NOT NULL,
  clip_norm REAL, noise_multiplier REAL, epsilon REAL NOT NULL, delta REAL NOT NULL, PRIMARY KEY (run_id, round, attempt)) STRICT, WITHOUT ROWID;
CREATE TABLE note (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, sequence INTEGER NOT NULL, round INTEGER, attempt INTEGER, at_s REAL NOT NULL,
  level TEXT NOT NULL CHECK (level IN ('info','warning','error')), code INTEGER, message TEXT NOT NULL,
  PRIMARY KEY (run_id, sequence)) STRICT, WITHOUT ROWID;
)sql";

inline constexpr const char* kRunDbViews = R"sql(
CREATE VIEW v_rounds AS
SELECT r.run_id, r.round, r.attempt, r.state,
  MAX(CASE m.name WHEN 'train/loss' THEN m.value END) AS train_loss,
  MAX(CASE m.name WHEN 'test/loss' THEN m.value END) AS test_loss,
  MAX(CASE m.name WHEN 'test/accuracy' THEN m.value END) AS test_accuracy,
  r.ok, r.rejected, r.failed, r.dropped, r.late, r.bytes_up, r.bytes_down,
  round(r.select_s + r.train_s + r.aggregate_s + r.evaluate_s, 6) AS round_s, r.model_sha256
FROM round r LEFT JOIN metric m ON m.run_id = r.run_id AND m.round = r.round AND r.state = 'published'
GROUP BY r.run_id, r.round, r.attempt;
CREATE VIEW v_clients AS
SELECT c.run_id, c.client, c.examples, c.device_class, COUNT(p.round) AS started,
  COALESCE(SUM(p.outcome = 'ok'), 0) AS ok, COALESCE(SUM(p.outcome <> 'ok'), 0) AS not_ok,
  AVG(p.update_norm) AS mean_update_norm, SUM(p.bytes_up) AS bytes_up,
  (SELECT value FROM client_metric a WHERE a.run_id = c.run_id AND a.client = c.client AND a.name = 'accuracy'
   ORDER BY a.round DESC LIMIT 1) AS last_accuracy
FROM client c LEFT JOIN participation p USING (run_id, client) GROUP BY c.run_id, c.client;
CREATE VIEW v_failures AS
SELECT run_id, round, attempt, outcome, code, COUNT(*) AS clients, MIN(client) AS first_client, MIN(message) AS message
FROM participation WHERE outcome <> 'ok' GROUP BY run_id, round, attempt, outcome, code;
CREATE VIEW v_runs AS
SELECT r.run_id, r.name, r.sweep_id, r.state, r.seed, r.wall_s, COALESCE(SUM(d.state = 'published'), 0) AS rounds,
  (SELECT value FROM metric WHERE run_id = r.run_id AND name = 'test/accuracy' ORDER BY round DESC LIMIT 1) AS final_accuracy,
  (SELECT MAX(value) FROM metric WHERE run_id = r.run_id AND name = 'test/accuracy') AS best_accuracy,
  (SELECT MIN(m.round) FROM metric m JOIN setting s ON s.run_id = m.run_id AND s.key = 'training.target'
   WHERE m.run_id = r.run_id AND m.name = 'test/accuracy' AND m.value >= CAST(s.value AS REAL)) AS first_round_at_target,
  SUM(d.bytes_up) AS bytes_up, SUM(d.bytes_down) AS bytes_down, SUM(d.ok) AS ok,
  SUM(d.rejected + d.failed + d.dropped + d.late) AS not_ok,
  (SELECT epsilon FROM privacy WHERE run_id = r.run_id ORDER BY round DESC LIMIT 1) AS epsilon, r.result_sha256
FROM run r LEFT JOIN round d USING (run_id) GROUP BY r.run_id;
)sql";

}  // namespace skep::simulator
