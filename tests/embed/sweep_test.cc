// The n-th call of a whole check-in fails, or is the last thing the process does: whatever n is,
// the next process contributes, the aggregator counts once, and nothing is left behind.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/client/agent_world.h"
#include "tests/support/catch.h"
#include "tests/support/process.h"

namespace skep::embed {
namespace {

using test::AgentWorld;

// Every n is tried where SKEP_SWEEP says "all"; else each of so many, from another start each time
// a call is added, so that all of them are met over time.
constexpr std::size_t kStride = 9;

struct Attempt {
  std::string log;  // the call that was hit
  int code = 0;     // of the process in which it was
  std::string said;
};

class Sweep {
 public:
  // How many calls a check-in makes; what they are.
  [[nodiscard]] std::vector<std::string> Count() {
    AgentWorld world;
    world.Enrol();
    world.server.Start();
    REQUIRE(Run(world, 0, "fail").code == 0);
    world.server.Stop();
    return LinesOf(log_);
  }

  // One check-in with a fault at its call `n`, and clean ones until the update is taken.
  void Try(std::size_t n, const std::string& how) {
    AgentWorld world;
    world.Enrol();
    world.server.Start();
    const Attempt attempt = Run(world, n, how);
    int tries = 0;
    while (tries < 3 && Call(world, {}).code != 0) ++tries;
    world.server.Stop();
    INFO(how << " at call " << n << ": " << attempt.log << "exit " << attempt.code << "\n"
             << attempt.said);
    CHECK(tries < 3);
    // Once, however often it was sent.
    CHECK(world.aggregator.updates.size() == 1);
    CHECK(std::filesystem::is_empty(world.StorageFolder() + "/work"));
    if (how == "fail") CHECK(attempt.code < 128);  // an error, not the end of the application
  }

 private:
  static std::vector<std::string> LinesOf(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  static test::Outcome Call(const AgentWorld& world, std::vector<std::string> variables) {
    return test::RunToEnd(
        {.words = {std::string(SKEP_BINARY_DIR) + "/bin/skep-client", "run", "--once", "--storage",
                   world.StorageFolder(), "--set", "data.label=y", "--set",
                   "data.path=" + world.config.data.path, "--set", "limits.device=cpu"},
         .folder = {},
         .input = {},
         .variables = std::move(variables)});
  }

  Attempt Run(const AgentWorld& world, std::size_t n, const std::string& how) {
    std::filesystem::remove(log_);
    const test::Outcome outcome =
        Call(world, {SKEP_PRELOAD, "SKEP_CALLS_AT=" + std::to_string(n), "SKEP_CALLS_HOW=" + how,
                     "SKEP_CALLS_FOLDER=" + world.StorageFolder(), "SKEP_CALLS_LOG=" + log_});
    Attempt attempt{.log = {}, .code = outcome.code, .said = outcome.err};
    if (n > 0) {
      for (const std::string& line : LinesOf(log_)) attempt.log += line + "\n";
    }
    return attempt;
  }

  test::TemporaryFolder place_;
  std::string log_ = (place_.path() / "calls").string();
};

void TryAll(const std::string& how) {
  Sweep sweep;
  const std::size_t calls = sweep.Count().size();
  REQUIRE(calls > 50);
  const char* wanted = std::getenv("SKEP_SWEEP");
  const bool is_whole = wanted != nullptr && std::string(wanted) == "all";
  const std::size_t stride = is_whole ? 1 : kStride;
  for (std::size_t n = is_whole ? 1 : 1 + calls % kStride; n <= calls; n += stride) {
    sweep.Try(n, how);
  }
}

TEST_CASE("a check-in survives the failure of any call", "[fault]") {
  TryAll("fail");
}

TEST_CASE("a check-in survives kill -9 behind any call", "[fault]") {
  TryAll("kill");
}

test::Outcome RunShort(const AgentWorld& world, std::size_t n, std::size_t check_ins = 1) {
  return test::RunToEnd({.words = {SKEP_SHORT_MEMORY, world.StorageFolder(), std::to_string(n),
                                   std::to_string(check_ins)},
                         .folder = {},
                         .input = {},
                         .variables = {}},
                        Milliseconds(check_ins > 1 ? 900'000 : 20'000));
}

TEST_CASE("check-ins leave memory flat", "[fault]") {
  AgentWorld world;
  world.Enrol();
  const char* wanted = std::getenv("SKEP_SWEEP");
  const std::size_t check_ins = wanted != nullptr && std::string(wanted) == "all" ? 10'000 : 300;
  world.aggregator.rounds = static_cast<std::uint32_t>(check_ins / 10);  // the rest finds no work
  world.server.Start();
  const test::Outcome outcome = RunShort(world, 0, check_ins);
  world.server.Stop();
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(world.aggregator.updates.size() == check_ins / 10);
  std::vector<std::size_t> held;
  for (std::size_t at = outcome.out.find("held "); at != std::string::npos;
       at = outcome.out.find("held ", at + 1)) {
    held.push_back(std::stoul(outcome.out.substr(at + 5)));
  }
  REQUIRE(held.size() == 10);
  // Behind the first tenth everything that is kept is there.
  CHECK(held.back() <= held[1] + 64 * 1024);
}

}  // namespace
}  // namespace skep::embed
