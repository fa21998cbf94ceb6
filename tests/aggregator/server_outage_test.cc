// A database that takes no writes for a while, with a real one: another program holds it.
#include <sqlite3.h>

#include <algorithm>

#include "tests/aggregator/server_fixture.h"

namespace skep::aggregator::test {
namespace {

// Holds the database for writing while it lives.
class WriteLock {
 public:
  explicit WriteLock(const std::string& folder) {
    REQUIRE(sqlite3_open((folder + "/skep.db").c_str(), &database_) == SQLITE_OK);
    REQUIRE(sqlite3_exec(database_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;
  ~WriteLock() { sqlite3_close(database_); }

 private:
  sqlite3* database_ = nullptr;
};

bool HasFinished(Server& server) {
  const auto run = server.FindRun("demo");
  return run.has_value() && run->status.view.state == RunState::kFinished;
}

auto LinesWith(const TestServer& server, const std::string& text) {
  return std::count_if(server.log.begin(), server.log.end(), [&](const std::string& line) {
    return line.find(text) != std::string::npos;
  });
}

TEST_CASE("an update that cannot be written now is put off, kept, and counts once it can",
          "[fault]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  Device& device = *devices.front();
  server.StartRun(1, 1);
  device.Join();
  device.Poll();
  const wire::Manifest manifest = ManifestOf(device.ExpectOffer());
  device.Accept(manifest);
  const Bytes body = UpdateOf(0.5F);
  wire::UploadBegin begin = device.Begin(manifest, body, 3);
  device.peer().Send(begin);
  static_cast<void>(device.peer().Expect<wire::UploadAccept>());
  {
    const WriteLock lock(server.folder());
    device.SendBody(begin.transfer_id, body);
    CHECK(device.peer().Expect<wire::UpdateRefused>().code == 3404);
    const RunView view = server.server().FindRun("demo").value().status.view;
    CHECK(view.state == RunState::kRunning);
    CHECK(view.waiting_for ==
          "waiting for the store: another program holds the database (SKEP-4002)");
  }
  // By itself, without the body being sent again.
  REQUIRE(server.Until(HasFinished));
  device.Join();
  begin.transfer_id = device.NextTransfer();
  device.peer().Send(begin);
  CHECK(device.peer().Expect<wire::UpdateAck>().disposition == wire::Disposition::kDuplicate);
  server.Kill();
  CHECK(LinesWith(server, "the store cannot write: another program holds the database") == 1);
  CHECK(LinesWith(server, "the store writes again") == 1);
}

}  // namespace
}  // namespace skep::aggregator::test
