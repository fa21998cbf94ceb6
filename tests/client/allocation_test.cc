// Counts every allocation of this program, so it is a program of its own.
#include <memory>

#include "client/trainer.h"
#include "shared/base/rng.h"
#include "tests/support/allocations.h"
#include "tests/support/catch.h"

namespace skep::client {
namespace {

LocalData MakeLocal(std::uint32_t rows) {
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = {20};
  dataset->rows = rows;
  dataset->values = 20;
  dataset->bytes.assign(std::size_t{rows} * 20, 100);
  dataset->labels.assign(rows, 1);
  LocalData local;
  local.dataset = dataset;
  for (std::uint32_t row = 0; row < rows; ++row) {
    local.train.push_back(row);
    local.test.push_back(row);
  }
  return local;
}

TEST_CASE("one client after another trains in the same memory", "[unit]") {
  TrainingPlan plan{.model =
                        model::ModelSpec::Parse({20}, {"dense 16", "relu", "dense 4"}).value()};
  plan.learning_rate = 0.1;
  plan.batch_size = 10;
  plan.local_epochs = 3;
  const LocalData larger = MakeLocal(95);
  const LocalData smaller = MakeLocal(33);
  std::vector<float> params(plan.model.layout()->values());
  const auto trainer = MakeBuiltInTrainer(kernels::DetectIsa());
  const auto run = [&](const LocalData& local, ClientNumber client) {
    const bool trained =
        trainer->Train(plan, {RoundSeed(42, 1), 1, client}, local, params, nullptr).has_value();
    return trained && trainer->Evaluate(plan, local, params, nullptr).has_value();
  };
  REQUIRE(run(larger, 1));
  for (const double momentum : {0.0, 0.9}) {
    plan.momentum = momentum;
    REQUIRE(run(larger, 2));  // the first with momentum needs a velocity
    const std::size_t before = skep::test::Allocations();
    const bool ran = run(smaller, 3) && run(larger, 4) && run(smaller, 5);
    const std::size_t made = skep::test::Allocations() - before;
    CHECK(ran);
    // A round seed is derived by a hash, which allocates once a task; training does not.
    std::size_t seeds = skep::test::Allocations();
    (void)RoundSeed(42, 1);
    seeds = skep::test::Allocations() - seeds;
    CHECK(made == 3 * seeds);
  }
}

}  // namespace
}  // namespace skep::client
