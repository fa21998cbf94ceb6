#include "simulator/run_db.h"

#include <sqlite3.h>

#include <filesystem>
#include <limits>

#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

// The first column of every row, joined by "|".
std::string Query(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  std::string result;
  const auto add = [](void* to, int, char** values, char**) {
    auto& text = *static_cast<std::string*>(to);
    text += (text.empty() ? "" : "|") + std::string(values[0] == nullptr ? "NULL" : values[0]);
    return 0;
  };
  char* message = nullptr;
  const int code = sqlite3_exec(db, sql, add, &result, &message);
  INFO(sql << ": " << (message == nullptr ? "" : message));
  CHECK(code == SQLITE_OK);
  sqlite3_free(message);
  sqlite3_close(db);
  return result;
}

ClientRecord Rejected(std::uint32_t round, ClientNumber number) {
  ClientRecord client;
  client.round = round;
  client.attempt = 1;
  client.client = number;
  client.outcome = aggregator::Outcome::kRejected;
  client.code = 2104;
  client.detail = "update holds NaN";
  return client;
}

std::string WriteRun(const test::TemporaryFolder& folder, std::uint32_t rounds, bool has_end) {
  const std::string path = (folder.path() / "run.db").string();
  const auto db = std::move(RunDb::Create(path)).value();
  db->On(SampleStart());
  NoteRecord note;
  note.level = NoteLevel::kWarning;
  note.text = "3 rows were dropped";
  db->On(note);
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    ClientRecord good;
    good.round = round;
    good.attempt = 1;
    good.update_norm = 1.5;
    db->On(good);
    db->On(Rejected(round, 1));
    ClientMetric metric;
    metric.round = round;
    metric.client = 2;
    metric.name = "accuracy";
    metric.value = 0.1 * round;
    db->On(metric);
    db->On(SampleRound(round));
  }
  if (has_end) {
    RunEnd end;
    end.rounds = rounds;
    end.time_s = 1.5;
    db->On(end);
    db->Close();
  }
  REQUIRE(db->status().has_value());
  return path;
}

TEST_CASE("the database is sound, and its views answer", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string path = WriteRun(folder, 3, true);
  CHECK(Query(path, "PRAGMA integrity_check") == "ok");
  CHECK(Query(path, "PRAGMA foreign_key_check").empty());
  CHECK(Query(path, "PRAGMA application_id") == "1397441874");
  CHECK(Query(path, "PRAGMA user_version") == "1");
  CHECK(Query(path, "PRAGMA journal_mode") == "delete");
  CHECK(Query(path, "SELECT count(*) FROM sqlite_master WHERE type = 'table'") == "10");
  CHECK(Query(path, "SELECT count(*) FROM sqlite_master WHERE type = 'view'") == "4");
  CHECK(Query(path, "SELECT test_accuracy FROM v_rounds ORDER BY round") == "0.51|0.52|0.53");
  CHECK(Query(path, "SELECT not_ok FROM v_clients ORDER BY client") == "0|3|0");
  CHECK(Query(path, "SELECT clients FROM v_failures") == "1|1|1");
  CHECK(Query(path, "SELECT rounds FROM v_runs") == "3");
  CHECK_FALSE(std::filesystem::exists(path + "-wal"));
}

TEST_CASE("what was written reads back as a history", "[unit]") {
  const test::TemporaryFolder folder;
  const auto run = ReadRunDb(WriteRun(folder, 3, true));
  REQUIRE(run.has_value());
  CHECK(run->name == "sample");
  CHECK(run->state == "finished");
  CHECK(run->wall_s == 1.5);
  CHECK(run->Setting("client.learning_rate") == "10.0");
  CHECK(run->Setting("no.such").empty());
  REQUIRE(run->rounds.size() == 3);
  CHECK(run->rounds[1].phases.train == 0.131);
  CHECK(run->metrics.at("train/loss")[1].value == 0.5);
  REQUIRE(run->clients.size() == 3);
  CHECK(run->clients[1].labels == std::map<std::string, std::uint64_t>{{"calm", 8}, {"storm", 12}});
  CHECK(run->client_metrics_round == 3);
  CHECK(run->client_metrics.at("accuracy").size() == 1);
  REQUIRE(run->codes.size() == 1);
  CHECK(run->codes[0].count == 3);
  CHECK(run->codes[0].first_client == "client 1");
  REQUIRE(run->notes.size() == 1);
  CHECK(run->notes[0].text == "3 rows were dropped");
}

TEST_CASE("resume forgets later rounds, and adds those that a crash took", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string path = WriteRun(folder, 3, false);
  std::vector<RoundRecord> known;
  for (std::uint32_t round = 1; round <= 2; ++round) known.push_back(SampleRound(round));
  {
    const auto db = std::move(RunDb::Resume(path, 2, known)).value();
    db->On(SampleStart());
    db->On(SampleRound(3));
    db->Close();
  }
  CHECK(Query(path, "SELECT round FROM round ORDER BY round") == "1|2|3");
  CHECK(Query(path, "SELECT count(*) FROM participation") == "4");
  CHECK(Query(path, "SELECT state FROM run") == "running");
  CHECK(Query(path, "PRAGMA integrity_check") == "ok");

  {
    const auto db = std::move(RunDb::Resume(path, 4, {SampleRound(1), SampleRound(4)})).value();
    db->Close();
  }
  CHECK(Query(path, "SELECT round FROM round ORDER BY round") == "1|2|3|4");
}

TEST_CASE("values that are not finite become NULL", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "run.db").string();
  const auto db = std::move(RunDb::Create(path)).value();
  db->On(SampleStart());
  RoundRecord round = SampleRound(1);
  round.metrics = {{"test/loss", std::numeric_limits<double>::quiet_NaN()}, {"x", std::nullopt}};
  db->On(round);
  db->Close();
  CHECK(Query(path, "SELECT value FROM metric ORDER BY name") == "NULL|NULL");
}

TEST_CASE("files that are no database of a run are refused", "[unit]") {
  const test::TemporaryFolder folder;
  CHECK(ReadRunDb((folder.path() / "none.db").string()).error().code == 4001);
  CHECK(ReadRunDb(folder.Write("text.db", "not a database, but long enough to look").string())
            .error()
            .code == 4001);
  CHECK(ReadRunDb(folder.Write("empty.db", "").string()).error().code == 4001);
  const std::string path = WriteRun(folder, 1, true);
  const auto second = RunDb::Create(path);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == 4001);
  CHECK(Query(path, "SELECT count(*) FROM round") == "1");
}

TEST_CASE("a database that lacks a part is refused, not read by half", "[unit]") {
  for (const char* damage : {"DROP TABLE participation", "DROP TABLE note", "DROP TABLE metric"}) {
    const test::TemporaryFolder folder;
    const std::string path = WriteRun(folder, 2, true);
    REQUIRE(ReadRunDb(path).has_value());
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, damage, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
    const auto read = ReadRunDb(path);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == 4001);
    CHECK(read.error().message.find("is damaged: no such table") != std::string::npos);
  }
}

}  // namespace
}  // namespace skep::simulator
