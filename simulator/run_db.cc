#include "simulator/run_db.h"

#include <sqlite3.h>

#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "shared/base/check.h"
#include "shared/base/try.h"
#include "simulator/names.h"
#include "simulator/network_folder.h"
#include "simulator/run_db_schema.h"

namespace skep::simulator {
namespace {

constexpr const char* kHint = "look at the free space and the permissions of its folder";

// A prepared statement; bound from the left, read from the left.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    failed_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) != SQLITE_OK;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(const std::string& text) {
    return Check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                                   SQLITE_TRANSIENT));
  }
  Statement& Bind(std::string_view text) { return Bind(std::string(text)); }
  template <std::integral T>
  Statement& Bind(T value) {
    return Check(sqlite3_bind_int64(statement_, ++bound_, static_cast<sqlite3_int64>(value)));
  }
  Statement& Bind(double value) {
    if (!std::isfinite(value)) return Null();
    return Check(sqlite3_bind_double(statement_, ++bound_, value));
  }
  Statement& Null() { return Check(sqlite3_bind_null(statement_, ++bound_)); }
  template <class T>
  Statement& Bind(const std::optional<T>& value) {
    return value ? Bind(*value) : Null();
  }
  Statement& TextOrNull(const std::string& text) { return text.empty() ? Null() : Bind(text); }
  Statement& CodeOrNull(int code) { return code == 0 ? Null() : Bind(code); }

  // Executes a statement that yields no rows. False on failure.
  [[nodiscard]] bool Run() {
    if (failed_) return false;
    const bool is_done = sqlite3_step(statement_) == SQLITE_DONE;
    sqlite3_reset(statement_);
    bound_ = 0;
    return is_done;
  }

  // The next row, if there is one.
  [[nodiscard]] bool Next() {
    column_ = 0;
    if (failed_) return false;
    const int code = sqlite3_step(statement_);
    failed_ = code != SQLITE_ROW && code != SQLITE_DONE;
    return code == SQLITE_ROW;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::string Text() {
    const int column = column_++;
    const auto* const text = sqlite3_column_text(statement_, column);
    if (text == nullptr) return "";
    return {reinterpret_cast<const char*>(text),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  template <class T = std::uint64_t>
  [[nodiscard]] T Whole() {
    return static_cast<T>(sqlite3_column_int64(statement_, column_++));
  }
  [[nodiscard]] double Number() { return sqlite3_column_double(statement_, column_++); }
  [[nodiscard]] std::optional<double> NumberOrNull() {
    if (sqlite3_column_type(statement_, column_) != SQLITE_NULL) return Number();
    ++column_;
    return std::nullopt;
  }
  template <class T>
  [[nodiscard]] std::optional<T> WholeOrNull() {
    if (sqlite3_column_type(statement_, column_) != SQLITE_NULL) return Whole<T>();
    ++column_;
    return std::nullopt;
  }

 private:
  Statement& Check(int code) {
    failed_ = failed_ || code != SQLITE_OK;
    return *this;
  }

  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  int column_ = 0;
  bool failed_ = false;
};

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using DbPtr = std::unique_ptr<sqlite3, CloseDb>;

Error Failure(const std::string& path, sqlite3* db) {
  return Error{4001, fmt::format("{}: {}", path, db == nullptr ? "no memory" : sqlite3_errmsg(db)),
               kHint};
}

Result<DbPtr> Open(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  DbPtr db(raw);
  if (code != SQLITE_OK) return Failure(path, raw);
  return db;
}

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
    if (!is_good && status_.has_value()) status_ = Failure(path_, db_.get());
  }

  void AddRun(const RunStart& start);
  void AddClients(const RunStart& start);
  void AddRound(const RoundRecord& round);
  void AddClient(const ClientRecord& client);
  void AddNote(const NoteRecord& note);
  void End(const RunEnd& end);
  void Close();
  Status Rewind(std::uint32_t round, const std::vector<RoundRecord>& known);

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
  Commit();
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
  if (std::filesystem::exists(path)) return Error{4001, path + " exists already", ""};
  SKEP_ASSIGN(DbPtr db, Open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  const std::string schema =
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; {} BEGIN; {} {} COMMIT;",
                  kRunDbApplication, kRunDbVersion, Pragmas(path), kRunDbTables, kRunDbViews);
  if (!Execute(db.get(), schema)) return Failure(path, db.get());
  return std::unique_ptr<RunDb>(new RunDb(std::make_unique<Impl>(path, std::move(db))));
}

Result<std::unique_ptr<RunDb>> RunDb::Resume(const std::string& path, std::uint32_t round,
                                             const std::vector<RoundRecord>& known) {
  SKEP_ASSIGN(DbPtr db, Open(path, SQLITE_OPEN_READWRITE));
  if (!Execute(db.get(), Pragmas(path))) return Failure(path, db.get());
  auto impl = std::make_unique<Impl>(path, std::move(db));
  SKEP_TRY(impl->Rewind(round, known));
  return std::unique_ptr<RunDb>(new RunDb(std::move(impl)));
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

namespace {

// A database that is read; remembers the first thing that went wrong, so that no report is made of
// half a run.
struct Source {
  sqlite3* db;
  std::string failure{};
};

class Query : public Statement {
 public:
  Query(Source& source, const char* sql) : Statement(source.db, sql), source_(source) { Note(); }
  [[nodiscard]] bool Next() {
    const bool has_row = Statement::Next();
    Note();
    return has_row;
  }

 private:
  void Note() {
    if (failed() && source_.failure.empty()) source_.failure = sqlite3_errmsg(source_.db);
  }

  Source& source_;
};

void ReadRun(Source& source, RunHistory& run) {
  Query row(source,
            "SELECT run_id, name, state, seed, config_sha256, data_sha256, config_toml, "
            "result_sha256, version, command, device, isa, jobs, rounds_planned, "
            "model_parameters, started_at, wall_s, code, message FROM run");
  if (!row.Next()) return;
  run.run_id = row.Text();
  run.name = row.Text();
  run.state = row.Text();
  run.seed = row.Whole();
  run.config_sha256 = row.Text();
  run.data_sha256 = row.Text();
  run.config_toml = row.Text();
  run.result_sha256 = row.Text();
  run.version = row.Text();
  run.command = row.Text();
  run.device = row.Text();
  run.isa = row.Text();
  run.jobs = row.Whole();
  run.rounds_planned = row.Whole<std::uint32_t>();
  run.model_parameters = row.Whole();
  run.started_at = row.Text();
  run.wall_s = row.NumberOrNull();
  run.code = row.WholeOrNull<int>();
  run.message = row.Text();
  Query setting(source, "SELECT key, value, source FROM setting ORDER BY key");
  while (setting.Next()) {
    // Braces evaluate from left to right.
    run.settings.push_back({setting.Text(), setting.Text(), setting.Text()});
  }
}

void ReadRounds(Source& source, RunHistory& run) {
  Query row(source,
            "SELECT round, attempt, state, invited, started, ok, rejected, failed, dropped, "
            "late, bytes_up, bytes_down, ended_s, virtual_s, select_s, train_s, aggregate_s, "
            "evaluate_s, model_sha256 FROM round ORDER BY round, attempt");
  while (row.Next()) {
    RoundRecord record;
    record.round = row.Whole<std::uint32_t>();
    record.attempt = row.Whole<std::uint32_t>();
    record.published = row.Text() == "published";
    aggregator::AttemptCounts& counts = record.counts;
    for (std::uint32_t* count : {&counts.invited, &counts.started, &counts.ok, &counts.rejected,
                                 &counts.failed, &counts.dropped, &counts.late})
      *count = row.Whole<std::uint32_t>();
    record.bytes_up = row.Whole();
    record.bytes_down = row.Whole();
    record.time_s = row.Number();
    record.virtual_s = row.NumberOrNull();
    PhaseSeconds& phases = record.phases;
    for (double* phase : {&phases.select, &phases.train, &phases.aggregate, &phases.evaluate})
      *phase = row.Number();
    record.model = Hash32::FromHexText(row.Text()).value_or(Hash32{});
    run.rounds.push_back(std::move(record));
  }
  Query metric(source, "SELECT name, round, value, clients FROM metric ORDER BY name, round");
  while (metric.Next()) {
    const std::string name = metric.Text();
    MetricPoint point;
    point.round = metric.Whole<std::uint32_t>();
    point.value = metric.NumberOrNull();
    point.clients = metric.WholeOrNull<std::uint32_t>();
    run.metrics[name].push_back(point);
  }
}

void ReadClients(Source& source, RunHistory& run) {
  Query row(source,
            "SELECT c.client, c.name, c.examples, c.test_examples, COUNT(p.round), "
            "COALESCE(SUM(p.outcome = 'ok'), 0) FROM client c LEFT JOIN participation p "
            "USING (run_id, client) GROUP BY c.run_id, c.client ORDER BY c.client");
  std::map<ClientNumber, std::size_t> places;
  while (row.Next()) {
    ClientHistory client;
    client.number = row.Whole<ClientNumber>();
    client.name = row.Text();
    client.examples = row.Whole();
    client.test_examples = row.Whole();
    client.started = row.Whole();
    client.ok = row.Whole();
    places[client.number] = run.clients.size();
    run.clients.push_back(std::move(client));
  }
  Query label(source, "SELECT client, label, examples FROM client_label ORDER BY client, label");
  while (label.Next()) {
    const auto place = places.find(label.Whole<ClientNumber>());
    const std::string name = label.Text();
    if (place != places.end()) run.clients[place->second].labels[name] = label.Whole();
  }
  Query metric(source,
               "SELECT name, client, value, round FROM client_metric WHERE round = "
               "(SELECT MAX(round) FROM client_metric) ORDER BY name, client");
  while (metric.Next()) {
    const std::string name = metric.Text();
    const auto client = metric.Whole<ClientNumber>();
    const std::optional<double> value = metric.NumberOrNull();
    run.client_metrics_round = metric.Whole<std::uint32_t>();
    if (value) run.client_metrics[name][client] = *value;
  }
}

void ReadFailures(Source& source, RunHistory& run) {
  Query row(source,
            "SELECT COALESCE(code, 0), outcome, COUNT(*), MIN(round) FROM participation "
            "WHERE outcome <> 'ok' GROUP BY code, outcome ORDER BY 3 DESC, 1 LIMIT 10");
  while (row.Next()) {
    CodeCount count;
    count.code = row.Whole<int>();
    count.outcome = row.Text();
    count.count = row.Whole();
    count.first_round = row.Whole<std::uint32_t>();
    Query example(source,
                  "SELECT p.client, c.name, p.message FROM participation p LEFT JOIN client c "
                  "USING (run_id, client) WHERE COALESCE(p.code, 0) = ? AND p.outcome = ? "
                  "ORDER BY p.round, p.attempt, p.client LIMIT 1");
    example.Bind(count.code).Bind(count.outcome);
    if (example.Next()) {
      const auto number = example.Whole<ClientNumber>();
      count.first_client = ClientName(number, example.Text());
      count.message = example.Text();
    }
    run.codes.push_back(std::move(count));
  }
  Query note(source,
             "SELECT round, attempt, at_s, level, code, message FROM note ORDER BY sequence");
  while (note.Next()) {
    NoteRecord record;
    record.round = note.WholeOrNull<std::uint32_t>();
    record.attempt = note.WholeOrNull<std::uint32_t>();
    record.time_s = note.Number();
    record.level = NoteLevelOf(note.Text());
    record.code = note.WholeOrNull<int>().value_or(0);
    record.text = note.Text();
    run.notes.push_back(std::move(record));
  }
}

}  // namespace

Result<RunHistory> ReadRunDb(const std::string& path) {
  SKEP_ASSIGN(const DbPtr db, Open(path, SQLITE_OPEN_READONLY));
  {
    Statement application(db.get(), "PRAGMA application_id");
    if (!application.Next() || application.Whole<int>() != kRunDbApplication)
      return Error{4001, path + " is not the database of a run", "give the folder of a run"};
  }
  RunHistory run;
  Source source{.db = db.get()};
  ReadRun(source, run);
  ReadRounds(source, run);
  ReadClients(source, run);
  ReadFailures(source, run);
  if (!source.failure.empty())
    return Error{4001, fmt::format("{} is damaged: {}", path, source.failure),
                 "resume the run, or take the database of a copy"};
  if (run.run_id.empty()) return Error{4001, path + " does not hold a run", ""};
  return run;
}

}  // namespace skep::simulator
