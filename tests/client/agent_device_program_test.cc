// skep-client beside a libskep-cuda.so whose device is emulated, and beside none.
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/client/agent_world.h"
#include "tests/support/catch.h"
#include "tests/support/process.h"

namespace skep::agent {
namespace {

using test::AgentWorld;
using test::Command;

constexpr const char* kLibrary = "libskep-cuda.so";

// The program in a folder of its own, with the library or without.
class Program {
 public:
  explicit Program(bool has_library) {
    std::filesystem::copy_file(std::string(SKEP_BINARY_DIR) + "/bin/skep-client", path());
    if (!has_library) return;
    std::filesystem::copy_file(std::string(SKEP_BINARY_DIR) + "/fake_device/" + kLibrary,
                               folder_.path() / kLibrary);
  }
  [[nodiscard]] std::string path() const { return (folder_.path() / "skep-client").string(); }
  [[nodiscard]] std::string library() const { return (folder_.path() / kLibrary).string(); }

  [[nodiscard]] test::Outcome Call(const AgentWorld& world, const std::string& command,
                                   const std::string& device,
                                   std::vector<std::string> variables = {}) const {
    Command line{.words = {path(), command}, .variables = std::move(variables)};
    if (command == "run") line.words.emplace_back("--once");
    line.words.insert(line.words.end(),
                      {"--storage", world.StorageFolder(), "--set", "data.label=y", "--set",
                       "data.path=" + world.config.data.path, "--set", "limits.device=" + device});
    return RunToEnd(line);
  }

 private:
  test::TemporaryFolder folder_;
};

struct Contribution {
  test::Outcome outcome;
  Bytes model;
  std::vector<test::Aggregator::Update> updates;
  std::size_t polls = 0;
};

Contribution Contribute(const Program& program, const std::string& device,
                        std::vector<std::string> variables = {}) {
  AgentWorld world;
  world.Enrol();
  world.server.Start();
  Contribution made;
  made.outcome = program.Call(world, "run", device, std::move(variables));
  world.server.Stop();
  made.model = world.aggregator.model();
  made.updates = world.aggregator.updates;
  made.polls = world.server.Heard<wire::Poll>().size();
  return made;
}

std::vector<double> ModelOf(const Contribution& made) {
  REQUIRE(made.updates.size() == 1);
  const Bytes& body = made.updates.front().body;
  REQUIRE(body.size() == made.model.size());
  std::vector<float> start(body.size() / sizeof(float));
  std::vector<float> update(start.size());
  std::memcpy(start.data(), made.model.data(), body.size());
  std::memcpy(update.data(), body.data(), body.size());
  std::vector<double> model;
  for (std::size_t i = 0; i < start.size(); ++i) {
    model.push_back(static_cast<double>(start[i]) + static_cast<double>(update[i]));
  }
  return model;
}

double RelativeDistance(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0;
  double size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(apart / size);
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("a client with device cuda:0 trains a round on it and gives the CPU's model", "[unit]") {
  const Program program(true);
  const Contribution device = Contribute(program, "cuda:0");
  INFO(device.outcome.err);
  CHECK(device.outcome.code == 0);
  CHECK(Count(device.outcome.err, "trains on cuda:0, ") == 1);
  const Contribution cpu = Contribute(program, "cpu");
  INFO(cpu.outcome.err);
  CHECK(cpu.outcome.code == 0);
  CHECK(Count(cpu.outcome.err, "trains on cuda") == 0);
  CHECK(RelativeDistance(ModelOf(device), ModelOf(cpu)) < 1e-4);
  CHECK(ModelOf(device) != ModelOf(cpu));  // another order of additions: it was not the CPU
}

TEST_CASE("auto takes the device that is there", "[unit]") {
  const Program program(true);
  const Contribution made = Contribute(program, "auto");
  INFO(made.outcome.err);
  CHECK(made.outcome.code == 0);
  CHECK(Count(made.outcome.err, "trains on cuda:0, ") == 1);
  CHECK(made.updates.size() == 1);
}

TEST_CASE("cuda:0 without a library is 7201 before any round is joined", "[unit]") {
  const Program program(false);
  const Contribution made = Contribute(program, "cuda:0");
  INFO(made.outcome.err);
  CHECK(made.outcome.code != 0);
  CHECK(made.outcome.err.find("SKEP-7201") != std::string::npos);
  CHECK(made.outcome.err.find("there is no " + program.library()) != std::string::npos);
  CHECK(made.polls == 0);
  CHECK(made.updates.empty());
}

TEST_CASE("a device that the library does not have is 7201 before any round is joined", "[unit]") {
  const Program program(true);
  const Contribution made = Contribute(program, "cuda:1");
  INFO(made.outcome.err);
  CHECK(made.outcome.code != 0);
  CHECK(made.outcome.err.find("SKEP-7201") != std::string::npos);
  CHECK(made.polls == 0);
}

TEST_CASE("auto without a library trains on the CPU and says so once", "[unit]") {
  const Program program(false);
  const Contribution made = Contribute(program, "auto");
  INFO(made.outcome.err);
  CHECK(made.outcome.code == 0);
  CHECK(Count(made.outcome.err,
              "trains on CPU: no CUDA device: there is no " + program.library()) == 1);
  CHECK(ModelOf(made) == ModelOf(Contribute(program, "cpu")));
}

TEST_CASE("status and doctor say where the device trains, and why", "[unit]") {
  const Program without(false);
  const Program with(true);
  AgentWorld world;
  world.Enrol();
  world.server.Start();
  const std::string none = "trains on CPU: no CUDA device: there is no " + without.library();
  const test::Outcome status = without.Call(world, "status", "auto");
  INFO(status.out << status.err);
  CHECK(status.code == 0);
  CHECK(Count(status.out, none) == 1);
  const test::Outcome doctor = without.Call(world, "doctor", "auto");
  INFO(doctor.out << doctor.err);
  CHECK(doctor.code == 0);
  CHECK(Count(doctor.out, none) == 1);
  CHECK(Count(with.Call(world, "status", "auto").out, "trains on cuda:0, ") == 1);
  CHECK(Count(with.Call(world, "doctor", "cuda:0").out, "trains on cuda:0, ") == 1);
  const test::Outcome asked = without.Call(world, "doctor", "cuda:0");
  CHECK(asked.code != 0);
  CHECK(asked.out.find("SKEP-7201") != std::string::npos);
  CHECK(Count(without.Call(world, "status", "cuda:0").out, "trains on nothing: ") == 1);
  world.server.Stop();
}

TEST_CASE("a device that fails during the task ends the client without an update", "[unit]") {
  const Program program(true);
  const Contribution made = Contribute(program, "cuda:0", {"SKEP_FAKE_DEVICE_FAILS_AT=40"});
  INFO(made.outcome.err);
  CHECK(made.outcome.code != 0);
  CHECK(made.outcome.err.find("SKEP-7203") != std::string::npos);
  CHECK(made.updates.empty());
}

TEST_CASE("a word that is no device is refused", "[unit]") {
  const Program program(false);
  const Contribution made = Contribute(program, "cuda:x");
  CHECK(made.outcome.code == 2);
  CHECK(made.outcome.err.find("SKEP-7001") != std::string::npos);
  CHECK(made.polls == 0);
}

}  // namespace
}  // namespace skep::agent
