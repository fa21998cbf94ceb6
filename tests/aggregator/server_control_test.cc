// What an operator is told, and when: an answer stands for what the store has.
#include <sqlite3.h>

#include "tests/aggregator/server_fixture.h"

namespace skep::aggregator::test {
namespace {

using Action = ControlRun::Action;

// Runs SQL on the server's database from outside, as another program would.
void Sql(const TestServer& server, const std::string& sql) {
  sqlite3* database = nullptr;
  const std::string path = server.folder() + "/skep.db";
  REQUIRE(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  sqlite3_busy_timeout(database, 10'000);
  char* why = nullptr;
  const int code = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &why);
  INFO((why != nullptr ? why : ""));
  CHECK(code == SQLITE_OK);
  sqlite3_free(why);
  sqlite3_close(database);
}

std::string StoredState(const TestServer& server) {
  sqlite3* database = nullptr;
  const std::string path = server.folder() + "/skep.db";
  REQUIRE(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(database, "SELECT state FROM runs", -1, &statement, nullptr) ==
          SQLITE_OK);
  std::string state;
  if (sqlite3_step(statement) == SQLITE_ROW) {
    state = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return state;
}

constexpr const char* kRefuseRuns =
    "CREATE TRIGGER refuse BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'refused'); END";

TEST_CASE("a run whose row the store refuses is refused with the store's error, and never was",
          "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  Sql(server, kRefuseRuns);
  const Hash32 digest = server.StoreDigest();
  const auto refused = server.server().StartRun(server.Request(1, 1));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.problems().at(0).code == 4007);
  CHECK(server.StoreDigest() == digest);
  CHECK(server.server().Runs(true).value().empty());
  CHECK(server.server().FindRun("demo").error().code == 5403);
  CHECK(server.server().GetStatus().value().runs == 0);

  // The same request key is free again, and so is the name.
  Sql(server, "DROP TRIGGER refuse");
  CHECK_FALSE(server.StartRun(1, 1).existed);
  CHECK(StoredState(server) == "running");
}

TEST_CASE("a change that the store refuses for good is no success, and ends the server", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  server.StartRun(5, 1);
  Sql(server,
      "CREATE TRIGGER refuse BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'refused'); END");
  const Status stopped = server.server().ChangeRun("demo", Action::kStop);
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().code == 4007);
  CHECK(server.server().Wait() == 5);
  CHECK(StoredState(server) == "running");
}

TEST_CASE("a stop, a pause and a resume are stored when they are answered", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  server.StartRun(5, 1);
  CHECK(StoredState(server) == "running");
  REQUIRE(server.server().ChangeRun("demo", Action::kPause));
  CHECK(StoredState(server) == "paused");
  REQUIRE(server.server().ChangeRun("demo", Action::kResume));
  CHECK(StoredState(server) == "running");
  REQUIRE(server.server().ChangeRun("demo", Action::kStop));
  CHECK(StoredState(server) == "stopped");
}

TEST_CASE("a stop at once is answered when the open round is abandoned and the run stored as over",
          "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  server.StartRun(5, 1);
  devices[0]->Join();
  devices[0]->Poll();
  devices[0]->Accept(ManifestOf(devices[0]->ExpectOffer()));
  REQUIRE(server.server().ChangeRun("demo", Action::kStopNow));
  CHECK(StoredState(server) == "stopped");
  const auto rounds = server.server().FindRun("demo").value().rounds;
  CHECK(rounds.at(0).row.state == RoundState::kAbandoned);
}

TEST_CASE("a dry run refuses what a start refuses", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  const auto code_of = [&](StartRequest request, bool is_dry_run) {
    request.is_dry_run = is_dry_run;
    const auto started = server.server().StartRun(request);
    return started ? 0 : started.problems().at(0).code;
  };
  StartRequest too_many = server.Request(1, 2);
  too_many.sets = {"training.min_reports=2"};
  CHECK(code_of(too_many, true) == 5302);
  CHECK(code_of(too_many, false) == 5302);
  CHECK(code_of(server.Request(5, 1), true) == 0);
  CHECK(server.server().Runs(true).value().empty());
  CHECK(code_of(server.Request(5, 1), false) == 0);
  CHECK(code_of(server.Request(6, 1), true) == 5308);
  CHECK(code_of(server.Request(6, 1), false) == 5308);
}

TEST_CASE("who can still join counts for a start: unused tokens", "[unit]") {
  TestServer server;
  REQUIRE(server.server().CreatePopulation("pump"));
  const auto refused = server.server().StartRun(server.Request(1, 1));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.problems().at(0).message ==
        "population \"pump\" has 0 active devices and 0 unused tokens; the run needs at least 1 "
        "reports");
  REQUIRE(server.server().CreateTokens("pump", 1, {}).has_value());
  CHECK(server.server().StartRun(server.Request(1, 1)).has_value());
}

TEST_CASE("a finished run is at its last round, also after a restart, and is counted", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  server.StartRun(2, 1);
  devices[0]->Join();
  for (int round = 0; round < 2; ++round) {
    devices[0]->Poll();
    static_cast<void>(devices[0]->Train(devices[0]->ExpectOffer(), 0.5F, 3));
  }
  const auto look = [&] { return server.server().FindRun("demo").value().status.view; };
  REQUIRE(server.Until([&](Server&) { return look().state == RunState::kFinished; }));
  for (const bool restarts : {false, true}) {
    if (restarts) {
      server.Kill();
      server.Start();
    }
    CHECK(look().attempt.round == 2);
    CHECK(look().rounds == 2);
    const StatusView status = server.server().GetStatus().value();
    CHECK(status.runs == 1);
    CHECK(status.running == 0);
  }
}

TEST_CASE("declines are counted by their number", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(3);
  server.StartRun(1, 3, "min_reports = 1\n");
  for (const auto& device : devices) device->Join();
  for (const auto& device : devices) device->Poll();
  constexpr std::array<std::uint32_t, 3> kCodes{7413, 7401, 7413};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const wire::Manifest manifest = ManifestOf(devices[i]->ExpectOffer());
    devices[i]->peer().Send(wire::TaskDecline{
        {manifest.run_id, manifest.round, manifest.attempt, manifest.kind}, kCodes.at(i)});
  }
  const auto codes = [&] { return server.server().FindRun("demo").value().rounds.at(0).codes; };
  REQUIRE(server.Until([&](Server&) {
    std::uint32_t count = 0;
    for (const CodeCount& one : codes()) count += one.count;
    return count == 3;
  }));
  REQUIRE(codes().size() == 2);
  CHECK(codes()[0].state == AssignmentState::kDeclined);
  CHECK(codes()[0].code == 7413);
  CHECK(codes()[0].count == 2);
  CHECK(codes()[1].code == 7401);
  CHECK(codes()[1].count == 1);
}

}  // namespace
}  // namespace skep::aggregator::test
