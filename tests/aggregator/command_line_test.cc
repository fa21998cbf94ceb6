#include <boost/json/parse.hpp>

#include "tests/aggregator/command_fixture.h"

namespace skep::test {
namespace {

TEST_CASE("help of every command fits 80 columns and is exit 0", "[unit]") {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"init"},
                                             {"serve"},
                                             {"status"},
                                             {"check"},
                                             {"population"},
                                             {"population", "create"},
                                             {"token"},
                                             {"token", "create"},
                                             {"token", "list"},
                                             {"devices"},
                                             {"run"},
                                             {"run", "start"},
                                             {"run", "list"},
                                             {"run", "show"},
                                             {"run", "pause"},
                                             {"run", "resume"},
                                             {"run", "stop"},
                                             {"export"},
                                             {"explain"},
                                             {"config"},
                                             {"config", "explain"},
                                             {"config", "effective"},
                                             {"version"}}) {
    std::vector<std::string> asked = words;
    asked.emplace_back("--help");
    const Outcome help = Aggregator(asked);
    INFO(help.out);
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    for (std::size_t at = 0; at < help.out.size();) {
      const std::size_t end = std::min(help.out.find('\n', at), help.out.size());
      CHECK(end - at <= 80);
      at = end + 1;
    }
  }
}

TEST_CASE("unknown words suggest the nearest known one and are exit 2", "[unit]") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"statsu"}, "unknown command \"statsu\"\n   did you mean \"status\"?\n"},
      {{"run", "strat", "x"}, "unknown command \"strat\"\n   did you mean \"start\"?\n"},
      {{"status", "--jsno"}, "unknown option \"--jsno\"\n   did you mean \"--json\"?\n"},
      {{"run", "stop", "--noww", "x"}, "unknown option \"--noww\"\n   did you mean \"--now\"?\n"},
      {{"xyzzy"}, "unknown command \"xyzzy\"\n   skep-aggregator --help\n"},
      {{"token", "xyzzy"}, "unknown command \"xyzzy\"\n   skep-aggregator token --help\n"}};
  for (const auto& [words, text] : cases) {
    const Outcome outcome = Aggregator(words);
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "error[SKEP-5408]: " + text);
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("a usage that cannot be is exit 2", "[unit]") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {},
           {"run"},
           {"run", "start"},
           {"export", "pump"},
           {"init"},
           {"token", "create", "--population", "p", "--count", "0"},
           {"token", "create", "--population", "p", "--count", "x"},
           {"status", "--timeout", "10"},
           {"status", "--timeout", "0s"},
           {"status", "--color", "blue"},
           {"devices", "--state", "lost"},
           {"status", "extra"}}) {
    const Outcome outcome = Aggregator(words);
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.rfind("error[SKEP-5408]: ", 0) == 0);
  }
}

TEST_CASE("without a daemon every question is SKEP-5401, exit 4, and one object with --json",
          "[unit]") {
  const TemporaryFolder folder;
  const std::string socket = (folder.path() / "none.sock").string();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"status"},
           {"population", "list"},
           {"population", "create", "p"},
           {"token", "create", "--population", "p"},
           {"token", "list"},
           {"devices"},
           {"run", "list"},
           {"run", "show", "r"},
           {"run", "show", "r", "--follow"},
           {"run", "stop", "r"},
           {"run", "pause", "r"},
           {"run", "resume", "r"},
           {"export", "r", "-o", (folder.path() / "out").string()}}) {
    std::vector<std::string> asked = words;
    asked.insert(asked.end(), {"--socket", socket});
    const Outcome plain = Aggregator(asked);
    CHECK(plain.code == 4);
    CHECK(plain.err.rfind("error[SKEP-5401]: daemon not reachable at " + socket, 0) == 0);
    CHECK(plain.out.empty());
    asked.emplace_back("--json");
    const Outcome json = Aggregator(asked);
    CHECK(json.code == 4);
    const auto object = boost::json::parse(json.out);
    CHECK(object.at("schema") == 1);
    CHECK(object.at("status") == "error");
    CHECK(object.at("exit_code") == 4);
    CHECK(object.at("error").at("code") == 5401);
    CHECK(json.err.empty());
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out"));
}

TEST_CASE("a configuration that was named must be readable: SKEP-1010", "[unit]") {
  const Outcome outcome = Aggregator({"status", "--config", "/nonexistent/server.toml"});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.rfind("error[SKEP-1010]: /nonexistent/server.toml", 0) == 0);
}

TEST_CASE("explain knows numbers, keys and sections, and suggests", "[unit]") {
  CHECK(Aggregator({"explain", "SKEP-5103"})
            .out.rfind("SKEP-5103  server certificate expired\n", 0) == 0);
  CHECK(Aggregator({"explain", "5103"}).code == 0);
  CHECK(Aggregator({"explain", "enrolment.token_ttl"}).out.find("\"7d\"") != std::string::npos);
  CHECK(Aggregator({"explain", "clients_per_round"}).code == 0);
  CHECK(Aggregator({"config", "explain", "max_connections"}).code == 0);
  const Outcome wrong = Aggregator({"explain", "max_conections"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("did you mean \"max_connections\"?") != std::string::npos);
  CHECK(Aggregator({"explain", "SKEP-9999"}).code == 2);
}

TEST_CASE("version names the libraries", "[unit]") {
  const Outcome plain = Aggregator({"version"});
  CHECK(plain.code == 0);
  for (const char* part :
       {"skep-aggregator ", "protocol 1.0", "OpenSSL 3.", "SQLite 3.", "Boost 1.", "protobuf 3."}) {
    CHECK(plain.out.find(part) != std::string::npos);
  }
  for (const char* asked : {"version", "--version"}) {
    const auto object = boost::json::parse(Aggregator({asked, "--json"}).out);
    CHECK(object.at("data").at("protocol") == "1.0");
  }
}

TEST_CASE("config effective shows values and where they came from", "[unit]") {
  const Installation agg;
  const Outcome table = agg.Run({"config", "effective"});
  CHECK(table.code == 0);
  CHECK(table.out.find("listen.advertise_devices") != std::string::npos);
  const auto object = boost::json::parse(agg.Run({"config", "effective", "--json"}).out);
  CHECK(object.at("data").at("session.idle_limit").at("source") == "default");
  CHECK(object.at("data").at("store.directory").at("value") == "\"store\"");
}

}  // namespace
}  // namespace skep::test
