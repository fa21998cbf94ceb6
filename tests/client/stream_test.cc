// Batches that a source hands over are those of the same rows in memory.
#include <algorithm>
#include <memory>

#include "client/batches.h"
#include "client/row_source.h"
#include "client/stream_batches.h"
#include "shared/base/rng.h"
#include "tests/support/catch.h"

namespace skep::client {
namespace {

constexpr std::size_t kInputs = 3;

std::shared_ptr<data::Dataset> MakeData(std::size_t rows) {
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = {kInputs};
  dataset->rows = rows;
  dataset->values = kInputs;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      dataset->floats.push_back(static_cast<float>(row * 10 + i) / 100);
    }
    dataset->labels.push_back(static_cast<std::int32_t>(row % 2));
  }
  return dataset;
}

LocalData MakeLocal(std::size_t rows) {
  LocalData local;
  local.dataset = MakeData(rows);
  for (std::size_t row = 0; row < rows; ++row) local.train.push_back(std::uint32_t(row));
  return local;
}

TrainingPlan MakePlan(std::uint32_t batch, std::uint32_t epochs, std::uint32_t steps, bool merges) {
  TrainingPlan plan{.model =
                        model::ModelSpec::Parse({kInputs}, {"dense 4", "relu", "dense 2"}).value()};
  plan.learning_rate = 0.1;
  plan.momentum = 0.5;
  plan.batch_size = batch;
  plan.local_epochs = epochs;
  plan.local_steps = steps;
  plan.merge_tail = merges;
  return plan;
}

TaskIdentity MakeTask() {
  return {RoundSeed(42, 1), 1, 7};
}

// Gives one to three rows at a time, whatever is asked for.
class Dribble final : public ExampleSource {
 public:
  explicit Dribble(ExampleSource& from) : from_(from) {}
  std::size_t most_rows() const override { return from_.most_rows(); }
  Status Rewind(std::uint64_t seed) override { return from_.Rewind(seed); }
  Result<std::size_t> Next(std::size_t most, float* x, std::int32_t* y) override {
    given_ = given_ % 3 + 1;
    return from_.Next(std::min(most, given_), x, y);
  }

 private:
  ExampleSource& from_;
  std::size_t given_ = 0;
};

// Fails after some rows.
class Broken final : public ExampleSource {
 public:
  std::size_t most_rows() const override { return 8; }
  Status Rewind(std::uint64_t) override { return Ok(); }
  Result<std::size_t> Next(std::size_t most, float* x, std::int32_t* y) override {
    if (left_ == 0) return Error{7102, "a value is not finite", ""};
    const std::size_t count = std::min(most, left_);
    std::fill(x, x + count * kInputs, 0.0F);
    std::fill(y, y + count, 0);
    left_ -= count;
    return count;
  }

 private:
  std::size_t left_ = 6;
};

class Empty final : public ExampleSource {
 public:
  std::size_t most_rows() const override { return 0; }
  Status Rewind(std::uint64_t) override { return Ok(); }
  Result<std::size_t> Next(std::size_t, float*, std::int32_t*) override { return std::size_t{0}; }
};

// The first value of each example of a batch tells which row it is.
void CheckSameBatches(const TrainingPlan& plan, const LocalData& local) {
  Batches rows;
  rows.Begin(plan, MakeTask(), local.train);
  RowSource source;
  source.Open(plan, *local.dataset, local.train, RowSource::Order::kShuffled);
  Dribble dribble(source);
  StreamBatches stream;
  stream.Begin({.values = kInputs,
                .labels = 1,
                .batch = plan.batch_size,
                .epochs = plan.local_epochs,
                .steps = plan.local_steps,
                .merges_tail = plan.merge_tail},
               MakeTask(), dribble);
  while (true) {
    const std::span<const std::uint32_t> expected = rows.Next();
    const StreamBatches::View given = stream.Next().value();
    REQUIRE(given.rows == expected.size());
    if (expected.empty()) break;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      REQUIRE(given.x[i * kInputs] == local.dataset->floats[expected[i] * kInputs]);
      REQUIRE(given.y[i] == local.dataset->labels[expected[i]]);
    }
    REQUIRE(stream.starts_epoch() == rows.starts_epoch());
    REQUIRE(stream.StepKey() == rows.StepKey());
  }
  CHECK(stream.steps() == rows.all_steps());
  CHECK(stream.first_epoch_rows() == rows.first_epoch_rows());
}

TEST_CASE("a source gives the batches of its rows, whatever the sizes", "[unit]") {
  for (std::size_t rows = 1; rows <= 14; ++rows) {
    const LocalData local = MakeLocal(rows);
    for (std::uint32_t batch = 0; batch <= 6; ++batch) {
      for (const bool merges : {false, true}) {
        INFO(rows << " rows, batches of " << batch << (merges ? ", merged" : ""));
        CheckSameBatches(MakePlan(batch, 1, 0, merges), local);
        CheckSameBatches(MakePlan(batch, 3, 0, merges), local);
        CheckSameBatches(MakePlan(batch, 0, 5, merges), local);
      }
    }
  }
}

TEST_CASE("more rows than are read ahead at first are still one batch", "[unit]") {
  CheckSameBatches(MakePlan(0, 2, 0, false), MakeLocal(700));
}

TEST_CASE("a model trained from a source has the bits of one trained on rows", "[unit]") {
  const LocalData local = MakeLocal(23);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  for (const TrainingPlan& plan : {MakePlan(5, 2, 0, true), MakePlan(0, 2, 0, false)}) {
    std::vector<float> by_rows(plan.model.layout()->values(), 0.01F);
    std::vector<float> by_source = by_rows;
    const TrainReport expected = trainer->Train(plan, MakeTask(), local, by_rows, nullptr).value();
    RowSource source;
    source.Open(plan, *local.dataset, local.train, RowSource::Order::kShuffled);
    Dribble dribble(source);
    const TrainReport report =
        trainer->TrainFrom(plan, MakeTask(), dribble, by_source, nullptr).value();
    CHECK(by_source == by_rows);
    CHECK(report.loss == expected.loss);
    CHECK(report.examples == 23);
    CHECK(report.steps == expected.steps);
  }
}

TEST_CASE("an evaluation of a source adds up like one of rows", "[unit]") {
  LocalData local = MakeLocal(230);
  local.test = local.train;
  const TrainingPlan plan = MakePlan(5, 1, 0, false);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  const std::vector<float> params(plan.model.layout()->values(), 0.02F);
  const EvaluationReport expected = trainer->Evaluate(plan, local, params, nullptr).value();
  RowSource source;
  source.Open(plan, *local.dataset, local.test, RowSource::Order::kAsListed);
  Dribble dribble(source);
  const EvaluationReport report =
      trainer->EvaluateFrom(plan, MakeTask(), dribble, params, nullptr).value();
  CHECK(report.loss == expected.loss);
  CHECK(report.accuracy == expected.accuracy);
  CHECK(report.examples == 230);
}

TEST_CASE("what a source fails with ends the task", "[unit]") {
  const TrainingPlan plan = MakePlan(4, 1, 0, false);
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  std::vector<float> params(plan.model.layout()->values());
  Broken broken;
  CHECK(trainer->TrainFrom(plan, MakeTask(), broken, params, nullptr).error().code == 7102);
  Empty empty;
  CHECK(trainer->TrainFrom(plan, MakeTask(), empty, params, nullptr).error().code == 7402);
  std::vector<float> short_one(3);
  CHECK(trainer->TrainFrom(plan, MakeTask(), broken, short_one, nullptr).error().code == 7406);
}

TEST_CASE("batch norm refuses a batch of one row from a source", "[unit]") {
  const LocalData local = MakeLocal(5);
  TrainingPlan plan = MakePlan(4, 1, 0, false);
  plan.model =
      model::ModelSpec::Parse({kInputs}, {"dense 4", "norm batch", "relu", "dense 2"}).value();
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  std::vector<float> params(plan.model.layout()->values(), 0.5F);
  RowSource source;
  source.Open(plan, *local.dataset, local.train, RowSource::Order::kShuffled);
  CHECK(trainer->TrainFrom(plan, MakeTask(), source, params, nullptr).error().code == 7406);
  plan.merge_tail = true;
  CHECK(trainer->TrainFrom(plan, MakeTask(), source, params, nullptr).has_value());
}

}  // namespace
}  // namespace skep::client
