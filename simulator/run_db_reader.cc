// Reading run.db: for reports, for the list of runs, and to judge whether a run can go on with it.
#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "simulator/names.h"
#include "simulator/run_db.h"
#include "simulator/run_db_schema.h"
#include "simulator/run_db_sql.h"

namespace skep::simulator {
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

std::optional<std::string> RunDbDamage(const std::string& path) {
  if (!Exists(path)) return "is missing";
  const Result<DbPtr> db = OpenDb(path, SQLITE_OPEN_READWRITE);
  // A file that cannot be opened may well be whole.
  if (!db.has_value()) return std::nullopt;
  std::string text;
  {
    Statement check(db->get(), "PRAGMA quick_check(1)");
    if (check.Next()) text = check.Text();
  }
  const int code = sqlite3_errcode(db->get());
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    return fmt::format("is damaged ({})", sqlite3_errmsg(db->get()));
  if (text.empty()) return std::nullopt;  // another process holds it
  if (text != "ok") return fmt::format("is damaged ({})", text);
  Statement application(db->get(), "PRAGMA application_id");
  const bool is_ours = application.Next() && application.Whole<int>() == kRunDbApplication;
  Statement run(db->get(), "SELECT run_id FROM run");
  if (!is_ours || !run.Next()) return "holds no run";
  return std::nullopt;
}

Result<RunHistory> ReadRunDb(const std::string& path) {
  SKEP_ASSIGN(const DbPtr db, OpenDb(path, SQLITE_OPEN_READONLY));
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
