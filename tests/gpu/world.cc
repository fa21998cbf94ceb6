#include "tests/gpu/world.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/body/batch_body.h"
#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/base/try.h"
#include "tests/kernels/reference.h"

namespace skep::gpu {
namespace {

constexpr std::uint32_t kExamples = 64;
constexpr std::uint64_t kRest = std::uint64_t{1} << 30U;  // of a device's memory, for others

std::uint64_t KeyOf(std::uint32_t lane, std::uint32_t step) {
  return 1000 + std::uint64_t{lane} * 50 + step;
}

struct Named {
  const char* name;
  std::vector<std::uint32_t> input;
  std::uint32_t classes;
  std::vector<std::uint32_t> small_input;
  std::vector<std::string> small_lines;
};

std::vector<Named> AllNamed() {
  return {
      {"softmax", {784}, 10, {12}, {"dense 3"}},
      {"mlp", {784}, 10, {9}, {"dense 6", "relu", "dense 3"}},
      {"2nn", {784}, 10, {12}, {"dense 9", "relu", "dense 9", "relu", "dense 3"}},
      {"fedavg-cnn",
       {1, 28, 28},
       10,
       {1, 6, 6},
       {"conv 3 3x3 same", "relu", "maxpool 2", "conv 4 3x3 same", "relu", "flatten", "dense 3"}},
      {"lenet", {1, 28, 28}, 10, {1, 6, 6}, {"conv 3 3x3", "tanh", "avgpool 2", "dense 3"}},
      {"pfl-cnn",
       {3, 32, 32},
       10,
       {3, 6, 6},
       {"conv 4 3x3", "relu", "maxpool 2", "flatten", "dense 6", "relu", "dense 3"}},
      {"resnet8",
       {3, 32, 32},
       10,
       {2, 5, 5},
       {"conv 4 3x3 same", "norm group 2", "relu", "residual", "conv 4 3x3 same", "norm group 2",
        "add", "relu", "globalpool", "dense 3"}},
      {"resnet20",
       {3, 32, 32},
       10,
       {2, 5, 5},
       {"conv 2 3x3 same", "norm group 1", "relu", "residual", "conv 4 3x3 same stride 2",
        "norm group 2", "add", "relu", "globalpool", "dense 3"}},
      {"char-lstm", {20}, 65, {4}, {"embedding 3 symbols 5", "lstm 6", "dense 5"}},
      {"har-cnn",
       {128, 9},
       6,
       {10, 3},
       {"conv1d 4 3", "relu", "maxpool1d 2", "flatten", "dense 3"}},
      {"tiny-transformer",
       {20},
       65,
       {4},
       {"embedding 4 symbols 5", "positions", "residual", "norm layer", "attention 2 causal", "add",
        "norm layer", "dense 5"}}};
}

World Make(const Named& named, bool small) {
  std::vector<std::string> lines = named.small_lines;
  if (!small) {
    lines = model::PresetLines(named.name,
                               {.input = named.input, .classes = named.classes, .hidden = {200}})
                .value();
  }
  return {
      named.name,
      model::ModelSpec::Parse(small ? named.small_input : named.input, std::move(lines)).value()};
}

}  // namespace

World::World(std::string name, model::ModelSpec spec)
    : name_(std::move(name)),
      spec_(std::move(spec)),
      x_(kernels::test::RandomFloats(std::size_t{kExamples} * spec_.input_values(), 3)),
      labels_(kernels::test::RandomLabels(std::size_t{kExamples} * spec_.positions(),
                                          spec_.outputs(), 4)) {
  if (spec_.input_symbols() == 0) return;
  for (float& value : x_) {
    value = std::floor((value + 1) / 2 * static_cast<float>(spec_.input_symbols()));
  }
}

std::vector<float> World::Start(std::uint32_t client) const {
  const model::Params params =
      model::InitialParams(spec_, model::Initialiser::kFanIn, 100 + client);
  return {params.values().begin(), params.values().end()};
}

Models World::StartsOf(const Task& task) const {
  Models models;
  for (std::uint32_t lane = 0; lane < task.lanes; ++lane) {
    models.push_back(Start(task.first + lane));
  }
  return models;
}

std::uint32_t World::ExampleOf(const Task& task, std::uint32_t lane, std::uint32_t step,
                               std::uint32_t row) {
  const std::uint32_t client = task.first + lane;
  const bool is_left_out = client % 2 == 1 && step + 1 == task.steps && row + 1 == task.rows;
  if (is_left_out && task.rows > 1) return kernels::body::kNoExample;
  return (client * 7 + (step * task.rows + row) * 3) % kExamples;
}

Result<World::Measured> World::OnDevice(kernels::DeviceApi& device, const Task& task,
                                        Models& models, bool repeats) const {
  std::vector<std::uint32_t> order;
  std::vector<std::uint64_t> keys;
  for (std::uint32_t s = 0; s < task.steps; ++s) {
    for (std::uint32_t lane = 0; lane < task.lanes; ++lane) {
      keys.push_back(KeyOf(task.first + lane, s));
      for (std::uint32_t r = 0; r < task.rows; ++r) order.push_back(ExampleOf(task, lane, s, r));
    }
  }
  SKEP_ASSIGN(const kernels::DeviceInfo info, device.Info());
  SKEP_ASSIGN(
      const auto network,
      kernels::LaneNetwork::Make(spec_, {.lanes = task.lanes, .rows = task.rows, .step = task.step},
                                 device, info.free_bytes - std::min(info.free_bytes, kRest) / 8));
  kernels::Arena arena(device, kRest);
  SKEP_ASSIGN(const kernels::LaneData data,
              kernels::LaneData::Make({.bytes = {},
                                       .floats = x_,
                                       .labels = labels_,
                                       .values = spec_.input_values(),
                                       .positions = spec_.positions()},
                                      arena, network->queue()));
  SKEP_TRY(network->Begin(std::vector<std::span<const float>>(models.begin(), models.end())));
  Measured measured;
  for (int epoch = repeats ? 0 : 1; epoch < 2; ++epoch) {
    const SteadyTime begun = ReadClock().steady;
    SKEP_TRY(network->Train(
        {.data = data, .steps = task.steps, .order = order, .keys = keys, .step = task.step}));
    measured.seconds = Seconds(ReadClock().steady - begun);
  }
  SKEP_TRY(network->ReadParams(std::vector<std::span<float>>(models.begin(), models.end())));
  return measured;
}

void World::OnHost(const Task& task, Models& models) const {
  kernels::Network network(spec_, task.rows, kernels::Isa::kPortable);
  for (std::uint32_t lane = 0; lane < task.lanes; ++lane) {
    network.BeginTask();
    for (std::uint32_t s = 0; s < task.steps; ++s) {
      std::vector<float> x;
      std::vector<std::int32_t> y;
      std::size_t rows = 0;
      for (std::uint32_t r = 0; r < task.rows; ++r) {
        const std::uint32_t example = ExampleOf(task, lane, s, r);
        if (example == kernels::body::kNoExample) continue;
        ++rows;
        const auto* values = x_.data() + std::size_t{example} * spec_.input_values();
        x.insert(x.end(), values, values + spec_.input_values());
        const auto* labels = labels_.data() + std::size_t{example} * spec_.positions();
        y.insert(y.end(), labels, labels + spec_.positions());
      }
      static_cast<void>(network.TrainStep(models[lane], {x.data(), y.data(), rows}, task.step,
                                          KeyOf(task.first + lane, s)));
    }
  }
}

std::vector<World> NamedWorlds(bool small) {
  std::vector<World> worlds;
  for (const Named& named : AllNamed()) worlds.push_back(Make(named, small));
  return worlds;
}

World WorldOf(const std::string& name, bool small) {
  const std::vector<Named> all = AllNamed();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named& named) { return named.name == name; });
  SKEP_CHECK(found != all.end());
  return Make(*found, small);
}

}  // namespace skep::gpu
