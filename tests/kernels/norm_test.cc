#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/point_loops.h"
#include "tests/kernels/point_reference.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Weights about 1, biases about 0, running variances above 0.
std::vector<float> ParamsFor(const model::ModelSpec& spec, std::uint64_t seed) {
  std::vector<float> params = test::RandomFloats(spec.layout()->values(), seed, 0.8F);
  const auto& tensors = spec.layout()->tensors();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const bool is_variance = tensors[t].name.find("running_var") != std::string::npos;
    const bool is_weight =
        tensors[t].name.find("norm") == 0 && tensors[t].name.find(".weight") != std::string::npos;
    if (!is_variance && !is_weight) continue;
    for (std::size_t i = 0; i < tensors[t].Count(); ++i) params[spec.layout()->Offset(t) + i] += 1;
  }
  return params;
}

void Check(const model::ModelSpec& spec, std::size_t rows, std::uint64_t seed) {
  const std::vector<float> params = ParamsFor(spec, seed);
  const test::LabelledBatch batch = test::BatchFor(spec, rows, seed);
  test::CheckAgainstReference(spec, params, batch);
  test::CheckSinks(spec, params, batch);
}

TEST_CASE("known values of norms", "[unit]") {
  // Deviations from the mean over their root mean square: -3, -1, 1, 3 over sqrt 5.
  const auto layer = test::LayerSpec({4}, {"norm layer"});
  const std::vector<float> params{1, 1, 1, 2, 0, 0, 0, 10};
  const std::vector<float> x{-2, 0, 2, 4};
  const auto sequence = test::LayerSpec({2, 2}, {"norm layer"});
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    Network network(layer, 1, isa);
    std::vector<float> y(4);
    network.Outputs(params, x.data(), 1, y);
    CHECK(std::abs(y[0] + 1.3416394F) < 1e-6F);
    CHECK(std::abs(y[1] + 0.4472131F) < 1e-6F);
    CHECK(std::abs(y[3] - 12.6832788F) < 1e-6F);
    Network places(sequence, 1, isa);
    const std::vector<float> unit{1, 1, 0, 0};
    places.Outputs(unit, x.data(), 1, y);
    CHECK(std::abs(y[0] + 0.999995F) < 1e-6F);
    CHECK(std::abs(y[1] - 0.999995F) < 1e-6F);
    CHECK(std::abs(y[2] + 0.999995F) < 1e-6F);
  }
}

TEST_CASE("norms of values have the slope of the loss as their gradient", "[unit]") {
  for (const std::string kind : {"norm batch", "norm layer", "norm group 2"}) {
    for (const unsigned width : {6U, 8U, 14U, 16U, 34U}) {
      // Two values are mirror images: their gradient is nothing but rounding.
      for (const std::size_t rows : test::Sizes{3, 7}) {
        Check(test::LayerSpec({3}, {"dense " + std::to_string(width), kind, "relu", "dense 3"}),
              rows, width);
      }
    }
    Check(test::LayerSpec({6}, {kind, "dense 3"}), 5, 1);
    Check(test::LayerSpec({6}, {"dense 6", "relu", kind, "dense 3"}), 5, 2);
  }
  for (const unsigned width : {7U, 15U, 17U, 33U}) {
    for (const std::string kind : {"norm batch", "norm layer", "norm group 1"}) {
      Check(test::LayerSpec({3}, {"dense " + std::to_string(width), kind, "dense 3"}), 5, width);
    }
  }
}

TEST_CASE("norms of images and sequences have the slope of the loss as their gradient", "[unit]") {
  for (const std::string kind : {"norm batch", "norm layer", "norm group 2", "norm group 4"}) {
    for (const std::size_t rows : test::Sizes{1, 2, 5}) {
      Check(test::LayerSpec({4, 3, 3}, {kind, "dense 3"}), rows, 1);
      Check(test::LayerSpec({4, 3, 3}, {kind, "relu", kind, "dense 3"}), rows, 2);
      Check(test::LayerSpec({5, 3}, {"dense 8", kind, "relu", "dense 3"}), rows, 3);
      Check(test::LayerSpec({5, 3}, {"dense 8", "relu", kind, "tanh", "dense 3"}), rows, 4);
    }
  }
}

TEST_CASE("a mean far from 0 costs no precision", "[unit]") {
  const std::vector<std::pair<std::vector<std::uint32_t>, std::string>> models{
      {{64}, "norm batch"},         {{64}, "norm layer"},       {{1000}, "norm layer"},
      {{64}, "norm group 4"},       {{16, 8, 8}, "norm batch"}, {{16, 8, 8}, "norm group 1"},
      {{16, 8, 8}, "norm group 4"}, {{8, 100}, "norm layer"}};
  for (const auto& [input, kind] : models) {
    // A second norm with weights 1 and biases 0 would hide nothing: the outputs are compared.
    const auto spec = test::LayerSpec(input, {kind});
    std::vector<float> params(spec.layout()->values());
    const std::size_t channels = spec.layout()->tensors()[0].Count();
    std::fill_n(params.begin(), channels, 1.0F);
    constexpr std::size_t kRows = 10;
    test::LabelledBatch batch{test::RandomFloats(kRows * spec.input_values(), 1, 1.7320508F),
                              std::vector<std::int32_t>(kRows * spec.positions(), 0), kRows};
    for (float& v : batch.x) v += 1000;
    test::PointReference::Mode mode;
    mode.loss = LossKind::kMeanSquaredError;
    const test::PointReference reference(spec);
    const std::vector<double> wide(params.begin(), params.end());
    const double expected = reference.Loss(wide, batch, mode);
    for (const Isa isa : AvailableIsas()) {
      Network network(spec, kRows, isa, mode.loss);
      INFO(IsaName(isa) << ", " << kind << " of " << spec.input_values());
      std::vector<float> gradient(params.size());
      CHECK(std::abs(network.Gradient(params, batch.View(), gradient) - expected) <
            1e-5 * expected);
      if (kind == "norm batch") continue;
      std::vector<float> outputs(kRows * spec.input_values());
      network.Outputs(params, batch.x.data(), kRows, outputs);
      const auto exact = reference.Outputs(wide, batch, mode);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const double value = exact[i / spec.input_values()][i % spec.input_values()];
        REQUIRE(std::abs(static_cast<double>(outputs[i]) - value) <
                1e-5 * std::max(0.1, std::abs(value)));
      }
    }
  }
}

// A batch norm of two channels over values, that is all of the model.
struct BatchNormOfTwo {
  model::ModelSpec spec = test::LayerSpec({2}, {"norm batch"});
  // Weights, biases, running means, running variances.
  std::vector<float> params{1, 2, 0.5F, -0.5F, 10, 20, 4, 9};
  std::vector<float> x{1, 4, 3, 8};
  std::vector<std::int32_t> labels{0, 1};
};

TEST_CASE("a step moves running statistics by a tenth, the variance unbiased", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    BatchNormOfTwo it;
    Network network(it.spec, 2, isa);
    network.TrainStep(it.params, {it.x.data(), it.labels.data(), 2}, {.learning_rate = 0});
    INFO(IsaName(isa));
    // Means 2 and 6; sums of squares 2 and 8, over 1.
    CHECK(it.params == std::vector<float>{1, 2, 0.5F, -0.5F, 9.2F, 18.6F, 3.8F, 8.9F});
  }
}

TEST_CASE("only a step moves running statistics", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    BatchNormOfTwo it;
    const std::vector<float> before = it.params;
    Network network(it.spec, 2, isa);
    std::vector<float> gradient(8, 77);
    network.Gradient(it.params, {it.x.data(), it.labels.data(), 2}, gradient);
    network.Evaluate(it.params, {it.x.data(), it.labels.data(), 2});
    CHECK(it.params == before);
    CHECK(std::vector<float>(gradient.begin() + 4, gradient.end()) == std::vector<float>(4, 0));
  }
}

TEST_CASE("evaluation uses the running statistics, row by row", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    BatchNormOfTwo it;
    Network network(it.spec, 2, isa);
    std::vector<float> y(4);
    network.Outputs(it.params, it.x.data(), 2, y);
    const std::vector<float> expected{-4.0F, -11.16666F, -3.0F, -8.5F};
    std::vector<float> alone(2);
    network.Outputs(it.params, it.x.data() + 2, 1, alone);
    INFO(IsaName(isa));
    for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(y[i] - expected[i]) < 2e-5F);
    CHECK(alone == std::vector<float>{y[2], y[3]});
  }
}

TEST_CASE("a running variance below 0 counts as 0 and a step makes it so", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    BatchNormOfTwo it;
    it.params[6] = -100;
    Network network(it.spec, 2, isa);
    std::vector<float> y(4);
    network.Outputs(it.params, it.x.data(), 2, y);
    INFO(IsaName(isa));
    CHECK(std::abs(y[0] - (-9 / std::sqrt(1e-5F) + 0.5F)) < 1e-2F);
    network.TrainStep(it.params, {it.x.data(), it.labels.data(), 2}, {.learning_rate = 0});
    CHECK(it.params[6] == 0);
  }
}

TEST_CASE("a single value of a channel is settled: the bias, no gradient, no variance", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    const auto spec = test::LayerSpec({3}, {"dense 2", "norm batch", "dense 2"});
    std::vector<float> params = ParamsFor(spec, 3);
    const std::vector<float> before = params;
    const test::LabelledBatch batch = test::BatchFor(spec, 1, 4);
    Network network(spec, 4, isa);
    std::vector<float> gradient(params.size(), 77);
    const double loss = network.Gradient(params, batch.View(), gradient);
    // Weight [2, 3] and bias [2] below the norm, then the norm's weight.
    for (std::size_t i = 0; i < 10; ++i) CHECK(gradient[i] == 0);
    CHECK(
        std::any_of(gradient.begin() + 10, gradient.begin() + 12, [](float g) { return g != 0; }));
    CHECK(std::isfinite(loss));
    network.TrainStep(params, batch.View(), {.learning_rate = 0});
    CHECK(std::all_of(params.begin(), params.end(), [](float v) { return std::isfinite(v); }));
    // The mean has moved, the variance has not.
    CHECK(params[12] != before[12]);
    CHECK(params[14] == before[14]);
    CHECK(params[15] == before[15]);

    const auto alone = test::LayerSpec({2}, {"norm batch"});
    Network one(alone, 1, isa, LossKind::kMeanSquaredError);
    std::vector<float> two{3, 4, 0.25F, 0.5F, 0, 0, 1, 1};
    std::vector<float> slopes(8);
    const std::vector<float> x{1e6F, -3};
    const std::int32_t label = 0;
    // ((0.25 - 1)^2 + 0.5^2) / 2.
    CHECK(one.Gradient(two, {x.data(), &label, 1}, slopes) == 0.40625);
  }
}

TEST_CASE("a group of one value gives its bias and no gradient", "[unit]") {
  for (const std::string kind : {"norm group 3", "norm layer"}) {
    const unsigned width = kind == "norm layer" ? 1 : 3;
    const auto spec = test::LayerSpec({3}, {"dense " + std::to_string(width), kind, "dense 2"});
    const std::vector<float> params = ParamsFor(spec, 3);
    for (const Isa isa : AvailableIsas()) {
      INFO(IsaName(isa) << ", " << kind);
      Network network(spec, 4, isa);
      std::vector<float> gradient(params.size(), 77);
      network.Gradient(params, test::BatchFor(spec, 4, 4).View(), gradient);
      // The dense layer's and the norm's weights.
      const std::size_t count = 4 * width + width;
      CHECK(std::all_of(gradient.begin(), gradient.begin() + static_cast<std::ptrdiff_t>(count),
                        [](float g) { return g == 0; }));
      CHECK(gradient[count] != 0);
    }
  }
}

TEST_CASE("constant channels are finite", "[unit]") {
  const auto spec = test::LayerSpec({4, 3, 3}, {"norm batch", "relu", "norm group 2", "dense 3"});
  const std::vector<float> x(2 * 36, 1000.1F);
  const std::vector<std::int32_t> labels{0, 1};
  for (const Isa isa : AvailableIsas()) {
    std::vector<float> params = ParamsFor(spec, 1);
    Network network(spec, 2, isa);
    for (int t = 0; t < 3; ++t) {
      network.TrainStep(params, {x.data(), labels.data(), 2}, {.learning_rate = 0.1F});
    }
    CHECK(std::all_of(params.begin(), params.end(), [](float v) { return std::isfinite(v); }));
  }
}

// Rows of unaligned floats with gaps, which a loop is to leave alone.
struct Gapped {
  Gapped(std::size_t rows, std::size_t values, std::uint64_t seed)
      : columns(values), stride(values + 5), storage(test::RandomFloats(rows * stride, seed)) {
    for (std::size_t i = 0; i < rows * stride; ++i) {
      if (i % stride >= columns) storage.data()[i] = 77;
    }
  }
  [[nodiscard]] bool IsWithin() {
    const auto values = storage.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % stride >= columns && values[i] != 77) return false;
    }
    return true;
  }
  std::size_t columns;
  std::size_t stride;
  test::Unaligned storage;
};

TEST_CASE("loops of norms take rows of any size, with gaps, and write no further", "[unit]") {
  constexpr std::size_t kRows = 5;
  for (const Isa isa : AvailableIsas()) {
    const PointLoops& loops = PointLoopsFor(isa);
    for (const std::size_t n : test::Sizes{1, 2, 7, 15, 16, 17, 33, 63, 65}) {
      INFO(IsaName(isa) << ", " << n << " columns");
      Gapped x(kRows, n, n);
      Gapped dy(kRows, n, n + 1);
      Gapped y(kRows, n, n + 2);
      test::Unaligned channel(std::vector<float>(n, 0.5F));
      const float* half = channel.data();
      std::vector<double> first(n + kColumnPad);
      std::vector<double> second(n + kColumnPad);
      loops.column_products({x.storage.data(), x.stride, dy.storage.data(), dy.stride, kRows, n,
                             half, half, first.data(), second.data()});
      for (std::size_t c = 0; c < n; ++c) {
        double sum = 0;
        double product = 0;
        for (std::size_t r = 0; r < kRows; ++r) {
          const auto d = static_cast<double>(dy.storage.data()[r * dy.stride + c]);
          sum += d;
          product += d * (static_cast<double>(x.storage.data()[r * x.stride + c]) - 1);
        }
        REQUIRE(std::abs(first[c] - sum) < 1e-12);
        REQUIRE(std::abs(second[c] - product) < 1e-6);
      }
      loops.column_norm({x.storage.data(), x.stride, kRows, n, half, half, half, half,
                         y.storage.data(), y.stride, false});
      for (std::size_t i = 0; i < kRows * n; ++i) {
        const std::size_t at = i / n * x.stride + i % n;
        REQUIRE(std::abs(y.storage.data()[at] - x.storage.data()[at] / 2) < 1e-6F);
      }
      CHECK(y.IsWithin());
      loops.column_norm_gradient({dy.storage.data(), dy.stride, x.storage.data(), x.stride, kRows,
                                  n, half, half, half, half, half, y.storage.data(), y.stride,
                                  true});
      CHECK(y.IsWithin());
      std::vector<Moments> moments(kRows);
      loops.row_norm({x.storage.data(), x.stride, kRows, n, half, half, 1e-5, moments.data(),
                      y.storage.data(), y.stride, true});
      CHECK(y.IsWithin());
      loops.row_norm_gradient({dy.storage.data(), dy.stride, x.storage.data(), x.stride, kRows, n,
                               half, moments.data(), y.storage.data(), y.stride, true, first.data(),
                               second.data()});
      CHECK(y.IsWithin());
    }
  }
}

TEST_CASE("a norm of an example does not depend on the others", "[unit]") {
  for (const std::string kind : {"norm layer", "norm group 2"}) {
    const auto spec = test::LayerSpec({4, 3, 3}, {kind});
    const std::vector<float> params = ParamsFor(spec, 1);
    const test::LabelledBatch batch = test::BatchFor(spec, 5, 2);
    for (const Isa isa : AvailableIsas()) {
      Network network(spec, 1, isa);
      std::vector<float> together(5 * 36);
      network.Outputs(params, batch.x.data(), 5, together);
      std::vector<float> alone(36);
      network.Outputs(params, batch.x.data() + 3 * 36, 1, alone);
      CHECK(std::equal(alone.begin(), alone.end(), together.begin() + 3 * 36));
    }
  }
}

TEST_CASE("a NaN passes through norms into the loss and the parameters", "[unit]") {
  for (const std::string kind : {"norm batch", "norm layer", "norm group 2"}) {
    const auto spec = test::LayerSpec({4, 3, 3}, {kind, "relu", "dense 3"});
    test::LabelledBatch batch = test::BatchFor(spec, 2, 2);
    batch.x[5] = kNan;
    for (const Isa isa : AvailableIsas()) {
      std::vector<float> params = ParamsFor(spec, 1);
      Network network(spec, 2, isa);
      CHECK(std::isnan(network.TrainStep(params, batch.View(), {.learning_rate = 0.1F})));
      CHECK(std::any_of(params.begin(), params.end(), [](float v) { return std::isnan(v); }));
    }
  }
}

}  // namespace
}  // namespace skep::kernels
