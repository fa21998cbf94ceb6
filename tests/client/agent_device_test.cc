// Training on a device: what an agent gives, and what it does when the device fails.
#include <cmath>
#include <cstring>

#include "tests/client/agent_world.h"
#include "tests/emulator/host_device.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using test::AgentWorld;
using test::Peer;

constexpr std::uint64_t kBudget = std::uint64_t{256} << 20U;

std::shared_ptr<emulator::HostDevice> Give(AgentWorld& world, bool is_required,
                                           std::optional<std::uint64_t> fail_at = std::nullopt) {
  auto device =
      std::make_shared<emulator::HostDevice>(emulator::HostDevice::Options{.fail_at = fail_at});
  world.device = {.api = device, .budget_bytes = kBudget, .is_required = is_required};
  return device;
}

std::vector<double> ValuesOf(const Bytes& body) {
  std::vector<float> values(body.size() / sizeof(float));
  std::memcpy(values.data(), body.data(), body.size());
  return {values.begin(), values.end()};
}

// Of the models that the two updates make of the one that was sent.
double RelativeDistance(const Bytes& model, const Bytes& a, const Bytes& b) {
  const std::vector<double> start = ValuesOf(model);
  const std::vector<double> left = ValuesOf(a);
  const std::vector<double> right = ValuesOf(b);
  REQUIRE(left.size() == start.size());
  REQUIRE(right.size() == start.size());
  double apart = 0;
  double size = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    apart += (left[i] - right[i]) * (left[i] - right[i]);
    size += (start[i] + right[i]) * (start[i] + right[i]);
  }
  return std::sqrt(apart / size);
}

// The aggregator goes on to its next round when a task has failed, and ends the connection after
// the last one.
void GoOnAfterFailure(AgentWorld& world) {
  world.aggregator.before = [&world](Peer& peer, const wire::Message& message) {
    if (std::holds_alternative<wire::TaskFailed>(message)) ++world.aggregator.round;
    const bool is_last = std::holds_alternative<wire::Poll>(message) &&
                         world.aggregator.round > world.aggregator.rounds;
    if (is_last) peer.Send(wire::PeerError{3334, wire::RetryClass::kNever, 0, 0, "replaced"});
    return is_last;
  };
}

void ShowLog(const AgentWorld& world) {
  for (const std::string& line : world.lines) UNSCOPED_INFO(line);
}

TEST_CASE("a device and the CPU make the same model of a round", "[unit]") {
  AgentWorld cpu;
  cpu.Enrol();
  REQUIRE(cpu.RunToEnd().code == 0);
  AgentWorld world;
  world.Enrol();
  const auto device = Give(world, true);
  REQUIRE(world.RunToEnd().code == 0);
  CHECK(device->launches() > 0);
  CHECK(device->TakeFaults().empty());
  REQUIRE(world.aggregator.updates.size() == 1);
  REQUIRE(cpu.aggregator.updates.size() == 1);
  const auto& here = world.aggregator.updates.front();
  const auto& there = cpu.aggregator.updates.front();
  CHECK(here.begin.weight == there.begin.weight);
  REQUIRE(world.aggregator.model() == cpu.aggregator.model());
  CHECK(RelativeDistance(cpu.aggregator.model(), here.body, there.body) < 1e-4);
  // It is the training that is compared, not the model that both began with.
  CHECK(RelativeDistance(cpu.aggregator.model(), Bytes(there.body.size()), there.body) > 1e-3);
}

TEST_CASE("after a failure of the device the task fails and the CPU trains the next ones",
          "[unit]") {
  AgentWorld world;
  world.Enrol();
  Give(world, false, 40);
  world.settings.once = false;
  world.aggregator.rounds = 2;
  GoOnAfterFailure(world);
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 3334);
  const auto failed = world.server.Heard<wire::TaskFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed.front().code == 7406);
  CHECK(failed.front().task.round == 1);
  CHECK(world.Logged("the device failed: SKEP-7203 "));
  CHECK(world.Logged("later tasks are trained on the CPU"));
  // No update of the first round was made, and that of the second is the CPU's.
  REQUIRE(world.aggregator.updates.size() == 1);
  CHECK(world.aggregator.updates.front().begin.task.round == 2);

  AgentWorld cpu;
  cpu.Enrol();
  cpu.aggregator.round = 2;
  cpu.aggregator.rounds = 2;
  REQUIRE(cpu.RunToEnd().code == 0);
  CHECK(world.aggregator.updates.front().body == cpu.aggregator.updates.front().body);
}

TEST_CASE("a device that had to be used and fails ends the process, after the aggregator was told",
          "[unit]") {
  AgentWorld world;
  world.Enrol();
  Give(world, true, 40);
  world.settings.once = false;
  world.aggregator.rounds = 2;
  GoOnAfterFailure(world);
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 7203);
  CHECK(outcome.why.find("device") != std::string::npos);
  const auto failed = world.server.Heard<wire::TaskFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed.front().code == 7406);
  CHECK(world.aggregator.updates.empty());
}

TEST_CASE("a task beyond the device's memory fails, and the CPU goes on", "[unit]") {
  AgentWorld world;
  world.Enrol();
  Give(world, false);
  world.device.budget_bytes = 1000;
  world.settings.once = false;
  world.aggregator.rounds = 2;
  GoOnAfterFailure(world);
  (void)world.RunToEnd();
  ShowLog(world);
  CHECK(world.server.Heard<wire::TaskFailed>().size() == 1);
  CHECK(world.Logged("SKEP-1401"));
  CHECK(world.aggregator.updates.size() == 1);
}

}  // namespace
}  // namespace skep::agent
