// The built program, as a user or a test's script runs it.
#include <csignal>

#include "tests/faultproxy/fixture.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace skep::faultproxy {
namespace {

using skep::test::Command;
using skep::test::Outcome;
using skep::test::Process;
using skep::test::TemporaryFolder;
using test::Peer;

constexpr Milliseconds kPatience(30'000);

std::string Program() {
  return std::string(SKEP_BINARY_DIR) + "/bin/skep-faultproxy";
}

Outcome Call(std::vector<std::string> words, const std::string& input = "") {
  words.insert(words.begin(), Program());
  return skep::test::RunToEnd({.words = std::move(words), .input = input});
}

// The number behind "NAME": in a line of JSON.
std::uint64_t NumberIn(const std::string& line, const std::string& name) {
  const std::size_t at = line.find("\"" + name + "\":");
  REQUIRE(at != std::string::npos);
  return std::stoull(line.substr(at + name.size() + 3));
}

// The port that the ready line says.
std::uint16_t PortOf(const std::optional<std::string>& ready) {
  REQUIRE(ready);
  REQUIRE(ready->starts_with("{\"event\":\"ready\""));
  const std::string before = "\"listen\":\"127.0.0.1:";
  const std::size_t at = ready->find(before);
  REQUIRE(at != std::string::npos);
  return static_cast<std::uint16_t>(std::stoul(ready->substr(at + before.size())));
}

std::string LineWith(Process& process, const std::string& part) {
  while (auto line = process.ReadLine(kPatience)) {
    if (line->find(part) != std::string::npos) return *line;
  }
  return {};
}

TEST_CASE("the program says where it listens, carries bytes, and ends cleanly on a signal") {
  for (const int signal : {SIGTERM, SIGINT}) {
    CAPTURE(signal);
    const TemporaryFolder folder;
    const test::Upstream upstream;
    Process process(
        {.words = {Program(), "--upstream", "127.0.0.1:" + std::to_string(upstream.port()),
                   "--fault", "cut connection=2 direction=up at=4"}},
        (folder.path() / "err").string());
    const std::uint16_t port = PortOf(process.ReadLine(kPatience));
    const Peer client = Peer::To(port);
    const Peer server = upstream.Accept();
    CHECK(client.Send("hello"));
    CHECK(server.Receive(5) == "hello");
    const Peer second = Peer::To(port);
    const Peer second_server = upstream.Accept();
    CHECK(second.Send("hello"));
    CHECK(second_server.ReceiveAll() == std::pair{std::string("hell"), std::string("end")});
    CHECK(NumberIn(LineWith(process, "\"fault\""), "at") == 4);
    process.Signal(signal);
    CHECK(process.WaitFor(kPatience) == 0);
    const std::string rest = process.RestOfOutput();
    const std::size_t last = rest.rfind("{\"event\":\"stopped\"");
    REQUIRE(last != std::string::npos);
    CHECK(NumberIn(rest.substr(last), "up_out") == 9);
    CHECK(process.Errors().empty());
    CHECK(client.ReceiveAll().second == "reset");
  }
}

TEST_CASE("the program takes faults from a file and orders from standard input") {
  const TemporaryFolder folder;
  const std::string script = folder.Write("faults", "# two\ndelay time=1s\nrefuse\n").string();
  const Outcome outcome =
      Call({"--upstream", "127.0.0.1:9", "--script", script, "--fault", "cut", "--control"},
           "stall at=5\nclear rule=4\nclear rule=5\nnonsense\ncount");
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.find("\"event\":\"rule\"") != std::string::npos);
  CHECK(outcome.out.find("\"rule\":4") != std::string::npos);
  CHECK(outcome.out.find("\"code\":1102,\"text\":\"there is no rule 5\"") != std::string::npos);
  CHECK(outcome.out.find("\"code\":1012") != std::string::npos);
  CHECK(outcome.out.find("\"event\":\"count\"") != std::string::npos);
  CHECK(outcome.out.find("\"event\":\"stopped\"") != std::string::npos);
}

TEST_CASE("the program refuses what it is told wrongly, with number and exit code") {
  const TemporaryFolder folder;
  const std::string bad = folder.Write("faults", "cut\ncutt\n").string();
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string error;
  };
  const std::vector<std::string> to = {"--upstream", "127.0.0.1:9"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), to.begin(), to.end());
    return more;
  };
  const std::vector<Case> cases = {
      {{}, 2, "SKEP-1101"},
      {with({"--fualt", "cut"}), 2, "SKEP-1012]: unknown option \"--fualt\""},
      {with({"cut"}), 2, "SKEP-1012"},
      {with({"--fault", "cutt"}), 2, "SKEP-1012]: --fault: unknown fault \"cutt\""},
      {with({"--fault", "cut bit=1"}), 2, "SKEP-1103"},
      {with({"--script", bad}), 2, "line 2: unknown fault"},
      {with({"--script", "/nonexistent"}), 2, "SKEP-1010"},
      {with({"--listen", "0.0.0.0:0"}), 2, "SKEP-1102"},
      {with({"--listen", "nowhere"}), 2, "SKEP-5202"},
      {{"--upstream", "127.0.0.1"}, 2, "SKEP-5202"},
      {with({"--buffer", "much"}), 2, "SKEP-1101"},
      {with({"--buffer", "1GiB"}), 2, "SKEP-1102"},
      {with({"--seed", "x"}), 2, "SKEP-1101"},
      {with({"--connections", "0"}), 2, "SKEP-1101"},
      {with({"--listen", "192.0.2.1:0", "--allow-remote"}), 1, "SKEP-5201"},
  };
  for (const Case& one : cases) {
    const Outcome outcome = Call(one.words);
    CAPTURE(one.error, outcome.err);
    CHECK(outcome.code == one.code);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(one.error) != std::string::npos);
  }
}

TEST_CASE("the program explains itself within 80 columns, and has a version") {
  const Outcome help = Call({"--help"});
  CHECK(help.code == 0);
  for (const char* word : {"cut", "reset", "half-close", "stall", "corrupt", "delay", "rate",
                           "refuse", "duplicate", "blackhole", "release", "--allow-remote"}) {
    CAPTURE(word);
    CHECK(help.out.find(word) != std::string::npos);
  }
  std::size_t at = 0;
  while (at < help.out.size()) {
    const std::size_t end = std::min(help.out.find('\n', at), help.out.size());
    CAPTURE(help.out.substr(at, end - at));
    CHECK(end - at <= 80);
    at = end + 1;
  }
  CHECK(Call({"--version"}).out.starts_with("skep-faultproxy "));
}

TEST_CASE("without descriptors the program says so once and goes on when there are some") {
  const TemporaryFolder folder;
  const test::Upstream upstream;
  Process process({.words = {"/bin/sh", "-c", "ulimit -n 20; exec \"$0\" \"$@\"", Program(),
                             "--upstream", "127.0.0.1:" + std::to_string(upstream.port())}},
                  (folder.path() / "err").string());
  const std::uint16_t port = PortOf(process.ReadLine(kPatience));
  std::vector<Peer> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(Peer::To(port));
  CHECK(LineWith(process, "\"code\":5205").find("cannot accept") != std::string::npos);
  clients.clear();
  // Those that waited are served now, and end at once; then there is room again.
  const Peer client = Peer::To(port);
  CHECK(client.Send("hello"));
  std::string got;
  while (got.empty()) {
    const Peer server = upstream.Accept();
    REQUIRE(server.is_open());
    got = server.Receive(5);
  }
  CHECK(got == "hello");
  process.Signal(SIGTERM);
  CHECK(process.WaitFor(kPatience) == 0);
}

}  // namespace
}  // namespace skep::faultproxy
