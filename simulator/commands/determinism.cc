#include "simulator/commands/determinism.h"

#include <algorithm>
#include <bit>
#include <vector>

#include <fmt/format.h>

#include "shared/base/try.h"

namespace skep::simulator {
namespace {

// Keeps the model of every round.
class ModelKeeper final : public CheckpointWriter {
 public:
  [[nodiscard]] Status Write(const RoundState& state) override {
    models.push_back(state.model);
    return Ok();
  }
  std::vector<model::Params> models;
};

// With one job also one client at a time on a device.
Result<std::vector<model::Params>> TrainWith(const Plan& plan, std::uint32_t rounds,
                                             std::size_t jobs) {
  SimulationSetup setup = MakeSetup(plan);
  auto spec = std::make_shared<aggregator::RunSpec>(*plan.spec);
  spec->training.rounds = std::min(rounds, spec->training.rounds);
  spec->stop = {};
  spec->evaluation = {};
  setup.spec = spec;
  setup.test = nullptr;
  setup.log_rules.central_metrics.clear();
  setup.jobs = jobs;
  if (jobs == 1) setup.lanes.device.clients = setup.lanes.count = 1;
  Recorder nobody;
  ModelKeeper keeper;
  const StopRequest stop{StopLevel::kNone};
  Simulation simulation(std::move(setup), nobody, keeper, stop);
  const RunEnd end = simulation.Run(nullptr);
  if (end.state != EndState::kFinished)
    return Error{end.code, fmt::format("with {} jobs: {}", jobs, end.text), ""};
  return std::move(keeper.models);
}

// "round 3: fc1.weight[17] is 0.5 with 1 job and 0.50000006 with 2", or empty.
std::string Difference(std::uint32_t round, const model::Params& a, const model::Params& b,
                       std::size_t jobs) {
  const auto& tensors = a.layout()->tensors();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto left = a.Tensor(t);
    const auto right = b.Tensor(t);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(left[i]) == std::bit_cast<std::uint32_t>(right[i])) continue;
      return fmt::format("different: round {}, {}[{}] is {} with 1 job and {} with {} jobs", round,
                         tensors[t].name, i, left[i], right[i], jobs);
    }
  }
  return "";
}

}  // namespace

Result<DeterminismVerdict> CompareJobs(const Plan& plan, std::uint32_t rounds) {
  const std::size_t jobs = std::max<std::size_t>(2, plan.jobs);
  SKEP_ASSIGN(const std::vector<model::Params> one, TrainWith(plan, rounds, 1));
  SKEP_ASSIGN(const std::vector<model::Params> many, TrainWith(plan, rounds, jobs));
  if (one.size() != many.size())
    return DeterminismVerdict{.is_identical = false,
                              .text = fmt::format("different: {} rounds with 1 job, {} with {}",
                                                  one.size(), many.size(), jobs)};
  for (std::uint32_t i = 0; i < one.size(); ++i) {
    std::string difference = Difference(i + 1, one[i], many[i], jobs);
    if (!difference.empty())
      return DeterminismVerdict{.is_identical = false, .text = std::move(difference)};
  }
  std::string text = fmt::format("identical: {} rounds, 1 and {} jobs", one.size(), jobs);
  if (plan.device.api != nullptr)
    text += fmt::format(", 1 and {} clients at once on the device", plan.device.lanes.lanes);
  return DeterminismVerdict{.is_identical = true, .text = std::move(text)};
}

}  // namespace skep::simulator
