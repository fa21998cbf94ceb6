// FedAvg: the exact checks, order and grouping, and models that are not finite.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "aggregator/strategy/strategy.h"
#include "kernels/fixed_point.h"
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

// One parameter: a dense layer 1 -> 1 without bias.
RunSpec Scalar(double rate = 1.0) {
  RunSpec spec = *test::SmallRun({});
  spec.model = model::ModelSpec::Parse({1}, {"dense 1 nobias"}).value();
  spec.training.server_learning_rate = rate;
  spec.scale = kernels::ScaleFor({.max_norm = 100, .max_weight = 1000, .max_reports = 8}).value();
  return spec;
}

model::Params ScalarModel(const RunSpec& spec, float value) {
  model::Params params(spec.model.layout());
  params.values()[0] = value;
  return params;
}

TEST_CASE("FedAvg on three quadratics gives the published values", "[unit]") {
  constexpr std::array<double, 3> kCentres{0, 1, 4};
  constexpr std::array<double, 3> kWeights{500, 300, 200};
  constexpr std::array<int, 3> kSteps{1, 5, 20};
  const RunSpec spec = Scalar();
  model::Params model = ScalarModel(spec, 0);
  std::vector<double> seen;
  for (int round = 0; round < 200; ++round) {
    const auto strategy = MakeStrategy(spec);
    strategy->Begin();
    for (std::size_t k = 0; k < 3; ++k) {
      double w = model.values()[0];
      for (int step = 0; step < kSteps[k]; ++step) w -= 0.1 * (w - kCentres[k]);
      const float update = static_cast<float>(w - model.values()[0]);
      strategy->Accumulate({&update, 1}, kWeights[k]);
    }
    model = strategy->Finish(model).value();
    seen.push_back(model.values()[0]);
  }
  CHECK(std::abs(seen[0] - 0.825591676) < 1e-5);
  CHECK(std::abs(seen[1] - 1.363433554) < 1e-5);
  CHECK(std::abs(seen[2] - 1.713817278) < 1e-5);
  CHECK(std::abs(seen.back() - 2.368730125) < 1e-5);
}

TEST_CASE("the server learning rate scales the step", "[unit]") {
  const RunSpec spec = Scalar(0.5);
  const auto strategy = MakeStrategy(spec);
  strategy->Begin();
  const float update = 1;
  strategy->Accumulate({&update, 1}, 3);
  CHECK(strategy->Finish(ScalarModel(spec, 2)).value().values()[0] == 2.5F);
}

TEST_CASE("a running variance that the server's rate brings below 0 becomes 0", "[unit]") {
  RunSpec spec = Scalar(2.0);
  spec.model = model::ModelSpec::Parse({1}, {"norm batch", "dense 1 nobias"}).value();
  // weight, bias, mean and variance of the norm, then the dense weight.
  model::Params model(spec.model.layout());
  model.values()[3] = 1;
  const auto strategy = MakeStrategy(spec);
  strategy->Begin();
  const std::array<float, 5> update{-1, -1, -1, -0.75, -1};
  strategy->Accumulate(update, 1);
  const model::Params next = strategy->Finish(model).value();
  CHECK(next.values()[2] == -2);
  CHECK(next.values()[3] == 0);
  CHECK(next.values()[4] == -2);
}

TEST_CASE("neither order nor grouping of updates changes a bit", "[unit]") {
  const RunSpec spec = *test::SmallRun({});
  const std::size_t values = test::SmallModel().values().size();
  std::vector<std::vector<float>> updates(6, std::vector<float>(values));
  for (std::size_t k = 0; k < 6; ++k) {
    for (std::size_t i = 0; i < values; ++i) {
      updates[k][i] = std::ldexp(static_cast<float>(k * 7 + i) - 20.3F, int(k) * 3 - 12);
    }
  }
  std::vector<std::size_t> order(6);
  std::iota(order.begin(), order.end(), 0);
  const auto add = [&](Strategy& strategy, std::size_t k) {
    strategy.Accumulate(updates[k], static_cast<double>(3 * k + 1));
  };
  std::optional<Hash32> first;
  do {
    const auto whole = MakeStrategy(spec);
    whole->Begin();
    for (const std::size_t k : order) add(*whole, k);
    const auto left = MakeStrategy(spec);
    const auto right = MakeStrategy(spec);
    left->Begin();
    right->Begin();
    for (std::size_t i = 0; i < 6; ++i) add(i < order[0] ? *left : *right, order[i]);
    left->Merge(*right);
    CHECK(left->updates() == 6);
    const Hash32 hash = whole->Finish(test::SmallModel()).value().ModelHash();
    if (!first) first = hash;
    REQUIRE(hash == *first);
    REQUIRE(left->Finish(test::SmallModel()).value().ModelHash() == *first);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("Begin forgets what was accumulated", "[unit]") {
  const RunSpec spec = Scalar();
  const auto strategy = MakeStrategy(spec);
  strategy->Begin();
  const float update = 1;
  strategy->Accumulate({&update, 1}, 1);
  strategy->Begin();
  CHECK(strategy->updates() == 0);
  const auto nothing = strategy->Finish(ScalarModel(spec, 0));
  REQUIRE_FALSE(nothing.has_value());
  CHECK(nothing.error().code == 2202);
}

TEST_CASE("a new model that is not finite is refused with its tensor's name", "[unit]") {
  const RunSpec spec = *test::SmallRun({});
  const auto strategy = MakeStrategy(spec);
  strategy->Begin();
  const std::vector<float> update(test::SmallModel().values().size(), 1.0F);
  strategy->Accumulate(update, 1);
  model::Params broken = test::SmallModel();
  broken.Tensor(1)[0] = std::numeric_limits<float>::infinity();
  const auto next = strategy->Finish(broken);
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().code == 2202);
  const std::string name = spec.model.layout()->tensors()[1].name;
  CHECK(next.error().message.find("\"" + name + "\" (1 of 2 values)") != std::string::npos);
}

}  // namespace
}  // namespace skep::aggregator
