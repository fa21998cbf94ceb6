// Lanes against clients that train alone on the CPU, through the emulator.
#include "kernels/cuda/lane_network.h"

#include <algorithm>
#include <cmath>

#include "kernels/body/batch_body.h"
#include "kernels/nn/network.h"
#include "shared/model/model_spec.h"
#include "tests/emulator/host_device.h"
#include "tests/kernels/lane_world.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

using test::LaneWorld;

TEST_CASE("lanes train as clients alone do, in every kind of step", "[unit]") {
  const LaneWorld world({6}, {"dense 7", "relu", "dense 5 nobias", "relu", "dense 3"});
  const std::vector<OptimiserStep> steps{
      {.learning_rate = 0.1F},
      {.learning_rate = 0.1F, .weight_decay = 0.01F},
      {.learning_rate = 0.05F, .momentum = 0.9F},
      {.learning_rate = 0.05F, .momentum = 0.9F, .nesterov = true, .gradient_clip = 0.05},
      {.learning_rate = 0.01F, .rule = Rule::kAdam, .weight_decay = 0.01F},
      {.learning_rate = 0.01F, .rule = Rule::kAdamW, .weight_decay = 0.01F, .gradient_clip = 1}};
  for (const OptimiserStep& step : steps) {
    const test::Trained device = world.OnDevice(5, step);
    const test::Trained host = world.OnHost(5, step);
    INFO("rule " << static_cast<int>(step.rule) << ", momentum " << step.momentum);
    CHECK(device.faults.empty());
    CHECK(test::LargestDifference(device.params, host.params) < 1e-5);
    CHECK(test::LargestDifference(device.losses, host.losses) < 1e-4);
  }
}

TEST_CASE("every loss trains in lanes as on the CPU", "[unit]") {
  for (const LossKind loss : {LossKind::kSoftmaxCrossEntropy, LossKind::kSigmoidCrossEntropy,
                              LossKind::kMeanSquaredError}) {
    const LaneWorld world({4}, {"dense 3"}, loss);
    const test::Trained device = world.OnDevice(3, {.learning_rate = 0.2F});
    const test::Trained host = world.OnHost(3, {.learning_rate = 0.2F});
    INFO("loss " << static_cast<int>(loss));
    CHECK(device.faults.empty());
    CHECK(test::LargestDifference(device.params, host.params) < 1e-5);
    CHECK(test::LargestDifference(device.losses, host.losses) < 1e-4);
  }
}

TEST_CASE("residual blocks train in lanes as on the CPU", "[unit]") {
  const LaneWorld world({6}, {"residual", "dense 6", "relu", "residual", "dense 8", "add", "relu",
                              "dense 6", "add", "dense 3"});
  const test::Trained device = world.OnDevice(3, {.learning_rate = 0.1F});
  const test::Trained host = world.OnHost(3, {.learning_rate = 0.1F});
  CHECK(device.faults.empty());
  CHECK(test::LargestDifference(device.params, host.params) < 1e-5);
}

TEST_CASE("every layer trains in lanes as on the CPU", "[unit]") {
  for (const test::LaneModel& model : test::EveryLayer()) {
    const LaneWorld world(model.input, model.lines);
    const test::Trained device = world.OnDevice(3, {.learning_rate = 0.1F});
    const test::Trained host = world.OnHost(3, {.learning_rate = 0.1F});
    INFO(model.lines[0] << ", " << model.lines[1]);
    CHECK(device.faults.empty());
    CHECK(test::LargestDifference(device.params, host.params) < 3e-5);
    CHECK(test::LargestDifference(device.losses, host.losses) < 1e-4);
  }
}

TEST_CASE("a lane without examples rests", "[unit]") {
  const LaneWorld world({6}, {"dense 3"});
  const test::Trained device =
      world.OnDevice(4, {.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.1F}, {2});
  CHECK(device.params[2] == world.Start(2));
  CHECK(device.losses[2] == 0);
  CHECK_FALSE(device.params[1] == world.Start(1));
}

TEST_CASE("the bytes that a network will take are those that it takes", "[unit]") {
  const LaneWorld world({6}, {"dense 7", "relu", "dense 3"});
  const LaneLimits limits{.lanes = 3, .rows = 4, .step = {.momentum = 0.9F}};
  emulator::HostDevice device;
  const std::uint64_t bytes = LaneNetwork::BytesFor(world.spec(), limits).value();
  {
    auto network = LaneNetwork::Make(world.spec(), limits, device, bytes).value();
    CHECK(device.live_bytes() == bytes);
  }
  CHECK(device.Leaks().empty());
  CHECK(LaneNetwork::Make(world.spec(), limits, device, bytes - 1).error().code == 1401);
  CHECK(device.Leaks().empty());
  CHECK(device.TakeFaults().empty());
}

TEST_CASE("after the first epoch nothing is allocated on the device", "[unit]") {
  const LaneWorld world({6}, {"dense 7", "relu", "dense 3"});
  const test::Trained device = world.OnDevice(3, {.learning_rate = 0.1F});
  CHECK(device.allocations_after_first_epoch == 0);
}

}  // namespace
}  // namespace skep::kernels
