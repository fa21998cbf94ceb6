// The built-in trainer with models beyond perceptrons: sequences, dropout, batch norm, optimisers.
#include <cmath>
#include <memory>

#include "client/trainer.h"
#include "kernels/nn/network.h"
#include "shared/base/rng.h"
#include "tests/support/catch.h"

namespace skep::client {
namespace {

using Lines = std::vector<std::string>;

TrainingPlan MakePlan(std::vector<std::uint32_t> input, Lines lines) {
  TrainingPlan plan{.model = model::ModelSpec::Parse(std::move(input), std::move(lines)).value()};
  plan.learning_rate = 0.25;
  plan.batch_size = 4;
  plan.local_epochs = 2;
  return plan;
}

TaskIdentity Task() {
  return {RoundSeed(42, 3), 3, 7};
}

// Rows of normal values; label r % classes.
std::shared_ptr<data::Dataset> Values(std::size_t rows, std::size_t values, std::int32_t classes) {
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = {static_cast<std::uint32_t>(values)};
  dataset->rows = rows;
  dataset->values = values;
  RandomStream stream(1, {.purpose = Purpose::kSyntheticData});
  for (std::size_t i = 0; i < rows * values; ++i) {
    dataset->floats.push_back(static_cast<float>(stream.Normal()));
  }
  for (std::size_t r = 0; r < rows; ++r) {
    dataset->labels.push_back(static_cast<std::int32_t>(r) % classes);
  }
  return dataset;
}

// Symbols that count up, each followed by the next one.
std::shared_ptr<data::Dataset> Text(std::size_t rows, std::size_t length, std::int32_t symbols) {
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = {static_cast<std::uint32_t>(length)};
  dataset->rows = rows;
  dataset->values = length;
  dataset->labels_per_row = static_cast<std::uint32_t>(length);
  for (std::size_t i = 0; i < rows * length; ++i) {
    const auto at = static_cast<std::int32_t>(i + i / length);
    dataset->floats.push_back(static_cast<float>(at % symbols));
    dataset->labels.push_back((at + 1) % symbols);
  }
  return dataset;
}

LocalData All(std::shared_ptr<const data::Dataset> dataset) {
  LocalData local;
  for (std::size_t r = 0; r < dataset->rows; ++r) local.train.push_back(std::uint32_t(r));
  local.test = local.train;
  local.dataset = std::move(dataset);
  return local;
}

std::vector<float> Initial(const TrainingPlan& plan) {
  const model::Params params = InitialParams(plan.model, model::Initialiser::kFanIn, 1);
  return {params.values().begin(), params.values().end()};
}

Result<TrainReport> Train(const TrainingPlan& plan, const LocalData& data,
                          std::vector<float>& params) {
  return MakeBuiltInTrainer(kernels::DetectIsa())->Train(plan, Task(), data, params, nullptr);
}

// The number of the error.
int CodeOf(const TrainingPlan& plan, const LocalData& data) {
  std::vector<float> params = Initial(plan);
  const std::vector<float> before = params;
  const auto report = Train(plan, data, params);
  REQUIRE_FALSE(report.has_value());
  CHECK(params == before);
  return report.error().code;
}

TEST_CASE("dropout draws with the key of the local step, counted over all epochs", "[unit]") {
  const TrainingPlan plan = MakePlan({6}, {"dense 8", "relu", "dropout 0.5", "dense 3"});
  const LocalData data = All(Values(8, 6, 3));
  std::vector<float> params = Initial(plan);
  REQUIRE(Train(plan, data, params).has_value());

  std::vector<float> expected = Initial(plan);
  kernels::Network network(plan.model, 4, kernels::DetectIsa());
  std::vector<float> x(4 * 6);
  std::vector<std::int32_t> y(4);
  for (std::uint32_t step = 0; step < 4; ++step) {
    std::vector<std::uint32_t> order = data.train;
    ShuffleEpoch(EpochSeed(Task().round_seed, 7, 3, step / 2), order);
    const auto rows = std::span<const std::uint32_t>(order).subspan(step % 2 * 4, 4);
    data.dataset->Gather(rows, x.data(), y.data());
    network.TrainStep(expected, {x.data(), y.data(), 4}, {.learning_rate = 0.25F},
                      StepKey(Task().round_seed, 7, 3, step));
  }
  CHECK(params == expected);
}

TEST_CASE("dropout does nothing in evaluation", "[unit]") {
  const LocalData data = All(Values(8, 6, 3));
  const TrainingPlan with = MakePlan({6}, {"dense 8", "dropout 0.9", "dense 3"});
  const TrainingPlan without = MakePlan({6}, {"dense 8", "dense 3"});
  const std::vector<float> params = Initial(with);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  CHECK(trainer->Evaluate(with, data, params, nullptr).value().loss ==
        trainer->Evaluate(without, data, params, nullptr).value().loss);
}

TEST_CASE("a sequence has a label at every place", "[unit]") {
  const TrainingPlan plan = MakePlan({5}, {"embedding 6 symbols 7", "lstm 8", "dense 7"});
  const LocalData data = All(Text(9, 5, 7));
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  std::vector<float> params(plan.model.layout()->values());
  const EvaluationReport ignorant = trainer->Evaluate(plan, data, params, nullptr).value();
  CHECK(ignorant.loss == Approx(std::log(7.0)).epsilon(1e-6));
  CHECK(ignorant.examples == 9);
  params = Initial(plan);
  TrainingPlan longer = plan;
  longer.local_epochs = 60;
  longer.rule = kernels::Rule::kAdam;
  longer.learning_rate = 0.02;
  const TrainReport report = trainer->Train(longer, Task(), data, params, nullptr).value();
  CHECK(report.examples == 9);
  CHECK(report.loss < 0.3);
  CHECK(trainer->Evaluate(plan, data, params, nullptr).value().accuracy == 1);
}

TEST_CASE("labels that do not count are in no mean", "[unit]") {
  const TrainingPlan plan = MakePlan({5}, {"embedding 6 symbols 7", "dense 7"});
  const auto whole = Text(8, 5, 7);
  const auto masked = std::make_shared<data::Dataset>(*whole);
  for (std::size_t r = 0; r < masked->rows; ++r) masked->labels[r * 5 + 4] = kernels::kNoLabel;
  std::vector<float> params = Initial(plan);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  const EvaluationReport report = trainer->Evaluate(plan, All(masked), params, nullptr).value();
  double loss = 0;
  double correct = 0;
  for (std::size_t place = 0; place < 4; ++place) {
    const auto only = std::make_shared<data::Dataset>(*whole);
    for (std::size_t i = 0; i < only->labels.size(); ++i) {
      if (i % 5 != place) only->labels[i] = kernels::kNoLabel;
    }
    const EvaluationReport one = trainer->Evaluate(plan, All(only), params, nullptr).value();
    loss += one.loss / 4;
    correct += one.accuracy / 4;
  }
  CHECK(report.loss == Approx(loss).epsilon(1e-9));
  CHECK(report.accuracy == Approx(correct));
  CHECK(report.examples == 8);
}

TEST_CASE("without a label that counts the means are undefined, and nothing moves", "[unit]") {
  const TrainingPlan plan = MakePlan({5}, {"embedding 6 symbols 7", "dense 7"});
  const auto none = Text(8, 5, 7);
  for (std::int32_t& label : none->labels) label = kernels::kNoLabel;
  std::vector<float> params = Initial(plan);
  const std::vector<float> before = params;
  const TrainReport report = Train(plan, All(none), params).value();
  CHECK(std::isnan(report.loss));
  CHECK(params == before);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  CHECK(std::isnan(trainer->Evaluate(plan, All(none), params, nullptr).value().accuracy));
}

TEST_CASE("what is no symbol of the model is refused by row", "[unit]") {
  const TrainingPlan plan = MakePlan({5}, {"embedding 6 symbols 7", "dense 7"});
  for (const float bad : {7.0F, -1.0F, 2.5F, std::nanf(""), 1e9F}) {
    INFO(bad);
    const auto text = Text(8, 5, 7);
    text->floats[3 * 5 + 2] = bad;
    CHECK(CodeOf(plan, {text, {3}, {}}) == 7406);
    const auto evaluated = MakeBuiltInTrainer(kernels::DetectIsa())
                               ->Evaluate(plan, {text, {}, {3}}, Initial(plan), nullptr);
    REQUIRE_FALSE(evaluated.has_value());
    CHECK(evaluated.error().message ==
          "row 3 holds what is no symbol of the model: whole numbers below 7");
  }
}

TEST_CASE("labels and places must agree", "[unit]") {
  const TrainingPlan plan = MakePlan({5}, {"embedding 6 symbols 7", "dense 7"});
  const auto one_label = Values(8, 5, 3);
  CHECK(CodeOf(plan, All(one_label)) == 7406);
  CHECK(CodeOf(MakePlan({5}, {"dense 7"}), All(Text(8, 5, 7))) == 7406);
}

TEST_CASE("an example without its one label is refused", "[unit]") {
  const auto values = Values(8, 5, 3);
  values->labels[0] = kernels::kNoLabel;
  CHECK(CodeOf(MakePlan({5}, {"dense 3"}), {values, {0}, {}}) == 7406);
}

TEST_CASE("a text of one place may have it not count", "[unit]") {
  const TrainingPlan plan = MakePlan({1}, {"embedding 4 symbols 7", "flatten", "dense 7"});
  const auto text = Text(8, 1, 7);
  text->labels[0] = kernels::kNoLabel;
  std::vector<float> params = Initial(plan);
  CHECK(Train(plan, {text, {0, 1, 2}, {}}, params).value().examples == 3);
}

TEST_CASE("batch norm trains on batches of several rows and moves its statistics", "[unit]") {
  const TrainingPlan plan = MakePlan({6}, {"norm batch", "dense 3"});
  std::vector<float> params = Initial(plan);
  REQUIRE(Train(plan, All(Values(8, 6, 3)), params).has_value());
  const std::size_t variance = plan.model.layout()->Offset(3);
  CHECK(params[variance] != 1);
  CHECK(params[variance] > 0);
}

TEST_CASE("batch norm refuses a batch of one row before it trains", "[unit]") {
  TrainingPlan plan = MakePlan({6}, {"norm batch", "dense 3"});
  CHECK(CodeOf(plan, All(Values(9, 6, 3))) == 7406);
  plan.merge_tail = true;
  std::vector<float> params = Initial(plan);
  CHECK(Train(plan, All(Values(9, 6, 3)), params).value().steps == 4);
  CHECK(CodeOf(plan, All(Values(1, 6, 3))) == 7406);
}

TEST_CASE("an optimiser starts every task at rest", "[unit]") {
  const LocalData data = All(Values(9, 6, 3));
  for (const kernels::Rule rule : {kernels::Rule::kAdam, kernels::Rule::kAdamW}) {
    TrainingPlan plan = MakePlan({6}, {"dense 8", "relu", "dense 3"});
    plan.rule = rule;
    plan.weight_decay = 0.1;
    const auto kept = MakeBuiltInTrainer(kernels::DetectIsa());
    std::vector<float> first = Initial(plan);
    std::vector<float> second = Initial(plan);
    REQUIRE(kept->Train(plan, Task(), data, first, nullptr).has_value());
    REQUIRE(kept->Train(plan, Task(), data, second, nullptr).has_value());
    CHECK(first == second);
  }
}

TEST_CASE("the losses differ, and a kept workspace follows the plan's", "[unit]") {
  const LocalData data = All(Values(12, 6, 2));
  const auto kept = MakeBuiltInTrainer(kernels::DetectIsa());
  std::vector<std::vector<float>> trained;
  for (const kernels::LossKind loss :
       {kernels::LossKind::kSoftmaxCrossEntropy, kernels::LossKind::kSigmoidCrossEntropy,
        kernels::LossKind::kMeanSquaredError}) {
    TrainingPlan plan = MakePlan({6}, {"dense 2"});
    plan.loss = loss;
    std::vector<float> by_kept = Initial(plan);
    std::vector<float> by_new = Initial(plan);
    REQUIRE(kept->Train(plan, Task(), data, by_kept, nullptr).has_value());
    REQUIRE(Train(plan, data, by_new).has_value());
    CHECK(by_kept == by_new);
    for (const auto& other : trained) CHECK(other != by_kept);
    trained.push_back(by_kept);
  }
}

TEST_CASE("one output learns two classes", "[unit]") {
  const auto values = Values(40, 6, 2);
  for (std::size_t r = 0; r < 40; ++r) values->labels[r] = values->floats[r * 6] > 0 ? 1 : 0;
  TrainingPlan plan = MakePlan({6}, {"dense 1"});
  plan.loss = kernels::LossKind::kSigmoidCrossEntropy;
  plan.local_epochs = 30;
  std::vector<float> params = Initial(plan);
  REQUIRE(Train(plan, All(values), params).has_value());
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  CHECK(trainer->Evaluate(plan, All(values), params, nullptr).value().accuracy > 0.9);
}

TEST_CASE("an evaluation between two tasks changes no bit of them", "[unit]") {
  TrainingPlan plan = MakePlan({6}, {"dense 8", "relu", "dense 3"});
  plan.momentum = 0.9;
  const LocalData data = All(Values(300, 6, 3));
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  std::vector<float> params = Initial(plan);
  std::vector<float> alone = Initial(plan);
  for (int task = 0; task < 2; ++task) {
    REQUIRE(trainer->Train(plan, Task(), data, params, nullptr).has_value());
    REQUIRE(trainer->Evaluate(plan, data, params, nullptr).has_value());
    REQUIRE(Train(plan, data, alone).has_value());
  }
  CHECK(params == alone);
}

}  // namespace
}  // namespace skep::client
