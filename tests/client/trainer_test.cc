// The built-in trainer against a plain loop in double, and its rules for batches and epochs.
#include <cmath>
#include <memory>

#include "client/trainer.h"
#include "shared/base/rng.h"
#include "tests/support/catch.h"

namespace skep::client {
namespace {

constexpr std::size_t kInputs = 5;
constexpr std::size_t kClasses = 3;
constexpr std::size_t kParameters = kInputs * kClasses + kClasses;

// Rows drawn at random; the class is that of the largest of the first three inputs.
std::shared_ptr<data::Dataset> MakeData(std::size_t rows) {
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = {kInputs};
  dataset->rows = rows;
  dataset->values = kInputs;
  RandomStream stream(1, {.purpose = Purpose::kSyntheticData});
  for (std::size_t row = 0; row < rows; ++row) {
    std::int32_t label = 0;
    for (std::size_t i = 0; i < kInputs; ++i) {
      dataset->floats.push_back(static_cast<float>(stream.Normal()));
      const float* x = dataset->floats.data() + row * kInputs;
      if (i < kClasses && x[i] > x[label]) label = static_cast<std::int32_t>(i);
    }
    dataset->labels.push_back(label);
  }
  return dataset;
}

LocalData MakeLocal(std::size_t rows, std::size_t held_out = 0) {
  LocalData local;
  local.dataset = MakeData(rows + held_out);
  for (std::size_t row = 0; row < rows; ++row) local.train.push_back(std::uint32_t(row));
  for (std::size_t i = 0; i < held_out; ++i) local.test.push_back(std::uint32_t(rows + i));
  return local;
}

TrainingPlan MakePlan(std::uint32_t batch, std::uint32_t epochs, std::uint32_t steps = 0) {
  TrainingPlan plan{.model = model::ModelSpec::Parse({kInputs}, {"dense 3"}).value()};
  plan.learning_rate = 0.25;
  plan.batch_size = batch;
  plan.local_epochs = epochs;
  plan.local_steps = steps;
  return plan;
}

TaskIdentity MakeTask() {
  return {RoundSeed(42, 1), 1, 7};
}

std::vector<float> Zeros() {
  return std::vector<float>(kParameters);
}

Result<TrainReport> Train(const TrainingPlan& plan, const LocalData& data,
                          std::vector<float>& params) {
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  return trainer->Train(plan, MakeTask(), data, params, nullptr);
}

// Softmax regression in double: weights [class][input], then biases.
class PlainLoop {
 public:
  explicit PlainLoop(const LocalData& data) : data_(data), params_(kParameters) {}

  // One SGD step on these rows; adds their losses, before the step.
  void Step(const std::vector<std::uint32_t>& rows, double rate) {
    std::vector<double> gradient(kParameters);
    for (const std::uint32_t row : rows) {
      const float* x = data_.dataset->floats.data() + row * kInputs;
      const std::vector<double> p = Probabilities(x);
      const auto label = static_cast<std::size_t>(data_.dataset->labels[row]);
      loss_sum -= std::log(p[label]);
      for (std::size_t c = 0; c < kClasses; ++c) {
        const double delta = (p[c] - (c == label ? 1 : 0)) / static_cast<double>(rows.size());
        for (std::size_t i = 0; i < kInputs; ++i) gradient[c * kInputs + i] += delta * x[i];
        gradient[kClasses * kInputs + c] += delta;
      }
    }
    for (std::size_t k = 0; k < kParameters; ++k) params_[k] -= rate * gradient[k];
  }
  [[nodiscard]] double Distance(const std::vector<float>& other) const {
    double largest = 0;
    for (std::size_t k = 0; k < kParameters; ++k) {
      largest = std::max(largest, std::abs(params_[k] - static_cast<double>(other[k])));
    }
    return largest;
  }

  double loss_sum = 0;

 private:
  [[nodiscard]] std::vector<double> Probabilities(const float* x) const {
    std::vector<double> p(kClasses);
    double sum = 0;
    for (std::size_t c = 0; c < kClasses; ++c) {
      double z = params_[kClasses * kInputs + c];
      for (std::size_t i = 0; i < kInputs; ++i) {
        z += params_[c * kInputs + i] * static_cast<double>(x[i]);
      }
      sum += p[c] = std::exp(z);
    }
    for (double& one : p) one /= sum;
    return p;
  }

  const LocalData& data_;
  std::vector<double> params_;
};

std::vector<std::uint32_t> Shuffled(const std::vector<std::uint32_t>& list, std::uint32_t epoch) {
  std::vector<std::uint32_t> order = list;
  ShuffleEpoch(EpochSeed(MakeTask().round_seed, MakeTask().client, MakeTask().round, epoch), order);
  return order;
}

TEST_CASE("the order of batches is the one of the known answers", "[unit]") {
  const std::vector<std::uint32_t> ten{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(Shuffled(ten, 0) == std::vector<std::uint32_t>{4, 9, 0, 6, 3, 8, 5, 7, 1, 2});
  CHECK(Shuffled(ten, 1) == std::vector<std::uint32_t>{7, 0, 4, 3, 8, 5, 6, 9, 1, 2});
  // The trainer draws the same: with batches of one, every order ends at other weights.
  const LocalData data = MakeLocal(10);
  std::vector<float> params = Zeros();
  REQUIRE(Train(MakePlan(1, 2), data, params).has_value());
  PlainLoop same(data);
  PlainLoop unshuffled(data);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (const std::uint32_t row : Shuffled(ten, epoch)) same.Step({row}, 0.25);
    for (const std::uint32_t row : ten) unshuffled.Step({row}, 0.25);
  }
  CHECK(same.Distance(params) < 1e-5);
  CHECK(unshuffled.Distance(params) > 1e-3);
}

TEST_CASE("several epochs with a smaller last batch equal a plain loop", "[unit]") {
  const LocalData data = MakeLocal(43);
  std::vector<float> params = Zeros();
  const TrainReport report = Train(MakePlan(10, 3), data, params).value();
  PlainLoop plain(data);
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    plain.loss_sum = 0;
    const std::vector<std::uint32_t> order = Shuffled(data.train, epoch);
    for (std::size_t first = 0; first < order.size(); first += 10) {
      const std::size_t last = std::min<std::size_t>(first + 10, order.size());
      plain.Step({order.begin() + std::ptrdiff_t(first), order.begin() + std::ptrdiff_t(last)},
                 0.25);
    }
  }
  CHECK(plain.Distance(params) < 1e-4);
  CHECK(report.loss == Approx(plain.loss_sum / 43).epsilon(1e-4));
  CHECK(report.examples == 43);
  CHECK(report.steps == 15);
}

TEST_CASE("training lowers the loss from that of ignorance", "[unit]") {
  const LocalData data = MakeLocal(60, 40);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  const TrainingPlan plan = MakePlan(10, 20);
  std::vector<float> params = Zeros();
  const EvaluationReport before = trainer->Evaluate(plan, data, params, nullptr).value();
  CHECK(before.loss == Approx(std::log(3.0)).epsilon(1e-6));
  CHECK(before.examples == 40);
  REQUIRE(trainer->Train(plan, MakeTask(), data, params, nullptr).has_value());
  const EvaluationReport after = trainer->Evaluate(plan, data, params, nullptr).value();
  CHECK(after.loss < 0.7 * before.loss);
  CHECK(after.accuracy > 0.7);
}

TEST_CASE("all examples in one batch", "[unit]") {
  const LocalData data = MakeLocal(17);
  std::vector<float> params = Zeros();
  const TrainReport report = Train(MakePlan(0, 2), data, params).value();
  CHECK(report.steps == 2);
  PlainLoop plain(data);
  plain.Step(data.train, 0.25);
  plain.Step(data.train, 0.25);
  CHECK(plain.Distance(params) < 1e-5);
}

TEST_CASE("a last single row is its own batch, or joins the one before", "[unit]") {
  const LocalData data = MakeLocal(21);
  TrainingPlan keep = MakePlan(10, 1);
  TrainingPlan merge = keep;
  merge.merge_tail = true;
  std::vector<float> kept = Zeros();
  std::vector<float> merged = Zeros();
  CHECK(Train(keep, data, kept).value().steps == 3);
  CHECK(Train(merge, data, merged).value().steps == 2);
  const std::vector<std::uint32_t> order = Shuffled(data.train, 0);
  PlainLoop plain(data);
  plain.Step({order.begin(), order.begin() + 10}, 0.25);
  plain.Step({order.begin() + 10, order.end()}, 0.25);
  CHECK(plain.Distance(merged) < 1e-5);
  // Two rows or a lone example stay as they are.
  std::vector<float> params = Zeros();
  CHECK(Train(merge, MakeLocal(22), params).value().steps == 3);
  CHECK(Train(merge, MakeLocal(1), params).value().steps == 1);
}

TEST_CASE("local steps wrap over epochs and stop in the middle of one", "[unit]") {
  const LocalData data = MakeLocal(25);
  std::vector<float> params = Zeros();
  const TrainReport report = Train(MakePlan(10, 0, 5), data, params).value();
  CHECK(report.steps == 5);
  CHECK(report.examples == 25);
  PlainLoop plain(data);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    plain.loss_sum = 0;
    const std::vector<std::uint32_t> order = Shuffled(data.train, epoch);
    plain.Step({order.begin(), order.begin() + 10}, 0.25);
    plain.Step({order.begin() + 10, order.begin() + 20}, 0.25);
    if (epoch == 0) plain.Step({order.begin() + 20, order.end()}, 0.25);
  }
  CHECK(plain.Distance(params) < 1e-5);
  CHECK(report.loss == Approx(plain.loss_sum / 20).epsilon(1e-4));
}

TEST_CASE("fewer local steps than an epoch weigh by what was used", "[unit]") {
  std::vector<float> params = Zeros();
  CHECK(Train(MakePlan(10, 0, 1), MakeLocal(25), params).value().examples == 10);
  CHECK(Train(MakePlan(10, 0, 3), MakeLocal(25), params).value().examples == 25);
}

TEST_CASE("a kept workspace gives the same bits as a new one", "[unit]") {
  const auto kept = MakeBuiltInTrainer(kernels::DetectIsa());
  TrainingPlan momentum = MakePlan(10, 2);
  momentum.momentum = 0.9;
  // Larger and smaller tasks, another model in between.
  TrainingPlan deep = momentum;
  deep.model = model::ModelSpec::Parse({kInputs}, {"dense 8", "relu", "dense 3"}).value();
  for (const std::size_t rows : {30U, 7U, 90U}) {
    const LocalData data = MakeLocal(rows);
    std::vector<float> by_kept = Zeros();
    std::vector<float> by_new = Zeros();
    REQUIRE(kept->Train(momentum, MakeTask(), data, by_kept, nullptr).has_value());
    REQUIRE(Train(momentum, data, by_new).has_value());
    CHECK(by_kept == by_new);
    std::vector<float> other(deep.model.layout()->values(), 0.1F);
    REQUIRE(kept->Train(deep, MakeTask(), data, other, nullptr).has_value());
  }
}

TEST_CASE("the client number and the round change the order, the list's order does too", "[unit]") {
  const LocalData data = MakeLocal(20);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  const auto trained = [&](TaskIdentity task, const LocalData& local) {
    std::vector<float> params = Zeros();
    REQUIRE(trainer->Train(MakePlan(5, 1), task, local, params, nullptr).has_value());
    return params;
  };
  const std::vector<float> reference = trained(MakeTask(), data);
  CHECK(trained(MakeTask(), data) == reference);
  TaskIdentity other_client = MakeTask();
  other_client.client = 8;
  CHECK(trained(other_client, data) != reference);
  CHECK(trained({RoundSeed(42, 2), 2, 7}, data) != reference);
  LocalData reversed = data;
  std::reverse(reversed.train.begin(), reversed.train.end());
  CHECK(trained(MakeTask(), reversed) != reference);
}

TEST_CASE("the gate is passed before every batch, in training and in evaluation", "[unit]") {
  struct Counting final : BatchGate {
    Status Pass() override {
      ++passed;
      return Ok();
    }
    int passed = 0;
  } gate;
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  std::vector<float> params = Zeros();
  const LocalData data = MakeLocal(20, 300);
  REQUIRE(trainer->Train(MakePlan(10, 3), MakeTask(), data, params, &gate).has_value());
  CHECK(gate.passed == 6);
  REQUIRE(trainer->Evaluate(MakePlan(10, 3), data, params, &gate).has_value());
  CHECK(gate.passed == 6 + 4);  // 300 rows, at most 96 at once
}

TEST_CASE("a cancelled training ends with its number", "[unit]") {
  StopGate gate;
  gate.Stop();
  std::vector<float> params = Zeros();
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  const auto report = trainer->Train(MakePlan(10, 1), MakeTask(), MakeLocal(20), params, &gate);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().code == 7407);
}

TEST_CASE("unusable data are refused by number", "[unit]") {
  std::vector<float> params = Zeros();
  CHECK(Train(MakePlan(10, 1), MakeLocal(0), params).error().code == 7402);
  CHECK(Train(MakePlan(10, 1), LocalData{}, params).error().code == 7402);
  TrainingPlan wide = MakePlan(10, 1);
  wide.model = model::ModelSpec::Parse({6}, {"dense 3"}).value();
  CHECK(Train(wide, MakeLocal(5), params).error().code == 7406);
  std::vector<float> short_params(kParameters - 1);
  CHECK(Train(MakePlan(10, 1), MakeLocal(5), short_params).error().code == 7406);
  LocalData wrong_label = MakeLocal(5);
  const auto labels = std::make_shared<data::Dataset>(*wrong_label.dataset);
  labels->labels[2] = 3;
  wrong_label.dataset = labels;
  CHECK(Train(MakePlan(10, 1), wrong_label, params).error().code == 7406);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  CHECK(trainer->Evaluate(MakePlan(10, 1), MakeLocal(5), params, nullptr).error().code == 7402);
}

TEST_CASE("evaluation sums the same however many rows there are", "[unit]") {
  const LocalData data = MakeLocal(1, 700);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  std::vector<float> params = Zeros();
  for (std::size_t k = 0; k < params.size(); ++k) params[k] = 0.1F * static_cast<float>(k % 7);
  const EvaluationReport all = trainer->Evaluate(MakePlan(10, 1), data, params, nullptr).value();
  double loss = 0;
  double correct = 0;
  for (const std::uint32_t row : data.test) {
    LocalData one = data;
    one.test = {row};
    const EvaluationReport report =
        trainer->Evaluate(MakePlan(10, 1), one, params, nullptr).value();
    loss += report.loss;
    correct += report.accuracy;
  }
  CHECK(all.loss == Approx(loss / 700).epsilon(1e-9));
  CHECK(all.accuracy == Approx(correct / 700));
}

}  // namespace
}  // namespace skep::client
