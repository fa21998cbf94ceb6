#include "tests/kernels/lane_world.h"

#include <algorithm>
#include <cmath>

#include "kernels/body/batch_body.h"
#include "shared/base/try.h"
#include "tests/emulator/host_device.h"
#include "tests/kernels/reference.h"

namespace skep::kernels::test {
namespace {

constexpr std::uint32_t kExamples = 40;
constexpr std::uint32_t kRows = 4;
constexpr std::uint32_t kSteps = 3;
constexpr int kEpochs = 2;

}  // namespace

double LargestDifference(const std::vector<std::vector<float>>& a,
                         const std::vector<std::vector<float>>& b) {
  double largest = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].size() != b[i].size()) return 1e30;
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      const double difference = std::abs(static_cast<double>(a[i][j] - b[i][j]));
      largest = difference <= largest ? largest : difference;  // NaN counts
    }
  }
  return largest;
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    largest = difference <= largest ? largest : difference;
  }
  return largest;
}

std::vector<LaneModel> EveryLayer() {
  return {
      {{2, 6, 5}, {"conv 4 3x3 same", "relu", "maxpool 2", "conv 6 2x2 stride 2", "dense 3"}},
      {{4, 5, 4}, {"conv 4 3x3 same groups 4", "tanh", "conv 6 1x1 groups 2 nobias", "dense 3"}},
      {{1, 7, 7}, {"conv 3 3x3 stride 2 same", "gelu", "avgpool 2", "flatten", "dense 3"}},
      {{2, 6, 6},
       {"residual", "conv 2 3x3 same", "relu", "add", "relu", "residual",
        "conv 4 3x3 same stride 2", "add", "relu", "dense 9", "sigmoid", "dense 3"}},
      {{12, 3}, {"conv1d 4 3 same", "relu", "maxpool1d 2", "conv1d 5 2", "globalpool", "dense 3"}},
      {{6}, {"embedding 4 symbols 5", "positions", "dense 7", "tanh", "dense 5"}},
      {{9}, {"dense 8", "norm batch", "relu", "dense 6", "norm group 3", "relu", "dense 3"}, true},
      {{2, 5, 4},
       {"conv 4 3x3", "norm batch", "relu", "conv 6 2x2", "norm group 2", "relu", "norm layer",
        "dense 3"}},
      {{5, 4}, {"norm layer", "lstm 6", "lstm 3", "globalpool", "dense 3"}},
      {{6}, {"embedding 4 symbols 5", "gru 6", "gru 7", "dense 5"}},
      {{6},
       {"embedding 8 symbols 5", "positions", "residual", "norm layer", "attention 2 causal", "add",
        "attention 4", "relu", "dense 5"}},
      {{8}, {"dense 9", "relu", "dropout 0.4", "dense 7", "dropout 0.25", "dense 3"}}};
}

LaneWorld::LaneWorld(std::vector<std::uint32_t> input, std::vector<std::string> lines,
                     LossKind loss)
    : spec_(model::ModelSpec::Parse(std::move(input), std::move(lines)).value()),
      loss_(loss),
      x_(RandomFloats(std::size_t{kExamples} * spec_.input_values(), 3)),
      labels_(RandomLabels(std::size_t{kExamples} * spec_.positions(), spec_.outputs(), 4)) {
  if (spec_.input_symbols() > 0) {
    for (float& value : x_) {
      value = std::floor((value + 1) / 2 * static_cast<float>(spec_.input_symbols()));
    }
  }
  if (spec_.positions() > 1) {
    for (std::size_t i = 0; i < labels_.size(); i += 5) labels_[i] = kNoLabel;
  }
}

std::vector<float> LaneWorld::Start(std::uint32_t lane) const {
  const model::Params params = model::InitialParams(spec_, model::Initialiser::kFanIn, 100 + lane);
  return {params.values().begin(), params.values().end()};
}

std::vector<std::uint32_t> LaneWorld::ExamplesOf(std::uint32_t lane) const {
  std::vector<std::uint32_t> examples;
  for (std::uint32_t i = 0; i < 5 + lane % 6; ++i) {
    examples.push_back((lane * 7 + i * 3) % kExamples);
  }
  return examples;
}

std::uint64_t LaneWorld::KeyOf(std::uint32_t lane, std::uint32_t step) {
  return 1000 + lane * 50 + step;
}

Trained LaneWorld::OnHost(std::uint32_t lanes, const OptimiserStep& step) const {
  Trained trained;
  Network network(spec_, kRows, Isa::kPortable, loss_);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    std::vector<float> params = Start(lane);
    const std::vector<std::uint32_t> examples = ExamplesOf(lane);
    network.BeginTask();
    double loss = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      loss = 0;
      for (std::uint32_t first = 0, number = 0; first < examples.size(); first += kRows, ++number) {
        const std::size_t rows = std::min<std::size_t>(kRows, examples.size() - first);
        std::vector<float> x;
        std::vector<std::int32_t> y;
        for (std::size_t r = 0; r < rows; ++r) {
          const std::size_t e = examples[first + r];
          x.insert(x.end(), x_.begin() + static_cast<std::ptrdiff_t>(e * spec_.input_values()),
                   x_.begin() + static_cast<std::ptrdiff_t>((e + 1) * spec_.input_values()));
          y.insert(y.end(), labels_.begin() + static_cast<std::ptrdiff_t>(e * spec_.positions()),
                   labels_.begin() + static_cast<std::ptrdiff_t>((e + 1) * spec_.positions()));
        }
        const auto counted =
            std::count_if(y.begin(), y.end(), [](std::int32_t label) { return label != kNoLabel; });
        loss += network.TrainStep(params, {x.data(), y.data(), rows}, step, KeyOf(lane, number)) *
                static_cast<double>(counted);
      }
    }
    trained.params.push_back(params);
    trained.losses.push_back(loss);
  }
  return trained;
}

Trained LaneWorld::OnDevice(std::uint32_t lanes, const OptimiserStep& step,
                            const std::set<std::uint32_t>& resting,
                            std::optional<std::uint64_t> fail_at) const {
  Trained trained;
  emulator::HostDevice device({.fail_at = fail_at});
  std::vector<std::uint32_t> order(std::size_t{kSteps} * lanes * kRows, body::kNoExample);
  std::vector<std::uint64_t> keys;
  for (std::uint32_t s = 0; s < kSteps; ++s) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      keys.push_back(KeyOf(lane, s));
      if (resting.count(lane) != 0) continue;
      const std::vector<std::uint32_t> examples = ExamplesOf(lane);
      for (std::uint32_t r = 0; r < kRows && s * kRows + r < examples.size(); ++r) {
        order[(std::size_t{s} * lanes + lane) * kRows + r] = examples[s * kRows + r];
      }
    }
  }
  for (std::uint32_t lane = 0; lane < lanes; ++lane) trained.params.push_back(Start(lane));
  trained.losses.resize(lanes);
  const auto run = [&]() -> Status {
    SKEP_ASSIGN(
        const auto network,
        LaneNetwork::Make(spec_, {.lanes = lanes, .rows = kRows, .loss = loss_, .step = step},
                          device, std::uint64_t{1} << 30U));
    Arena arena(device, std::uint64_t{1} << 30U);
    SKEP_ASSIGN(const LaneData data, LaneData::Make({.bytes = {},
                                                     .floats = x_,
                                                     .labels = labels_,
                                                     .values = spec_.input_values(),
                                                     .positions = spec_.positions()},
                                                    arena, network->queue()));
    SKEP_TRY(network->Begin(
        std::vector<std::span<const float>>(trained.params.begin(), trained.params.end())));
    std::uint64_t allocations = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      SKEP_TRY(network->Train(
          {.data = data, .steps = kSteps, .order = order, .keys = keys, .step = step}));
      if (epoch == 0) allocations = device.allocations();
    }
    trained.allocations_after_first_epoch = device.allocations() - allocations;
    SKEP_TRY(network->ReadLosses(trained.losses));
    return network->ReadParams(
        std::vector<std::span<float>>(trained.params.begin(), trained.params.end()));
  };
  if (Status done = run(); !done) trained.error = done.error();
  trained.calls = device.calls();
  trained.faults = device.TakeFaults();
  trained.leaks = device.Leaks();
  return trained;
}

}  // namespace skep::kernels::test
