#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/conv_reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

struct Model {
  std::vector<std::uint32_t> input;
  std::vector<std::string> lines;
};

// A convolution below another one, below each kind of pooling, and above a dense layer: its
// gradients are right only if those that come down to it are.
const std::vector<Model>& Models() {
  static const std::vector<Model> models{
      {{2, 6, 7},
       {"conv 5 3x3 same", "relu", "maxpool 2", "conv 18 3x3 same", "relu", "flatten", "dense 4"}},
      {{3, 7, 7},
       {"conv 6 3x3 stride 2 same nobias", "conv 12 3x3 groups 6", "relu", "conv 5 1x1",
        "avgpool 2", "dense 3"}},
      {{1, 8, 8},
       {"conv 8 3x3 stride 2", "relu", "conv 8 3x3 same groups 8", "globalpool", "dense 3"}},
      {{2, 9, 9}, {"conv 4 2x2 stride 3", "relu", "conv 3 2x2 same stride 2", "dense 5"}},
      {{9, 3},
       {"dense 5", "relu", "conv1d 7 3 same", "relu", "maxpool1d 2", "conv1d 4 2 stride 2",
        "globalpool", "dense 3"}},
  };
  return models;
}

std::string NameOf(const Model& model) {
  std::string name;
  for (const std::string& line : model.lines) name += line + "; ";
  return name;
}

TEST_CASE("a convolutional network's gradient is the slope of the loss", "[unit]") {
  constexpr std::size_t kRows = 3;
  for (const Model& model : Models()) {
    const auto spec = model::ModelSpec::Parse(model.input, model.lines).value();
    const std::vector<float> x = test::RandomFloats(kRows * spec.input_values(), 1);
    const std::vector<std::int32_t> labels = test::RandomLabels(kRows, spec.outputs(), 2);
    const std::vector<float> params =
        test::RandomFloats(static_cast<std::size_t>(spec.layout()->values()), 3, 0.5F);
    std::vector<double> moved(params.begin(), params.end());
    std::vector<double> slope;
    for (double& value : moved) {
      constexpr double kStep = 1e-6;
      const double kept = value;
      value = kept + kStep;
      const double above = test::ConvNetLoss(spec, moved, x.data(), labels.data(), kRows);
      value = kept - kStep;
      const double below = test::ConvNetLoss(spec, moved, x.data(), labels.data(), kRows);
      value = kept;
      slope.push_back((above - below) / (2 * kStep));
    }
    for (const Isa isa : AvailableIsas()) {
      INFO(IsaName(isa) << ": " << NameOf(model));
      Network network(spec, kRows, isa);
      std::vector<float> gradient(params.size(), 77);
      const double loss = network.Gradient(params, {x.data(), labels.data(), kRows}, gradient);
      CHECK(std::abs(loss - test::ConvNetLoss(spec, moved, x.data(), labels.data(), kRows)) < 1e-5);
      double worst = 0;
      for (std::size_t i = 0; i < slope.size(); ++i) {
        worst = std::max(worst, std::abs(slope[i] - static_cast<double>(gradient[i])));
      }
      CHECK(worst < 1e-5);
    }
  }
}

TEST_CASE("a step of a convolutional network equals its gradient times the rate", "[unit]") {
  for (const Model& model : Models()) {
    const auto spec = model::ModelSpec::Parse(model.input, model.lines).value();
    const std::vector<float> x = test::RandomFloats(std::size_t{4} * spec.input_values(), 4);
    const std::vector<std::int32_t> labels = test::RandomLabels(4, spec.outputs(), 5);
    const std::vector<float> before =
        test::RandomFloats(static_cast<std::size_t>(spec.layout()->values()), 6, 0.5F);
    for (const Isa isa : AvailableIsas()) {
      INFO(IsaName(isa) << ": " << NameOf(model));
      Network network(spec, 4, isa);
      std::vector<float> after = before;
      network.TrainStep(after, {x.data(), labels.data(), 4}, {.learning_rate = 0.5F});
      std::vector<float> gradient(before.size());
      network.Gradient(before, {x.data(), labels.data(), 4}, gradient);
      float worst = 0;
      for (std::size_t i = 0; i < before.size(); ++i) {
        worst = std::max(worst, std::abs(after[i] - (before[i] - 0.5F * gradient[i])));
      }
      CHECK(worst < 1e-6F);
    }
  }
}

TEST_CASE("a smaller batch after a larger one leaves nothing of it behind", "[unit]") {
  for (const Model& model : Models()) {
    const auto spec = model::ModelSpec::Parse(model.input, model.lines).value();
    const std::vector<float> x = test::RandomFloats(std::size_t{4} * spec.input_values(), 7);
    const std::vector<std::int32_t> labels = test::RandomLabels(4, spec.outputs(), 8);
    const std::vector<float> params =
        test::RandomFloats(static_cast<std::size_t>(spec.layout()->values()), 9, 0.5F);
    for (const Isa isa : AvailableIsas()) {
      INFO(IsaName(isa) << ": " << NameOf(model));
      Network used(spec, 4, isa);
      Network fresh(spec, 4, isa);
      std::vector<float> gradient(params.size());
      std::vector<float> expected(params.size());
      used.Gradient(params, {x.data(), labels.data(), 4}, gradient);
      used.Gradient(params, {x.data(), labels.data(), 1}, gradient);
      fresh.Gradient(params, {x.data(), labels.data(), 1}, expected);
      CHECK(gradient == expected);
    }
  }
}

TEST_CASE("a convolutional network learns a batch by heart", "[unit]") {
  const auto spec = model::ModelSpec::Parse({1, 8, 8}, {"conv 8 3x3 same", "relu", "maxpool 2",
                                                        "conv 8 3x3 same", "relu", "dense 4"})
                        .value();
  const std::vector<float> x = test::RandomFloats(512, 10);
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 0, 1, 2, 3};
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    Network network(spec, 8, isa);
    model::Params params = model::InitialParams(spec, model::Initialiser::kHe, 1);
    double loss = 0;
    for (int i = 0; i < 200; ++i) {
      loss =
          network.TrainStep(params.values(), {x.data(), labels.data(), 8}, {.learning_rate = 0.1F});
    }
    CHECK(loss < 0.01);
  }
}

}  // namespace
}  // namespace skep::kernels
