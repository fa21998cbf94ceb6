// Counts every allocation of this program, so it is a program of its own.
#include <algorithm>

#include "kernels/nn/network.h"
#include "tests/kernels/reference.h"
#include "tests/support/allocations.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

struct Counted {
  std::size_t training;
  std::size_t evaluation;
};

// Allocations after the first step, over epochs with a smaller last batch, and over an evaluation.
Counted CountAfterFirstStep(Network& network, const model::ModelSpec& spec,
                            const OptimiserStep& step) {
  std::vector<float> params = test::RandomFloats(spec.layout()->values(), 1, 0.1F);
  std::vector<float> x = test::RandomFloats(200 * spec.input_values(), 2);
  if (spec.input_symbols() > 0) std::fill(x.begin(), x.end(), 3.0F);
  const std::vector<std::int32_t> y = test::RandomLabels(200, spec.outputs(), 3);
  network.TrainStep(params, {x.data(), y.data(), 10}, step);
  Counted counted{};
  const std::size_t before = skep::test::Allocations();
  for (int epoch = 0; epoch < 3; ++epoch) {
    network.BeginTask();
    network.TrainStep(params, {x.data(), y.data(), 10}, step);
    network.TrainStep(params, {x.data(), y.data(), 50}, step);
    network.TrainStep(params, {x.data(), y.data(), 3}, step);
  }
  const std::size_t between = skep::test::Allocations();
  counted.training = between - before;
  network.Evaluate(params, {x.data(), y.data(), 200});
  counted.evaluation = skep::test::Allocations() - between;
  return counted;
}

TEST_CASE("nothing is allocated after the first step", "[unit]") {
  const auto spec =
      model::ModelSpec::Parse({784}, {"dense 200", "relu", "dense 200", "relu", "dense 10"})
          .value();
  for (const Isa isa : AvailableIsas()) {
    for (const OptimiserStep& step :
         {OptimiserStep{.learning_rate = 0.1F},
          OptimiserStep{.learning_rate = 0.1F, .momentum = 0.9F, .gradient_clip = 1}}) {
      Network network(spec, 50, isa);
      const Counted counted = CountAfterFirstStep(network, spec, step);
      INFO(IsaName(isa) << ", momentum " << step.momentum);
      CHECK(counted.training == 0);
      CHECK(counted.evaluation == 0);
    }
  }
}

TEST_CASE("convolutions and pooling allocate nothing after the first step", "[unit]") {
  const auto spec = model::ModelSpec::Parse(
                        {2, 9, 8}, {"conv 6 3x3 same", "relu", "maxpool 2",
                                    "conv 12 3x3 same groups 6 stride 2", "avgpool 2", "dense 10"})
                        .value();
  for (const Isa isa : AvailableIsas()) {
    Network network(spec, 50, isa);
    const Counted counted = CountAfterFirstStep(network, spec, {.learning_rate = 0.1F});
    INFO(IsaName(isa));
    CHECK(counted.training == 0);
    CHECK(counted.evaluation == 0);
  }
}

TEST_CASE("layers without products allocate nothing after the first step", "[unit]") {
  const auto values = model::ModelSpec::Parse(
      {40}, {"dense 32", "norm batch", "relu", "dropout 0.5", "dense 32", "norm layer", "gelu",
             "residual", "tanh", "add", "norm group 4", "sigmoid", "dense 10"});
  const auto places = model::ModelSpec::Parse(
      {20}, {"embedding 8 symbols 65", "positions", "residual", "norm layer", "dense 8", "gelu",
             "dropout 0.2", "add", "norm group 2", "flatten", "dense 10"});
  for (const model::ModelSpec& spec : {values.value(), places.value()}) {
    for (const Isa isa : AvailableIsas()) {
      for (const OptimiserStep& step :
           {OptimiserStep{.learning_rate = 0.1F},
            OptimiserStep{.learning_rate = 0.01F, .rule = Rule::kAdamW, .weight_decay = 0.1F}}) {
        Network network(spec, 50, isa);
        const Counted counted = CountAfterFirstStep(network, spec, step);
        INFO(IsaName(isa) << ", " << spec.lines().front());
        CHECK(counted.training == 0);
        CHECK(counted.evaluation == 0);
      }
    }
  }
}

TEST_CASE("the counter counts", "[unit]") {
  const std::size_t before = skep::test::Allocations();
  const std::vector<int> one(100);
  CHECK(skep::test::Allocations() > before);
  CHECK(one.size() == 100);
}

}  // namespace
}  // namespace skep::kernels
