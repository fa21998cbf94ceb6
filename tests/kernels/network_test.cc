#include "kernels/nn/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

model::ModelSpec Spec(std::uint32_t inputs, const std::vector<std::string>& lines) {
  return model::ModelSpec::Parse({inputs}, lines).value();
}

std::vector<model::ModelSpec> Models() {
  return {Spec(17, {"dense 10"}),
          Spec(7, {"dense 3 nobias"}),
          Spec(33, {"dense 15", "relu", "dense 10"}),
          Spec(20, {"flatten", "dense 17", "relu", "dense 16", "relu", "dense 7"}),
          Spec(9, {"relu", "dense 5", "dense 4"}),
          Spec(12, {"dense 65 nobias", "relu", "relu", "dense 6", "relu"})};
}

struct Examples {
  std::vector<float> x;
  std::vector<std::int32_t> y;
};

Examples RandomBatch(const model::ModelSpec& spec, std::size_t rows, std::uint64_t seed) {
  return {test::RandomFloats(rows * spec.input_values(), seed),
          test::RandomLabels(rows, spec.outputs(), seed + 1)};
}

std::vector<double> Widen(std::span<const float> values) {
  return {values.begin(), values.end()};
}

double LargestDifference(std::span<const float> values, const std::vector<double>& reference) {
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(values[i]) - reference[i]));
  }
  return largest;
}

TEST_CASE("an untrained ten-class softmax has loss 2.302585", "[unit]") {
  const model::ModelSpec spec = Spec(784, {"dense 10"});
  const model::Params params = model::InitialParams(spec, model::Initialiser::kZeros, 1);
  for (const Isa isa : AvailableIsas()) {
    Network network(spec, 10, isa);
    const Examples batch = RandomBatch(spec, 10, 1);
    CHECK(
        std::abs(network.Evaluate(params.values(), {batch.x.data(), batch.y.data(), 10}).loss_sum /
                     10 -
                 2.302585092994046) < 1e-14);
    model::Params trained = params;
    CHECK(std::abs(network.TrainStep(trained.values(), {batch.x.data(), batch.y.data(), 10},
                                     {.learning_rate = 0.1F}) -
                   2.302585092994046) < 1e-14);
  }
}

TEST_CASE("outputs, loss and gradient are those of the double reference", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const model::ModelSpec& spec : Models()) {
      for (const std::size_t rows : test::Sizes{1, 2, 7, 10, 16, 17}) {
        test::Unaligned params(test::RandomFloats(spec.layout()->values(), 3, 0.5F));
        const Examples batch = RandomBatch(spec, rows, rows);
        const test::ReferenceNetwork reference(spec);
        const auto expected =
            reference.Gradient(Widen(params.values()), batch.x.data(), batch.y.data(), rows);
        Network network(spec, 17, isa);
        test::Unaligned gradient(std::vector<float>(params.values().size(), 77));
        const double loss = network.Gradient(
            params.values(), {batch.x.data(), batch.y.data(), rows}, gradient.values());
        std::vector<float> outputs(rows * spec.outputs());
        network.Outputs(params.values(), batch.x.data(), rows, outputs);

        INFO(IsaName(isa) << ", " << spec.lines().size() << " layers, " << rows << " rows");
        CHECK(std::abs(loss - expected.loss) < 1e-5);
        CHECK(LargestDifference(gradient.values(), expected.gradient) < 1e-5);
        const std::vector<double> first = reference.Outputs(Widen(params.values()), batch.x.data());
        CHECK(LargestDifference({outputs.data(), spec.outputs()}, first) < 1e-5);
      }
    }
  }
}

TEST_CASE("the gradient is the slope of the loss", "[unit]") {
  const model::ModelSpec spec = Spec(20, {"dense 17", "relu", "dense 7"});
  const Examples batch = RandomBatch(spec, 5, 9);
  const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 4, 0.5F);
  const test::ReferenceNetwork reference(spec);
  for (const Isa isa : AvailableIsas()) {
    Network network(spec, 5, isa);
    std::vector<float> gradient(params.size());
    network.Gradient(params, {batch.x.data(), batch.y.data(), 5}, gradient);
    for (std::size_t i = 0; i < params.size(); i += 13) {
      constexpr double kStep = 1e-6;
      std::vector<double> moved = Widen(params);
      moved[i] += kStep;
      const double above = reference.Loss(moved, batch.x.data(), batch.y.data(), 5);
      moved[i] -= 2 * kStep;
      const double below = reference.Loss(moved, batch.x.data(), batch.y.data(), 5);
      INFO(IsaName(isa) << ", parameter " << i);
      CHECK(std::abs((above - below) / (2 * kStep) - static_cast<double>(gradient[i])) < 1e-5);
    }
  }
}

TEST_CASE("every kind of step follows the double reference over many steps", "[unit]") {
  const std::vector<OptimiserStep> steps{
      {.learning_rate = 0.1F},
      {.learning_rate = 0.1F, .weight_decay = 0.01F},
      {.learning_rate = 0.05F, .momentum = 0.9F},
      {.learning_rate = 0.05F, .momentum = 0.9F, .nesterov = true, .weight_decay = 0.001F},
      {.learning_rate = 0.5F, .gradient_clip = 0.05},
      {.learning_rate = 0.05F, .momentum = 0.5F, .weight_decay = 0.01F, .gradient_clip = 0.1}};
  const model::ModelSpec spec = Spec(33, {"dense 15", "relu", "dense 10"});
  const test::ReferenceNetwork reference(spec);
  for (const Isa isa : AvailableIsas()) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      test::Unaligned params(test::RandomFloats(spec.layout()->values(), 5, 0.3F));
      std::vector<double> expected = Widen(params.values());
      std::vector<double> velocity(expected.size());
      Network network(spec, 10, isa);
      for (std::uint64_t t = 0; t < 12; ++t) {
        const std::size_t rows = t % 4 == 3 ? 3 : 10;  // a smaller last batch
        const Examples batch = RandomBatch(spec, rows, 100 + t);
        network.TrainStep(params.values(), {batch.x.data(), batch.y.data(), rows}, steps[s]);
        const auto step = reference.Gradient(expected, batch.x.data(), batch.y.data(), rows);
        reference.Update(expected, step.gradient, velocity, steps[s]);
      }
      INFO(IsaName(isa) << ", step " << s);
      CHECK(LargestDifference(params.values(), expected) < 2e-5);
    }
  }
}

TEST_CASE("adding the gradient straight into the weights changes no bit", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const model::ModelSpec& spec : Models()) {
      std::vector<float> fused = test::RandomFloats(spec.layout()->values(), 6, 0.5F);
      std::vector<float> separate = fused;
      Network network(spec, 10, isa);
      for (std::uint64_t t = 0; t < 5; ++t) {
        const Examples batch = RandomBatch(spec, 10, t);
        network.TrainStep(fused, {batch.x.data(), batch.y.data(), 10}, {.learning_rate = 0.1F});
        // A clip that is never reached takes the path with a gradient of its own.
        network.TrainStep(separate, {batch.x.data(), batch.y.data(), 10},
                          {.learning_rate = 0.1F, .gradient_clip = 1e30});
      }
      INFO(IsaName(isa));
      const bool may_fuse = isa != Isa::kPortable;
      if (may_fuse) CHECK(fused == separate);
      CHECK(LargestDifference(fused, Widen(separate)) < 1e-6);
    }
  }
}

TEST_CASE("a task starts without the velocity of the one before", "[unit]") {
  const model::ModelSpec spec = Spec(17, {"dense 10"});
  const OptimiserStep step{.learning_rate = 0.1F, .momentum = 0.9F};
  const Examples batch = RandomBatch(spec, 10, 1);
  Network network(spec, 10, DetectIsa());
  std::vector<std::vector<float>> results;
  for (int task = 0; task < 2; ++task) {
    network.BeginTask();
    std::vector<float> params(spec.layout()->values());
    for (int t = 0; t < 3; ++t)
      network.TrainStep(params, {batch.x.data(), batch.y.data(), 10}, step);
    results.push_back(params);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("evaluation does not depend on how its rows are cut", "[unit]") {
  const model::ModelSpec spec = Spec(33, {"dense 15", "relu", "dense 10"});
  const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 7);
  const Examples batch = RandomBatch(spec, 300, 8);
  for (const Isa isa : AvailableIsas()) {
    Network network(spec, 10, isa);
    const Evaluation whole = network.Evaluate(params, {batch.x.data(), batch.y.data(), 300});
    Evaluation rows;
    for (std::size_t r = 0; r < 300; ++r) {
      const Evaluation one =
          network.Evaluate(params, {batch.x.data() + r * 33, batch.y.data() + r, 1});
      rows.loss_sum += one.loss_sum;
      rows.correct += one.correct;
    }
    INFO(IsaName(isa));
    CHECK(whole.correct == rows.correct);
    CHECK(std::abs(whole.loss_sum - rows.loss_sum) < 1e-11);
  }
}

TEST_CASE("evaluation agrees with the double reference", "[unit]") {
  const model::ModelSpec spec = Spec(20, {"dense 17", "relu", "dense 7"});
  const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 7);
  const Examples batch = RandomBatch(spec, 200, 8);
  const test::ReferenceNetwork reference(spec);
  std::size_t correct = 0;
  for (std::size_t r = 0; r < 200; ++r) {
    const std::vector<double> z = reference.Outputs(Widen(params), batch.x.data() + r * 20);
    if (std::max_element(z.begin(), z.end()) - z.begin() == batch.y[r]) ++correct;
  }
  for (const Isa isa : AvailableIsas()) {
    Network network(spec, 1, isa);
    const Evaluation result = network.Evaluate(params, {batch.x.data(), batch.y.data(), 200});
    CHECK(result.correct == correct);
    CHECK(std::abs(result.loss_sum / 200 -
                   reference.Loss(Widen(params), batch.x.data(), batch.y.data(), 200)) < 1e-5);
  }
}

TEST_CASE("a diverging model shows in the loss and in the parameters", "[unit]") {
  const model::ModelSpec spec = Spec(20, {"dense 17", "relu", "dense 7"});
  const Examples batch = RandomBatch(spec, 10, 1);
  for (const Isa isa : AvailableIsas()) {
    for (const float momentum : {0.0F, 0.9F}) {
      Network network(spec, 10, isa);
      std::vector<float> params = test::RandomFloats(spec.layout()->values(), 2);
      params[40] = std::numeric_limits<float>::quiet_NaN();
      const double loss = network.TrainStep(params, {batch.x.data(), batch.y.data(), 10},
                                            {.learning_rate = 0.1F, .momentum = momentum});
      CHECK(std::isnan(loss));
      CHECK(
          std::any_of(params.begin(), params.end(), [](float value) { return std::isnan(value); }));
    }
  }
}

// Five steps of one client in a workspace of its own.
std::vector<float> TrainOnce(const model::ModelSpec& spec, std::size_t max_batch,
                             std::uint64_t client) {
  Network network(spec, max_batch, DetectIsa());
  std::vector<float> params = test::RandomFloats(spec.layout()->values(), 2);
  for (std::uint64_t t = 0; t < 5; ++t) {
    const Examples batch = RandomBatch(spec, 10, 100 * client + t);
    network.TrainStep(params, {batch.x.data(), batch.y.data(), 10}, {.learning_rate = 0.1F});
  }
  return params;
}

TEST_CASE("the size of a workspace changes no bit", "[unit]") {
  const model::ModelSpec spec = Spec(33, {"dense 15", "relu", "dense 10"});
  CHECK(TrainOnce(spec, 10, 1) == TrainOnce(spec, 600, 1));
}

TEST_CASE("workers side by side give the bits of one alone", "[unit]") {
  constexpr std::size_t kWorkers = 4;
  const model::ModelSpec spec = Spec(33, {"dense 15", "relu", "dense 10"});
  std::vector<std::vector<float>> together(kWorkers);
  std::vector<std::thread> workers;
  for (std::size_t k = 0; k < kWorkers; ++k) {
    workers.emplace_back([&spec, &together, k] { together[k] = TrainOnce(spec, 10, k); });
  }
  for (std::thread& worker : workers) worker.join();
  for (std::size_t k = 0; k < kWorkers; ++k) {
    INFO("client " << k);
    CHECK(together[k] == TrainOnce(spec, 10, k));
  }
}

}  // namespace
}  // namespace skep::kernels
