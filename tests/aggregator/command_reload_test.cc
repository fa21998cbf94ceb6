// SIGHUP: what a running aggregator takes over, and what it leaves.
#include "tests/aggregator/command_fixture.h"

namespace skep::test {
namespace {

constexpr Milliseconds kLimit{60'000};

// Sends SIGHUP and waits until the log has `text` once more than before.
void HangUp(Process& daemon, const std::string& text) {
  const auto count = [&] {
    const std::string log = daemon.Errors();
    std::size_t found = 0;
    for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  const std::size_t before = count();
  daemon.Signal(SIGHUP);
  const SteadyTime end = ReadClock().steady + kLimit;
  while (count() == before && ReadClock().steady < end) {
    REQUIRE_FALSE(daemon.WaitFor(Milliseconds(5)).has_value());
  }
  INFO(daemon.Errors());
  REQUIRE(count() == before + 1);
}

std::string Expiry(const Installation& agg) {
  // By the socket: the file may be faulty.
  const std::string socket = (agg.root() / "admin.sock").string();
  REQUIRE(Aggregator({"--socket", socket, "token", "create", "--population", "pump"}).code == 0);
  const std::string list = Aggregator({"--socket", socket, "token", "list"}).out;
  const std::size_t at = list.rfind("expires in ");
  return list.substr(at, list.find_first_of("\n", at) - at);
}

TEST_CASE("SIGHUP takes over what can change, and says what needs a restart", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
  CHECK(Expiry(agg) == "expires in 7 d");
  agg.Replace("# token_ttl = \"7d\"", "token_ttl = \"3d\"");
  agg.Replace("# max_connections = 12000", "max_connections = 500");
  HangUp(daemon,
         "taken over: enrolment.token_ttl = \"3d\"; only a restart takes over: "
         "limits.max_connections");
  CHECK(Expiry(agg) == "expires in 3 d");
  // What waits for a restart is said every time, what was taken over only once.
  HangUp(daemon, "nothing changed; only a restart takes over: limits.max_connections");
}

TEST_CASE("SIGHUP with a faulty file changes nothing and tells its errors", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
  agg.Replace("# token_ttl = \"7d\"", "token_ttl = \"3d\"\nrenew_afterr = 0.5");
  HangUp(daemon, "error SKEP-1012 the old values stay: " + agg.config().string());
  CHECK(Expiry(agg) == "expires in 7 d");
  agg.Replace("\nrenew_afterr = 0.5", "");
  std::filesystem::remove(agg.pki("server.crt"));
  HangUp(daemon, "error SKEP-1010 the old values stay: cannot read pki/server.crt");
  CHECK(Expiry(agg) == "expires in 7 d");
}

TEST_CASE("SIGHUP changes the level of the log", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  agg.Replace("# level = \"info\"", "level = \"error\"");
  HangUp(daemon, "taken over: log.level = \"error\"");
  agg.Replace("level = \"error\"", "level = \"debug\"");
  HangUp(daemon, "taken over: log.level = \"debug\"");
}

}  // namespace
}  // namespace skep::test
