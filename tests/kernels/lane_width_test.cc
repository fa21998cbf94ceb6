// What needs many lanes or many runs of the emulator: a lane among others is the client alone, and
// every call of the device can fail.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/lane_network.h"
#include "tests/kernels/lane_world.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

using test::LaneWorld;
using test::Trained;

// `wide` begins with the lanes of `narrow`, to the bit.
bool BeginsWith(const Trained& wide, const Trained& narrow) {
  return wide.params.size() >= narrow.params.size() &&
         std::equal(narrow.params.begin(), narrow.params.end(), wide.params.begin()) &&
         std::equal(narrow.losses.begin(), narrow.losses.end(), wide.losses.begin());
}

// The single clients train on the CPU; `compared` of them are held against their lanes.
void CheckWidths(const LaneWorld& world, const OptimiserStep& step, std::uint32_t compared = 64) {
  const Trained one = world.OnDevice(1, step);
  const Trained seven = world.OnDevice(7, step);
  const Trained all = world.OnDevice(64, step);
  const Trained alone = world.OnHost(compared, step);
  for (const Trained* device : {&one, &seven, &all}) CHECK(device->faults.empty());
  CHECK(BeginsWith(seven, one));
  CHECK(BeginsWith(all, seven));
  const Trained& device = compared == 64 ? all : seven;
  CHECK(test::LargestDifference(device.params, alone.params) < 3e-5);
  CHECK(test::LargestDifference(device.losses, alone.losses) < 1e-4);
}

TEST_CASE("1, 7 and 64 lanes of every layer train as each client alone", "[slow]") {
  for (const test::LaneModel& model : test::EveryLayer()) {
    INFO(model.lines[0] << ", " << model.lines[1]);
    CheckWidths(LaneWorld(model.input, model.lines), {.learning_rate = 0.1F},
                model.is_steep ? 7 : 64);
  }
}

TEST_CASE("1, 7 and 64 lanes train as each client alone, with every state of a step", "[slow]") {
  const LaneWorld world({6}, {"dense 4", "relu", "dense 3"});
  CheckWidths(world, {.learning_rate = 0.1F, .momentum = 0.5F, .gradient_clip = 0.05});
  CheckWidths(world, {.learning_rate = 0.01F, .rule = Rule::kAdam, .weight_decay = 0.01F});
}

TEST_CASE("whichever call fails, the error arrives and nothing is left", "[slow]") {
  const LaneWorld world({6}, {"dense 4", "relu", "dense 3"});
  std::uint64_t calls = 0;
  {
    const Trained sound = world.OnDevice(2, {.learning_rate = 0.1F, .momentum = 0.9F});
    calls = sound.calls;
  }
  REQUIRE(calls > 20);
  for (std::uint64_t n = 0; n < calls; ++n) {
    const Trained failed = world.OnDevice(2, {.learning_rate = 0.1F, .momentum = 0.9F}, {}, n);
    INFO("call " << n);
    REQUIRE(failed.error.has_value());
    CHECK(failed.error->code == 7203);
    CHECK(failed.leaks.empty());
    CHECK(failed.faults.empty());
  }
}

}  // namespace
}  // namespace skep::kernels
