// What commands print for people: next steps that can be run as they stand, and spans of time.
#include <sys/stat.h>

#include "tests/aggregator/command_fixture.h"

namespace skep::test {
namespace {

constexpr Milliseconds kLimit{60'000};

// The command behind "next: ", run by a shell; NAME and FILE are the reader's to fill in.
Outcome RunNext(const std::string& text, const std::string& folder, const std::string& name) {
  const std::string mark = "next: ";
  const std::size_t at = text.find(mark);
  INFO(text);
  REQUIRE(at != std::string::npos);
  std::string command = text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
  if (const std::size_t to_fill = command.find("NAME"); to_fill != std::string::npos) {
    command.replace(to_fill, 4, name);
  }
  const std::string path = "PATH='" SKEP_BINARY_DIR "/bin':$PATH; export PATH; ";
  return RunToEnd({.words = {"sh", "-c", path + command}, .folder = folder});
}

TEST_CASE("every next step can be run as it is printed, from init to the first token", "[unit]") {
  const TemporaryFolder folder;
  const std::string where = folder.path().string();
  const Outcome made =
      RunToEnd({.words = {kAggregator, "init", "--allow-root", "--name", "127.0.0.1", "--dir",
                          "my aggregator's", "--devices-port", "0", "--enrol-port", "0"},
                .folder = where});
  REQUIRE(made.code == 0);
  CHECK(made.out.find("next: skep-aggregator --config 'my aggregator'\\''s/server.toml' "
                      "--allow-root serve\n") != std::string::npos);

  const std::vector<std::string> base{kAggregator, "--allow-root", "--config",
                                      "my aggregator's/server.toml"};
  const auto words = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  Process daemon({.words = words({"serve"}), .folder = where}, where + "/serve.err");
  REQUIRE(daemon.ReadLine(kLimit).has_value());
  const Outcome status = RunToEnd({.words = words({"status"}), .folder = where});
  const Outcome population = RunNext(status.out, where, "pump");
  INFO(population.err);
  REQUIRE(population.code == 0);
  const Outcome token = RunNext(population.out, where, "");
  INFO(token.err);
  CHECK(token.code == 0);
  CHECK(token.out.rfind("https://", 0) == 0);
}

TEST_CASE("hints of the daemon name the configuration that was asked with", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  const Outcome shown = agg.Run({"run", "show", "nothing"});
  CHECK(shown.err ==
        "error[SKEP-5403]: no run \"nothing\"\n   list them: skep-aggregator --config " +
            agg.config().string() + " run list --all\n   skep-aggregator explain SKEP-5403\n");
  const Outcome by_socket =
      Aggregator({"--socket", (agg.root() / "admin.sock").string(), "run", "show", "nothing"});
  CHECK(by_socket.err.find("skep-aggregator --socket " + (agg.root() / "admin.sock").string() +
                           " run list --all\n") != std::string::npos);
}

TEST_CASE("a token for seven days expires in 7 d", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
  REQUIRE(agg.Run({"token", "create", "--population", "pump"}).code == 0);
  CHECK(agg.Run({"token", "list"}).out.find("unused, expires in 7 d") != std::string::npos);
}

TEST_CASE("an aggregator for this machine alone starts without a warning", "[unit]") {
  const Installation agg;
  CHECK(agg.Run({"check"}).err.empty());
}

TEST_CASE("a configuration that is no file is refused at once: SKEP-1010", "[unit]") {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path() / "server.toml").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const char* command : {"check", "serve", "status"}) {
    const Outcome outcome =
        RunToEnd({.words = {kAggregator, "--allow-root", "--config", pipe, command}});
    CHECK(outcome.code == 2);
    CHECK(outcome.err.rfind("error[SKEP-1010]: " + pipe + ": cannot be read: it is a pipe\n", 0) ==
          0);
  }
}

}  // namespace
}  // namespace skep::test
