#include <cmath>
#include <limits>

#include "kernels/point_loops.h"
#include "shared/base/rng.h"
#include "tests/kernels/point_reference.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

struct Drawn {
  std::size_t rows;
  std::size_t columns;
  std::uint64_t key;
  std::uint32_t layer;
  std::uint32_t threshold;
};

std::vector<float> Drop(Isa isa, const Drawn& drawn, const std::vector<float>& x) {
  std::vector<float> y(x.size(), 77);
  PointLoopsFor(isa).dropout({.x = x.data(),
                              .x_stride = drawn.columns,
                              .rows = drawn.rows,
                              .columns = drawn.columns,
                              .active = nullptr,
                              .active_stride = 0,
                              .y = y.data(),
                              .y_stride = drawn.columns,
                              .key = drawn.key,
                              .layer = drawn.layer,
                              .threshold = drawn.threshold,
                              .scale = 2});
  return y;
}

bool IsKept(const Drawn& drawn, std::uint64_t number) {
  const PhiloxBlock block =
      Philox(drawn.key, {static_cast<std::uint32_t>(number / 4), drawn.layer, 0, 5});
  return (block.at(number % 4) >> 8U) >= drawn.threshold;
}

TEST_CASE("which values are dropped follows from the words of Philox", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t columns : test::Sizes{1, 2, 3, 7, 15, 16, 17, 33, 65, 255, 257, 600}) {
      const Drawn drawn{7, columns, 0x0123456789ABCDEFULL, 3, 0x600000};
      const std::vector<float> x(drawn.rows * columns, 1);
      const std::vector<float> y = Drop(isa, drawn, x);
      for (std::size_t i = 0; i < y.size(); ++i) {
        INFO(IsaName(isa) << ", " << columns << " columns, value " << i);
        REQUIRE(y[i] == (IsKept(drawn, i) ? 2.0F : 0.0F));
      }
    }
  }
}

TEST_CASE("the known answer of dropout: key 0, layer 0, half of the values", "[unit]") {
  // Philox 4x32-10 of [0, 0, 0, 5] and [1, 0, 0, 5] under key 0.
  const Drawn drawn{1, 8, 0, 0, 0x800000};
  std::string kept;
  for (std::uint64_t i = 0; i < 8; ++i) kept += IsKept(drawn, i) ? '1' : '0';
  for (const Isa isa : AvailableIsas()) {
    const std::vector<float> y = Drop(isa, drawn, std::vector<float>(8, 1));
    std::string got;
    for (const float v : y) got += v == 0 ? '0' : '1';
    CHECK(got == "01100001");
    CHECK(got == kept);
  }
}

TEST_CASE("a word at the threshold is kept, one below it is dropped", "[unit]") {
  const Drawn one{1, 1, 42, 0, 0};
  const std::uint32_t top = Philox(42, {0, 0, 0, 5})[0] >> 8U;
  for (const Isa isa : AvailableIsas()) {
    Drawn at = one;
    at.threshold = top;
    CHECK(Drop(isa, at, {1})[0] == 2);
    at.threshold = top + 1;
    CHECK(Drop(isa, at, {1})[0] == 0);
    at.threshold = 1U << 24U;
    CHECK(Drop(isa, at, {1})[0] == 0);
  }
}

TEST_CASE("a diverged value is seen even where it is dropped", "[unit]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : AvailableIsas()) {
    const std::vector<float> y = Drop(isa, {1, 9, 1, 1, 0x800000}, std::vector<float>(9, nan));
    for (const float v : y) CHECK(std::isnan(v));
  }
}

TEST_CASE("the gradient of dropout is the slope of the loss under the same draws", "[unit]") {
  for (const unsigned width : {1U, 2U, 7U, 15U, 16U, 17U, 33U}) {
    const auto spec =
        test::LayerSpec({5}, {"dropout 0.2", "dense " + std::to_string(width), "relu",
                              "dropout 0.5", "dense 4", "tanh", "dropout 0.25", "dense 3"});
    const auto params = test::RandomFloats(spec.layout()->values(), width, 0.9F);
    test::PointReference::Mode mode;
    mode.step_key = 0xC0FFEE + width;
    test::CheckAgainstReference(spec, params, test::BatchFor(spec, 6, width), mode);
    test::CheckSinks(spec, params, test::BatchFor(spec, 6, width));
  }
}

TEST_CASE("dropout over sequences and images counts values in their order", "[unit]") {
  test::PointReference::Mode mode;
  mode.step_key = 99;
  const auto image = test::LayerSpec({3, 3, 5}, {"dropout 0.3", "dense 3"});
  test::CheckAgainstReference(image, test::RandomFloats(image.layout()->values(), 1),
                              test::BatchFor(image, 3, 2), mode);
  const auto sequence = test::LayerSpec({5, 3}, {"dense 6", "dropout 0.3", "dense 3"});
  test::CheckAgainstReference(sequence, test::RandomFloats(sequence.layout()->values(), 1),
                              test::BatchFor(sequence, 3, 2), mode);
}

TEST_CASE("draws depend on the step and the layer, not on the size of the workspace", "[unit]") {
  const auto spec = test::LayerSpec({40}, {"dropout 0.5", "dense 3"});
  const auto other = test::LayerSpec({40}, {"flatten", "dropout 0.5", "dense 3"});
  const auto params = test::RandomFloats(spec.layout()->values(), 1);
  const test::LabelledBatch batch = test::BatchFor(spec, 4, 2);
  const auto gradient = [&](const model::ModelSpec& model, std::size_t capacity,
                            std::uint64_t key) {
    Network network(model, capacity, DetectIsa());
    std::vector<float> result(params.size());
    network.Gradient(params, batch.View(), result, key);
    return result;
  };
  CHECK(gradient(spec, 4, 1) == gradient(spec, 50, 1));
  CHECK(gradient(spec, 4, 1) != gradient(spec, 4, 2));
  CHECK(gradient(spec, 4, 1) != gradient(other, 4, 1));
}

TEST_CASE("dropout of nothing changes nothing, nor does evaluation", "[unit]") {
  const auto plain = test::LayerSpec({40}, {"dense 3"});
  const auto none = test::LayerSpec({40}, {"dropout 0", "dense 3"});
  const auto half = test::LayerSpec({40}, {"dropout 0.5", "dense 3"});
  const auto params = test::RandomFloats(plain.layout()->values(), 1);
  const test::LabelledBatch batch = test::BatchFor(plain, 4, 2);
  for (const Isa isa : AvailableIsas()) {
    Network first(plain, 4, isa);
    Network second(none, 4, isa);
    Network third(half, 4, isa);
    std::vector<float> expected(params.size());
    std::vector<float> gradient(params.size());
    first.Gradient(params, batch.View(), expected);
    second.Gradient(params, batch.View(), gradient, 5);
    CHECK(gradient == expected);
    CHECK(third.Evaluate(params, batch.View()).loss_sum ==
          first.Evaluate(params, batch.View()).loss_sum);
  }
}

}  // namespace
}  // namespace skep::kernels
