#include <boost/json/parse.hpp>

#include "tests/aggregator/command_fixture.h"

namespace skep::test {
namespace {

constexpr Milliseconds kLimit{60'000};

boost::json::value Json(const Outcome& outcome) {
  INFO(outcome.out << outcome.err);
  REQUIRE_FALSE(outcome.out.empty());
  return boost::json::parse(outcome.out);
}

TEST_CASE("serve says when it is ready, answers, and drains on SIGTERM with exit 0", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  const auto status = Json(agg.Run({"status", "--json"}));
  CHECK(status.at("data").at("state") == "ready");
  CHECK(status.at("data").at("pid") == daemon.id());
  CHECK(status.at("data").at("populations") == 0);
  const Outcome screen = agg.Run({"status"});
  CHECK(screen.out.find("next: skep-aggregator --config " + agg.config().string() +
                        " population create NAME\n") != std::string::npos);
  daemon.Signal(SIGTERM);
  CHECK(daemon.WaitFor(kLimit) == 0);
  CHECK(agg.Run({"status"}).code == 4);
}

TEST_CASE("a port that init left open is kept for later starts", "[unit]") {
  const Installation agg;
  const auto listeners = [&] {
    Process daemon = agg.Serve();
    const auto found = Json(agg.Run({"status", "--json"})).at("data").at("listeners");
    daemon.Signal(SIGINT);
    CHECK(daemon.WaitFor(kLimit) == 0);
    return found;
  };
  const auto first = listeners();
  CHECK(first.as_array().size() == 2);
  CHECK(listeners() == first);
}

TEST_CASE("the join strings name the enrolment port that was bound", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
  const Outcome tokens = agg.Run({"token", "create", "--population", "pump", "--count", "3"});
  CHECK(tokens.code == 0);
  const auto status = Json(agg.Run({"status", "--json"}));
  const std::string enrol(status.at("data").at("advertise_enrol").as_string());
  CHECK(enrol.find(":0") == std::string::npos);
  std::size_t lines = 0;
  for (std::size_t at = 0; at < tokens.out.size(); at = tokens.out.find('\n', at) + 1, ++lines) {
    CHECK(tokens.out.compare(at, enrol.size() + 15, "https://" + enrol + "#SKEP1-") == 0);
  }
  CHECK(lines == 3);
  CHECK(agg.Run({"token", "list"}).out.find("https://") == std::string::npos);
}

TEST_CASE("refusals of the daemon keep their number and exit code", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
  const std::vector<std::pair<std::vector<std::string>, std::pair<int, int>>> cases{
      {{"population", "create", "pump"}, {5405, 1}},
      {{"population", "create", "not a name"}, {5408, 2}},
      {{"token", "create", "--population", "valve"}, {5403, 1}},
      {{"token", "create", "--population", "pump", "--expires", "soon"}, {5408, 2}},
      {{"run", "show", "nothing"}, {5403, 1}},
      {{"run", "stop", "nothing"}, {5403, 1}},
      {{"run", "start", "/nonexistent.toml"}, {1010, 2}}};
  for (const auto& [words, expected] : cases) {
    std::vector<std::string> asked = words;
    asked.emplace_back("--json");
    const Outcome outcome = agg.Run(asked);
    INFO(outcome.out);
    CHECK(outcome.code == expected.second);
    CHECK(Json(outcome).at("error").at("code") == expected.first);
    CHECK(Json(outcome).at("exit_code") == expected.second);
  }
}

TEST_CASE("problems of an experiment are shown with their carets, as the simulator shows them",
          "[unit]") {
  const Installation agg;
  const TemporaryFolder folder;
  const auto file = folder.Write("pump.toml", "population = \"pump\"\n[training]\nround = 5\n");
  Process daemon = agg.Serve();
  REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
  const Outcome outcome = agg.Run({"run", "start", file.string()});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("error[SKEP-1012]: " + file.string() +
                         ":3:1: unknown key \"training.round\"\n"
                         "    3 | round = 5\n"
                         "      | ^^^^^ did you mean \"rounds\"?\n") != std::string::npos);
  CHECK(agg.Run({"run", "list", "--all"}).out.find("pump") == std::string::npos);
}

TEST_CASE("a second daemon on the same store is refused: SKEP-4002", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  const Outcome second = agg.Run({"serve"});
  CHECK(second.code == 2);
  CHECK(second.err.find("error[SKEP-4002]: ") != std::string::npos);
  CHECK(second.err.find("(pid " + std::to_string(daemon.id()) + ")") != std::string::npos);
  CHECK(agg.Run({"status"}).code == 0);
}

TEST_CASE("an address in use is SKEP-5201, and nothing stays behind", "[unit]") {
  const Installation first;
  const Installation second;
  Process daemon = first.Serve();
  const auto status = Json(first.Run({"status", "--json"}));
  const std::string taken(status.at("data").at("listeners").at(0).at("address").as_string());
  second.Replace("devices = \"127.0.0.1:0\"", "devices = \"" + taken + "\"");
  const Outcome outcome = second.Run({"serve"});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("error[SKEP-5201]: listen.devices " + taken + ": address in use") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(second.root() / "admin.sock"));
}

TEST_CASE("a daemon that was killed leaves nothing in the way of the next", "[unit]") {
  const Installation agg;
  {
    Process daemon = agg.Serve();
    REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
    daemon.Signal(SIGKILL);
    CHECK(daemon.WaitFor(kLimit) == 128 + SIGKILL);
  }
  Process daemon = agg.Serve();
  CHECK(agg.Run({"population", "list"}).out.find("pump") != std::string::npos);
}

TEST_CASE("serve without a store says how one is made", "[unit]") {
  const Installation agg;
  std::filesystem::remove(agg.root() / "store" / "skep.db");
  for (const char* command : {"serve", "check"}) {
    const Outcome outcome = agg.Run({command});
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "error[SKEP-4004]: there is no store in " +
                             (agg.root() / "store").string() +
                             "\n   skep-aggregator init makes one\n");
  }
}

}  // namespace
}  // namespace skep::test
