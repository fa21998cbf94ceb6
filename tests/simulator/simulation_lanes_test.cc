// Whole runs whose clients train in lanes of the emulated device.
#include <algorithm>
#include <cmath>
#include <memory>

#include "shared/base/file.h"
#include "tests/emulator/host_device.h"
#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

// A device of so many bytes; what a plan is given in place of a real one.
DeviceChooser Chooser(std::uint64_t bytes = std::uint64_t{1} << 30U,
                      std::optional<std::uint64_t> fail_at = std::nullopt) {
  return [=](const kernels::DeviceChoice& choice) -> Result<kernels::ChosenDevice> {
    if (choice.kind == kernels::DeviceChoice::Kind::kCpu) {
      return kernels::ChosenDevice{nullptr, "CPU: asked for"};
    }
    return kernels::ChosenDevice{
        std::make_unique<emulator::HostDevice>(
            emulator::HostDevice::Options{.total_bytes = bytes, .fail_at = fail_at}),
        "cuda:0, emulated"};
  };
}

Plan PlanOn(const ExperimentFolder& folder, const DeviceChooser& choose,
            std::vector<std::string> sets = {}) {
  const bool has_layers = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
    return set.starts_with("model.layers=");
  });
  if (!has_layers) sets.emplace_back("model.layers=[\"dense 6\", \"relu\", \"dense 2\"]");
  sets.insert(sets.end(), {"training.clients_per_round=9", "client.local_epochs=2",
                           "model.architecture=layers"});
  auto prepared = Prepare({.file = folder.path("experiment.toml"), .sets = sets, .folder = ""});
  if (!prepared.has_value()) FAIL(prepared.problems().front().message);
  auto plan = MakePlan(std::move(prepared).value(), RunId{}, choose);
  if (!plan.has_value()) FAIL(plan.problems().front().message);
  return std::move(plan).value();
}

// With at most so many clients at once.
Outcome RunWith(const ExperimentFolder& folder, std::uint32_t lanes,
                const std::vector<std::string>& sets = {}) {
  SimulationSetup setup = MakeSetup(PlanOn(folder, Chooser(), sets));
  REQUIRE(setup.lanes.count == 9);
  setup.lanes.count = lanes;
  setup.lanes.device.clients = lanes;
  return RunToEnd(std::move(setup));
}

TEST_CASE("a run gives the same model and metrics for 1, 7 and all clients at once", "[unit]") {
  const ExperimentFolder folder;
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{},
        {"client.optimizer=adam", "client.batch_size=3"},
        {"model.layers=[\"dense 6\", \"norm batch\", \"relu\", \"dropout 0.2\", \"dense 2\"]",
         "client.batch_tail=merge"}}) {
    const Outcome one = RunWith(folder, 1, sets);
    REQUIRE(one.end.state == EndState::kFinished);
    for (const std::uint32_t lanes : {7U, 9U}) {
      const Outcome many = RunWith(folder, lanes, sets);
      INFO(lanes << " at once");
      CHECK(many.end.model == one.end.model);
      CHECK(many.end.result_sha256 == one.end.result_sha256);
      REQUIRE(many.recording.rounds.size() == one.recording.rounds.size());
      for (std::size_t i = 0; i < one.recording.rounds.size(); ++i) {
        CHECK(many.recording.rounds[i].metrics == one.recording.rounds[i].metrics);
      }
    }
  }
}

TEST_CASE("the number of workers does not change a run on a device", "[unit]") {
  const ExperimentFolder folder;
  SimulationSetup setup = MakeSetup(PlanOn(folder, Chooser(), {"run.jobs=1"}));
  const Outcome one = RunToEnd(std::move(setup));
  setup = MakeSetup(PlanOn(folder, Chooser(), {"run.jobs=4"}));
  CHECK(RunToEnd(std::move(setup)).end.model == one.end.model);
}

TEST_CASE("a run on a device learns what the same run on the CPU learns", "[unit]") {
  const ExperimentFolder folder;
  const Outcome device = RunToEnd(MakeSetup(PlanOn(folder, Chooser())));
  const Outcome cpu = RunToEnd(MakeSetup(PlanOn(folder, Chooser(), {"run.device=cpu"})));
  REQUIRE(device.checkpoints.models.size() == cpu.checkpoints.models.size());
  const auto left = device.checkpoints.models.back()->values();
  const auto right = cpu.checkpoints.models.back()->values();
  REQUIRE(left.size() == right.size());
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(left[i] - right[i])));
  }
  CHECK(largest < 1e-4);
  for (const ClientRecord& client : device.recording.clients) {
    CHECK(client.outcome == aggregator::Outcome::kOk);
    CHECK(client.steps > 0);
    CHECK(client.train_loss.has_value());
  }
}

TEST_CASE("the plan says where clients train, how many at once, and why not elsewhere", "[unit]") {
  const ExperimentFolder folder;
  const Plan device = PlanOn(folder, Chooser());
  CHECK(device.device.name == "cuda:0, emulated");
  CHECK(MakeRunStart(device).device == "cuda:0, emulated");
  CHECK(device.device.lanes.lanes == 9);
  CHECK(DeviceText(device.device).find("cuda:0, emulated: 9 clients at once, ") == 0);
  const Plan asked = PlanOn(folder, Chooser(), {"run.device=cpu"});
  CHECK(DeviceText(asked.device) == "cpu");
  const Plan none =
      PlanOn(folder, [](const kernels::DeviceChoice&) -> Result<kernels::ChosenDevice> {
        return kernels::ChosenDevice{nullptr, "CPU: no CUDA device: there is none"};
      });
  CHECK(MakeRunStart(none).device == "cpu");
  CHECK(DeviceText(none.device) == "CPU: no CUDA device: there is none");
}

TEST_CASE("the memory that the plan may take decides how many train at once", "[unit]") {
  const ExperimentFolder folder;
  const std::uint64_t all = PlanOn(folder, Chooser()).device.lanes.bytes;
  const Plan fewer = PlanOn(folder, Chooser(all));  // four fifths of it
  CHECK(fewer.device.lanes.lanes < 9);
  CHECK(fewer.device.lanes.bytes <= all * 4 / 5);
  const std::string limit = "run.gpu_memory_limit=" + std::to_string(all / 1024 + 1) + "KiB";
  CHECK(PlanOn(folder, Chooser(), {limit}).device.lanes.lanes == 9);
  auto prepared = Prepare({.file = folder.path("experiment.toml"),
                           .sets = {"run.gpu_memory_limit=1KiB"},
                           .folder = ""});
  REQUIRE(prepared.has_value());
  const auto none = MakePlan(std::move(prepared).value(), RunId{}, Chooser());
  REQUIRE_FALSE(none.has_value());
  CHECK(none.problems().front().code == 1401);
  CHECK(none.problems().front().message.find("1024") != std::string::npos);
}

TEST_CASE("a plan that needs more memory than there is, is refused before it trains", "[unit]") {
  const ExperimentFolder folder;
  // 256 workers of a gigabyte and more.
  auto prepared =
      Prepare({.file = folder.path("experiment.toml"),
               .sets = {"model.architecture=layers",
                        "model.layers=[\"dense 1000000\", \"relu\", \"dense 2\"]", "run.jobs=256"},
               .folder = ""});
  if (!prepared.has_value()) FAIL(prepared.problems().front().message);
  const auto none = MakePlan(std::move(prepared).value(), RunId{});
  REQUIRE_FALSE(none.has_value());
  CHECK(none.problems().front().code == 1401);
}

TEST_CASE("a device that fails ends the run with its own error, and the run goes on elsewhere",
          "[unit]") {
  const ExperimentFolder folder;
  const Outcome whole = RunToEnd(MakeSetup(PlanOn(folder, Chooser())));
  // Somewhere in the middle of the run.
  Outcome cut;
  std::uint64_t fail_at = 100;
  do {
    cut = RunToEnd(MakeSetup(PlanOn(folder, Chooser(std::uint64_t{1} << 30U, fail_at))));
    fail_at *= 2;
  } while (cut.end.rounds < 2 && cut.end.state == EndState::kFailed);
  REQUIRE(cut.end.state == EndState::kFailed);
  CHECK(cut.end.code == 7203);
  CHECK(cut.end.exit_code == 1);
  SimulationSetup rest = MakeSetup(PlanOn(folder, Chooser()));
  rest.resume = PointAfter(cut, cut.end.rounds);
  CHECK(RunToEnd(std::move(rest)).end.model == whole.end.model);
}

TEST_CASE("a device that was asked for and is not there is refused", "[unit]") {
  const ExperimentFolder folder;
  auto prepared = Prepare(
      {.file = folder.path("experiment.toml"), .sets = {"run.device=cuda:0"}, .folder = ""});
  REQUIRE(prepared.has_value());
  const auto plan = MakePlan(std::move(prepared).value(), RunId{});
  if (plan.has_value()) SKEP_SKIP("there is a CUDA device");
  CHECK(plan.problems().front().code == 7201);
}

TEST_CASE("a word that is no device is refused", "[unit]") {
  const ExperimentFolder folder;
  auto prepared = Prepare(
      {.file = folder.path("experiment.toml"), .sets = {"run.device=cuda:x"}, .folder = ""});
  REQUIRE(prepared.has_value());
  const auto plan = MakePlan(std::move(prepared).value(), RunId{}, Chooser());
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.problems().front().code == 1102);
}

}  // namespace
}  // namespace skep::simulator
