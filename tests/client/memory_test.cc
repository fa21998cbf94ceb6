// What a worker holds, against what it says it will: a program of its own, for it counts bytes.
#include <algorithm>
#include <memory>

#include "client/trainer.h"
#include "shared/base/rng.h"
#include "tests/support/allocations.h"
#include "tests/support/catch.h"

namespace skep::client {
namespace {

struct Sort {
  std::string name;
  std::vector<std::uint32_t> input;
  std::uint32_t classes;
  std::string normalization = "none";
};

TrainingPlan PlanOf(const Sort& sort) {
  const auto lines = model::PresetLines(sort.name, {.input = sort.input,
                                                    .classes = sort.classes,
                                                    .hidden = {64},
                                                    .normalization = sort.normalization});
  TrainingPlan plan{.model = model::ModelSpec::Parse(sort.input, lines.value()).value()};
  plan.learning_rate = 0.01;
  plan.batch_size = 10;
  plan.local_steps = 1;
  return plan;
}

// Trains on so many rows; evaluates on more than one piece of them.
LocalData DataOf(const TrainingPlan& plan, std::size_t train, std::size_t test = 100) {
  const std::size_t rows = std::max(train, test);
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = plan.model.input();
  dataset->rows = rows;
  dataset->values = plan.model.input_values();
  dataset->labels_per_row = plan.model.positions();
  dataset->bytes.assign(rows * dataset->values, 1);
  dataset->labels.assign(rows * dataset->labels_per_row, 1);
  LocalData local;
  for (std::size_t r = 0; r < train; ++r) local.train.push_back(std::uint32_t(r));
  for (std::size_t r = 0; r < test; ++r) local.test.push_back(std::uint32_t(r));
  local.dataset = std::move(dataset);
  return local;
}

// Held by the parameters and a trainer after a training and an evaluation.
std::size_t Held(const TrainingPlan& plan, const LocalData& data) {
  const std::size_t before = skep::test::HeldBytes();
  model::Params params(plan.model.layout());
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  const TaskIdentity task{RoundSeed(42, 1), 1, 0};
  REQUIRE(trainer->Train(plan, task, data, params.values(), nullptr).has_value());
  REQUIRE(trainer->Evaluate(plan, data, params.values(), nullptr).has_value());
  return skep::test::HeldBytes() - before;
}

void CheckHeld(const TrainingPlan& plan, std::size_t rows) {
  const LocalData data = DataOf(plan, rows);
  const auto held = static_cast<double>(Held(plan, data));
  const auto stated = static_cast<double>(WorkerBytes(plan, rows));
  INFO("held " << held << ", stated " << stated);
  constexpr double kSmall = 40'000;  // lists of layers, names
  CHECK(held <= stated + kSmall);
  CHECK(stated <= 1.1 * held + kSmall);
}

TEST_CASE("a worker holds what it states, for every architecture", "[unit]") {
  const std::vector<Sort> sorts{{"softmax", {784}, 10},       {"mlp", {128, 6}, 5, "batch"},
                                {"2nn", {1, 28, 28}, 10},     {"fedavg-cnn", {1, 28, 28}, 10},
                                {"lenet", {3, 32, 32}, 10},   {"pfl-cnn", {3, 32, 32}, 10, "group"},
                                {"resnet8", {3, 32, 32}, 10}, {"har-cnn", {128, 6}, 5},
                                {"char-lstm", {80}, 65},      {"tiny-transformer", {80}, 65}};
  for (const Sort& sort : sorts) {
    INFO(sort.name);
    CheckHeld(PlanOf(sort), 20);
  }
}

TEST_CASE("optimisers hold the model's size as often as they state", "[unit]") {
  TrainingPlan plan = PlanOf({"2nn", {784}, 10});
  const std::uint64_t plain = WorkerBytes(plan, 20);
  const std::uint64_t model = plan.model.layout()->values() * sizeof(float);
  CheckHeld(plan, 20);
  plan.gradient_clip = 1;
  CHECK(WorkerBytes(plan, 20) == plain + model);
  CheckHeld(plan, 20);
  plan.momentum = 0.9;
  CHECK(WorkerBytes(plan, 20) == plain + 2 * model);
  CheckHeld(plan, 20);
  plan.momentum = 0;
  plan.rule = kernels::Rule::kAdam;
  CHECK(WorkerBytes(plan, 20) == plain + 3 * model);
  CheckHeld(plan, 20);
}

TEST_CASE("an evaluation of many rows holds no more than one of few", "[unit]") {
  const TrainingPlan plan = PlanOf({"2nn", {784}, 10});
  CHECK(Held(plan, DataOf(plan, 20, 2000)) <= Held(plan, DataOf(plan, 20, 200)));
}

TEST_CASE("other layers are stated as well", "[unit]") {
  for (const std::vector<std::string>& lines : std::vector<std::vector<std::string>>{
           {"gru 48", "dense 7"},
           {"conv1d 32 5 same stride 2", "norm layer", "gru 24", "flatten", "dense 3"},
           {"positions", "attention 2", "globalpool", "dense 3"}}) {
    TrainingPlan plan{.model = model::ModelSpec::Parse({64, 16}, lines).value()};
    INFO(lines[0]);
    plan.learning_rate = 0.01;
    plan.batch_size = 16;
    plan.local_steps = 1;
    CheckHeld(plan, 32);
  }
  TrainingPlan depthwise{
      .model = model::ModelSpec::Parse({16, 24, 24},
                                       {"conv 32 3x3 same groups 16 stride 2", "conv 24 1x1",
                                        "conv 24 3x3 groups 2", "avgpool 2", "dense 3"})
                   .value()};
  depthwise.learning_rate = 0.01;
  depthwise.batch_size = 0;
  depthwise.local_epochs = 1;
  CheckHeld(depthwise, 32);
}

}  // namespace
}  // namespace skep::client
