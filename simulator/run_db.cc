#include "simulator/run_db.h"

#include <utility>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "simulator/names.h"
#include "simulator/network_folder.h"
#include "simulator/run_db_schema.h"
#include "simulator/run_db_sql.h"

namespace skep::simulator {
namespace {

bool Execute(sqlite3* db, const std::string& sql) {
  return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
}

std::string Pragmas(const std::string& path) {
  return fmt::format(
      "PRAGMA journal_mode = {}; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;",
      IsOnNetworkFolder(path) ? "TRUNCATE" : "WAL");
}

constexpr const char* kInsertRound =
    "INSERT OR IGNORE INTO round VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
constexpr const char* kInsertMetric = "INSERT OR IGNORE INTO metric VALUES (?,?,?,?,?)";
constexpr const char* kInsertParticipation =
    "INSERT OR REPLACE INTO participation VALUES (?,?,?,?,?,?,?,?,?,?,?,0,?,?,?,?)";
constexpr const char* kInsertClientMetric =
    "INSERT OR REPLACE INTO client_metric VALUES (?,?,?,?,?)";
constexpr const char* kInsertRun =
    "INSERT INTO run VALUES (?,?,NULL,'running',?,?,?,?,NULL,?,?,?,?,?,?,?,?,NULL,NULL,NULL,NULL) "
    "ON CONFLICT (run_id) DO UPDATE SET state = 'running', jobs = excluded.jobs, ended_at = NULL, "
    "wall_s = NULL, code = NULL, message = NULL, result_sha256 = NULL";

}  // namespace

class RunDb::Impl {
 public:
  Impl(std::string path, DbPtr db)
      : path_(std::move(path)),
        db_(std::move(db)),
        round_(db_.get(), kInsertRound),
        metric_(db_.get(), kInsertMetric),
        participation_(db_.get(), kInsertParticipation),
        client_metric_(db_.get(), kInsertClientMetric) {}

  void Begin() {
    if (is_open_) return;
    Require(Execute(db_.get(), "BEGIN"));
    is_open_ = true;
  }
  void Commit() {
    if (!is_open_) return;
    Require(Execute(db_.get(), "COMMIT"));
    is_open_ = false;
  }
  void Require(bool is_good) {
    if (!is_good && status_.has_value()) status_ = DbFailure(path_, db_.get());
  }

  void AddRun(const RunStart& start);
  void AddClients(const RunStart& start);
  void AddOwed();
  void AddRound(const RoundRecord& round);
  void AddClient(const ClientRecord& client);
  void AddNote(const NoteRecord& note);
  void End(const RunEnd& end);
  void Close();
  Status Rewind(std::uint32_t round, const std::vector<RoundRecord>& known);
  // Until the start of the run is told, to which they refer.
  void Owe(std::vector<RoundRecord> known, LoggedRecords rest) {
    owed_rounds_ = std::move(known);
    owed_rest_ = std::move(rest);
  }

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] Statement& client_metric() { return client_metric_; }
  [[nodiscard]] const std::string& run_id() const { return run_id_; }

 private:
  std::string path_;
  DbPtr db_;
  Statement round_;
  Statement metric_;
  Statement participation_;
  Statement client_metric_;
  std::string run_id_;
  std::int64_t notes_ = 0;
  std::vector<RoundRecord> owed_rounds_;
  LoggedRecords owed_rest_;
  bool is_open_ = false;
  Status status_ = Ok();
};

void RunDb::Impl::AddRun(const RunStart& start) {
  run_id_ = start.run_id;
  Begin();
  Statement run(db_.get(), kInsertRun);
  run.Bind(start.run_id).Bind(start.name).Bind(start.seed).Bind(start.config_sha256.Hex());
  run.Bind(start.data_sha256.Hex()).Bind(start.config_toml).Bind(start.version);
  run.Bind(start.command).Bind(start.device).Bind(start.isa).Bind(start.jobs).Bind(start.rounds);
  run.Bind(start.model_parameters).Bind(UtcText(start.time));
  Require(run.Run());
  Statement setting(db_.get(), "INSERT OR IGNORE INTO setting VALUES (?,?,?,?)");
  for (const auto& [key, value] : start.settings)
    Require(setting.Bind(run_id_).Bind(key).Bind(value.first).Bind(value.second).Run());
  AddClients(start);
  AddOwed();
  Commit();
}

void RunDb::Impl::AddOwed() {
  for (const RoundRecord& round : std::exchange(owed_rounds_, {})) AddRound(round);
  const LoggedRecords rest = std::exchange(owed_rest_, {});
  for (const ClientRecord& client : rest.clients) AddClient(client);
  for (const NoteRecord& note : rest.notes) AddNote(note);
}

void RunDb::Impl::AddClients(const RunStart& start) {
  Statement client(db_.get(), "INSERT OR REPLACE INTO client VALUES (?,?,?,NULL,?,?)");
  Statement label(db_.get(), "INSERT OR REPLACE INTO client_label VALUES (?,?,?,?)");
  for (const ClientInfo& info : start.clients) {
    client.Bind(run_id_).Bind(info.number).TextOrNull(info.name);
    Require(client.Bind(info.examples).Bind(info.test_examples).Run());
    for (std::size_t k = 0; k < info.labels.size() && k < start.classes.size(); ++k) {
      if (info.labels[k] == 0) continue;
      label.Bind(run_id_).Bind(info.number).Bind(start.classes[k]).Bind(info.labels[k]);
      Require(label.Run());
    }
  }
}

void RunDb::Impl::AddRound(const RoundRecord& round) {
  Begin();
  const aggregator::AttemptCounts& counts = round.counts;
  round_.Bind(run_id_).Bind(round.round).Bind(round.attempt);
  round_.Bind(std::string_view(round.published ? "published" : "abandoned"));
  round_.Bind(counts.invited).Bind(counts.started).Bind(counts.ok).Bind(counts.rejected);
  round_.Bind(counts.failed).Bind(counts.dropped).Bind(counts.late);
  round_.Bind(round.bytes_up).Bind(round.bytes_down).Bind(round.time_s).Bind(round.virtual_s);
  round_.Bind(round.phases.select).Bind(round.phases.train).Bind(round.phases.aggregate);
  Require(round_.Bind(round.phases.evaluate).Bind(round.model.Hex()).Run());
  for (const auto& [name, value] : round.metrics) {
    metric_.Bind(run_id_).Bind(round.round).Bind(name).Bind(value);
    const auto clients = round.metric_clients.find(name);
    Require((clients == round.metric_clients.end() ? metric_.Null() : metric_.Bind(clients->second))
                .Run());
  }
}

void RunDb::Impl::AddClient(const ClientRecord& client) {
  Begin();
  Statement& row = participation_;
  row.Bind(run_id_).Bind(client.round).Bind(client.client).Bind(client.attempt);
  row.Bind(OutcomeName(client.outcome)).CodeOrNull(client.code).TextOrNull(client.detail);
  row.Bind(client.examples).Bind(client.steps).Bind(client.train_loss).Bind(client.update_norm);
  row.Bind(client.train_s).Bind(client.virtual_s).Bind(client.bytes_up).Bind(client.bytes_down);
  Require(row.Run());
}

void RunDb::Impl::AddNote(const NoteRecord& note) {
  Begin();
  Statement row(db_.get(), "INSERT INTO note VALUES (?,?,?,?,?,?,?,?)");
  row.Bind(run_id_).Bind(notes_++).Bind(note.round).Bind(note.attempt).Bind(note.time_s);
  Require(row.Bind(NoteLevelName(note.level)).CodeOrNull(note.code).Bind(note.text).Run());
}

void RunDb::Impl::End(const RunEnd& end) {
  Begin();
  Statement row(db_.get(),
                "UPDATE run SET state = ?, result_sha256 = ?, ended_at = ?, wall_s = ?, code = ?, "
                "message = ? WHERE run_id = ?");
  row.Bind(EndStateName(end.state)).Bind(end.result_sha256.Hex()).Bind(UtcText(ReadClock().wall));
  row.Bind(end.time_s).CodeOrNull(end.code).TextOrNull(end.text).Bind(run_id_);
  Require(row.Run());
  Commit();
}

void RunDb::Impl::Close() {
  Commit();
  // Statements that were reset hold no lock, so the journal can be changed with them alive.
  Require(Execute(db_.get(), "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;"));
}

Status RunDb::Impl::Rewind(std::uint32_t round, const std::vector<RoundRecord>& known) {
  {
    Statement run(db_.get(), "SELECT run_id FROM run");
    if (!run.Next()) return Error{4001, path_ + " does not hold a run", "start the run anew"};
    run_id_ = run.Text();
  }
  Begin();
  for (const char* table : {"round", "metric", "participation", "client_metric", "note"}) {
    Require(Execute(db_.get(), fmt::format("DELETE FROM {} WHERE round > {}", table, round)));
  }
  for (const RoundRecord& record : known) AddRound(record);
  {
    Statement last(db_.get(), "SELECT COALESCE(MAX(sequence) + 1, 0) FROM note");
    if (last.Next()) notes_ = last.Whole<std::int64_t>();
  }
  Commit();
  return status_;
}

RunDb::RunDb(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunDb::~RunDb() = default;

Result<std::unique_ptr<RunDb>> RunDb::Create(const std::string& path) {
  if (Exists(path)) return Error{4001, path + " exists already", ""};
  SKEP_ASSIGN(DbPtr db, OpenDb(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  const std::string schema =
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; {} BEGIN; {} {} COMMIT;",
                  kRunDbApplication, kRunDbVersion, Pragmas(path), kRunDbTables, kRunDbViews);
  if (!Execute(db.get(), schema)) return DbFailure(path, db.get());
  return std::unique_ptr<RunDb>(new RunDb(std::make_unique<Impl>(path, std::move(db))));
}

Result<std::unique_ptr<RunDb>> RunDb::Resume(const std::string& path, std::uint32_t round,
                                             const std::vector<RoundRecord>& known) {
  SKEP_ASSIGN(DbPtr db, OpenDb(path, SQLITE_OPEN_READWRITE));
  if (!Execute(db.get(), Pragmas(path))) return DbFailure(path, db.get());
  auto impl = std::make_unique<Impl>(path, std::move(db));
  SKEP_TRY(impl->Rewind(round, known));
  return std::unique_ptr<RunDb>(new RunDb(std::move(impl)));
}

Result<std::unique_ptr<RunDb>> RunDb::Rebuild(const std::string& path,
                                              std::vector<RoundRecord> known, LoggedRecords rest) {
  // What SQLite left beside the old file would be taken for the new one's.
  for (const char* beside : {"-wal", "-shm", "-journal"})
    SKEP_TRY(RemoveWithContent(path + beside));
  if (Exists(path)) SKEP_TRY(MoveFile(path, path + ".damaged"));
  SKEP_ASSIGN(std::unique_ptr<RunDb> db, Create(path));
  db->impl_->Owe(std::move(known), std::move(rest));
  return db;
}

void RunDb::On(const RunStart& start) {
  impl_->AddRun(start);
}
void RunDb::On(const ClientRecord& client) {
  impl_->AddClient(client);
}
void RunDb::On(const ClientMetric& metric) {
  impl_->Begin();
  Statement& row = impl_->client_metric();
  row.Bind(impl_->run_id()).Bind(metric.round).Bind(metric.client).Bind(metric.name);
  impl_->Require(row.Bind(metric.value).Run());
}
void RunDb::On(const RoundRecord& round) {
  impl_->AddRound(round);
  impl_->Commit();
}
void RunDb::On(const NoteRecord& note) {
  impl_->AddNote(note);
}
void RunDb::On(const RunEnd& end) {
  impl_->End(end);
}
void RunDb::Close() {
  impl_->Close();
}
const Status& RunDb::status() const {
  return impl_->status();
}

}  // namespace skep::simulator
