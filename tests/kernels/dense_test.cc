#include <cmath>
#include <limits>
#include <vector>

#include "kernels/backend.h"
#include "kernels/training_loops.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

struct Shape {
  std::size_t rows;
  std::size_t inputs;
  std::size_t outputs;
};

// Around the widths of registers and tiles; a layer wider than one block of inputs; more rows than
// one block of rows.
const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = [] {
    std::vector<Shape> all;
    for (const std::size_t odd : test::Sizes{1, 7, 15, 16, 17, 63, 65}) {
      all.push_back({odd, 17, 10});
      all.push_back({3, odd, 10});
      all.push_back({10, 33, odd});
      all.push_back({odd, odd, odd});
    }
    all.push_back({2, 1025, 3});
    all.push_back({50, 784, 10});
    all.push_back({97, 20, 12});
    return all;
  }();
  return shapes;
}

// |computed - exact| <= (K + 8) 2^-24 sum |a b|
double Tolerance(std::size_t terms, double magnitude) {
  return static_cast<double>(terms + 8) * 0x1p-24 * magnitude + 1e-30;
}

template <class Check>
void ForEveryCase(const Check& check) {
  for (const Isa isa : AvailableIsas()) {
    for (const Shape& shape : Shapes()) {
      INFO(IsaName(isa) << ": " << shape.rows << " x " << shape.inputs << " x " << shape.outputs);
      check(TrainingLoopsFor(isa), shape);
    }
  }
}

TEST_CASE("a dense layer's outputs are those of the double reference", "[unit]") {
  ForEveryCase([](const TrainingLoops& loops, const Shape& s) {
    test::Unaligned x(test::RandomFloats(s.rows * s.inputs, 1));
    test::Unaligned w(test::RandomFloats(s.outputs * s.inputs, 2));
    test::Unaligned b(test::RandomFloats(s.outputs, 3));
    for (const bool has_relu : {false, true}) {
      test::Unaligned y(std::vector<float>(s.rows * s.outputs, 77));
      loops.dense_forward({.x = x.data(),
                           .x_stride = s.inputs,
                           .rows = s.rows,
                           .inputs = s.inputs,
                           .outputs = s.outputs,
                           .weights = w.data(),
                           .bias = has_relu ? b.data() : nullptr,
                           .y = y.data(),
                           .y_stride = s.outputs,
                           .relu = has_relu});
      double worst = 0;
      for (std::size_t r = 0; r < s.rows; ++r) {
        for (std::size_t o = 0; o < s.outputs; ++o) {
          double sum = has_relu ? static_cast<double>(b.values()[o]) : 0;
          double magnitude = std::abs(sum);
          for (std::size_t k = 0; k < s.inputs; ++k) {
            const double product = static_cast<double>(x.values()[r * s.inputs + k]) *
                                   static_cast<double>(w.values()[o * s.inputs + k]);
            sum += product;
            magnitude += std::abs(product);
          }
          if (has_relu) sum = std::max(sum, 0.0);
          const double error = std::abs(static_cast<double>(y.values()[r * s.outputs + o]) - sum);
          worst = std::max(worst, error / Tolerance(s.inputs, magnitude));
        }
      }
      REQUIRE(worst <= 1);
    }
  });
}

TEST_CASE("an output row does not depend on the rows beside it", "[unit]") {
  ForEveryCase([](const TrainingLoops& loops, const Shape& s) {
    const std::vector<float> x = test::RandomFloats(s.rows * s.inputs, 4);
    const std::vector<float> w = test::RandomFloats(s.outputs * s.inputs, 5);
    const auto forward = [&](const float* from, std::size_t rows) {
      std::vector<float> y(rows * s.outputs);
      loops.dense_forward({.x = from,
                           .x_stride = s.inputs,
                           .rows = rows,
                           .inputs = s.inputs,
                           .outputs = s.outputs,
                           .weights = w.data(),
                           .bias = nullptr,
                           .y = y.data(),
                           .y_stride = s.outputs,
                           .relu = false});
      return y;
    };
    const std::vector<float> together = forward(x.data(), s.rows);
    for (std::size_t r = 0; r < s.rows; ++r) {
      const std::vector<float> alone = forward(x.data() + r * s.inputs, 1);
      REQUIRE(std::equal(alone.begin(), alone.end(),
                         together.begin() + static_cast<std::ptrdiff_t>(r * s.outputs)));
    }
  });
}

TEST_CASE("the gradient of a layer's input is that of the double reference", "[unit]") {
  ForEveryCase([](const TrainingLoops& loops, const Shape& s) {
    test::Unaligned dy(test::RandomFloats(s.rows * s.outputs, 6));
    test::Unaligned w(test::RandomFloats(s.outputs * s.inputs, 7));
    test::Unaligned active(test::RandomFloats(s.rows * s.inputs, 8));
    for (const bool is_gated : {false, true}) {
      test::Unaligned dx(std::vector<float>(s.rows * s.inputs, 77));
      loops.dense_input_gradient({.dy = dy.data(),
                                  .dy_stride = s.outputs,
                                  .rows = s.rows,
                                  .inputs = s.inputs,
                                  .outputs = s.outputs,
                                  .weights = w.data(),
                                  .active = is_gated ? active.data() : nullptr,
                                  .dx = dx.data(),
                                  .dx_stride = s.inputs});
      double worst = 0;
      for (std::size_t i = 0; i < s.rows * s.inputs; ++i) {
        double sum = 0;
        double magnitude = 0;
        for (std::size_t o = 0; o < s.outputs; ++o) {
          const double product = static_cast<double>(dy.values()[i / s.inputs * s.outputs + o]) *
                                 static_cast<double>(w.values()[o * s.inputs + i % s.inputs]);
          sum += product;
          magnitude += std::abs(product);
        }
        if (is_gated && !(active.values()[i] > 0)) sum = 0;
        const double error = std::abs(static_cast<double>(dx.values()[i]) - sum);
        worst = std::max(worst, error / Tolerance(s.outputs, magnitude));
      }
      REQUIRE(worst <= 1);
    }
  });
}

TEST_CASE("the gradient of a layer's weights is that of the double reference", "[unit]") {
  ForEveryCase([](const TrainingLoops& loops, const Shape& s) {
    test::Unaligned dy(test::RandomFloats(s.rows * s.outputs, 9));
    test::Unaligned x(test::RandomFloats(s.rows * s.inputs, 10));
    test::Unaligned gradient(std::vector<float>(s.outputs * s.inputs, 77));
    test::Unaligned bias(std::vector<float>(s.outputs, 77));
    loops.dense_weight_gradient({.dy = dy.data(),
                                 .dy_stride = s.outputs,
                                 .x = x.data(),
                                 .x_stride = s.inputs,
                                 .rows = s.rows,
                                 .inputs = s.inputs,
                                 .outputs = s.outputs,
                                 .weights = gradient.data(),
                                 .bias = bias.data(),
                                 .scale = 1,
                                 .accumulate = false});
    double worst = 0;
    for (std::size_t o = 0; o < s.outputs; ++o) {
      for (std::size_t k = 0; k <= s.inputs; ++k) {  // the last is the bias, whose input is 1
        double sum = 0;
        double magnitude = 0;
        for (std::size_t r = 0; r < s.rows; ++r) {
          const double input =
              k < s.inputs ? static_cast<double>(x.values()[r * s.inputs + k]) : 1.0;
          const double product = static_cast<double>(dy.values()[r * s.outputs + o]) * input;
          sum += product;
          magnitude += std::abs(product);
        }
        const float computed =
            k < s.inputs ? gradient.values()[o * s.inputs + k] : bias.values()[o];
        worst = std::max(
            worst, std::abs(static_cast<double>(computed) - sum) / Tolerance(s.rows, magnitude));
      }
    }
    REQUIRE(worst <= 1);
  });
}

// More inputs than one block of columns has, and not a whole number of blocks.
TEST_CASE("both gradients of a layer at once are those of two passes", "[unit]") {
  constexpr std::size_t kRows = 7;
  constexpr std::size_t kInputs = 1003;
  constexpr std::size_t kOutputs = 301;
  for (const Isa isa : AvailableIsas()) {
    const TrainingLoops& loops = TrainingLoopsFor(isa);
    const std::vector<float> dy = test::RandomFloats(kRows * kOutputs, 20);
    const std::vector<float> x = test::RandomFloats(kRows * kInputs, 21);
    const auto train = [&](std::vector<float>& weights, std::vector<float>& bias,
                           std::vector<float>& dx, bool at_once) {
      const DenseInputGradient input{.dy = dy.data(),
                                     .dy_stride = kOutputs,
                                     .rows = kRows,
                                     .inputs = kInputs,
                                     .outputs = kOutputs,
                                     .weights = weights.data(),
                                     .active = x.data(),
                                     .dx = dx.data(),
                                     .dx_stride = kInputs};
      const DenseWeightGradient weight{.dy = dy.data(),
                                       .dy_stride = kOutputs,
                                       .x = x.data(),
                                       .x_stride = kInputs,
                                       .rows = kRows,
                                       .inputs = kInputs,
                                       .outputs = kOutputs,
                                       .weights = weights.data(),
                                       .bias = bias.data(),
                                       .scale = -0.1F,
                                       .accumulate = true};
      if (at_once) return loops.dense_gradients(input, weight);
      loops.dense_input_gradient(input);
      loops.dense_weight_gradient(weight);
    };
    std::vector<float> weights[2];
    std::vector<float> bias[2];
    std::vector<float> dx[2];
    for (const bool at_once : {false, true}) {
      weights[at_once] = test::RandomFloats(kOutputs * kInputs, 22);
      bias[at_once] = test::RandomFloats(kOutputs, 23);
      dx[at_once].assign(kRows * kInputs, 77);
      train(weights[at_once], bias[at_once], dx[at_once], at_once);
    }
    INFO(IsaName(isa));
    REQUIRE(weights[0] != test::RandomFloats(kOutputs * kInputs, 22));
    REQUIRE(weights[0] == weights[1]);
    REQUIRE(bias[0] == bias[1]);
    REQUIRE(dx[0] == dx[1]);
  }
}

TEST_CASE("cross-entropy of equal outputs is the logarithm of their number", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t classes : test::Sizes{2, 7, 10, 16, 17, 65, 1000}) {
      std::vector<float> logits(3 * classes, 0.0F);
      const std::vector<std::int32_t> labels{0, 1, static_cast<std::int32_t>(classes) - 1};
      const LossSum sum = TrainingLoopsFor(isa).softmax_loss({.logits = logits.data(),
                                                              .stride = classes,
                                                              .rows = 3,
                                                              .classes = classes,
                                                              .labels = labels.data(),
                                                              .gradient = false,
                                                              .scale = 0});
      INFO(IsaName(isa) << ", " << classes << " classes");
      CHECK(std::abs(sum.loss - 3 * std::log(static_cast<double>(classes))) < 1e-14 * sum.loss);
      CHECK(sum.correct == 1);  // the first of equals
    }
  }
}

TEST_CASE("cross-entropy holds for outputs far apart", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    std::vector<float> logits{1000, -1000, 3, 0, 80, 0, -5e4F, 5e4F};
    const std::vector<std::int32_t> labels{0, 1, 0, 1};
    const LossSum sum = TrainingLoopsFor(isa).softmax_loss({.logits = logits.data(),
                                                            .stride = 2,
                                                            .rows = 4,
                                                            .classes = 2,
                                                            .labels = labels.data(),
                                                            .gradient = true,
                                                            .scale = 0.25F});
    INFO(IsaName(isa));
    const double expected = std::log1p(std::exp(3.0));  // the other rows are as good as certain
    CHECK(std::abs(sum.loss - expected) < 1e-6 * expected);
    const double p = 1 / (1 + std::exp(-3.0));
    CHECK(std::abs(static_cast<double>(logits[2]) - p / 4) < 1e-7);
    CHECK(std::abs(static_cast<double>(logits[3]) - ((1 - p) - 1) / 4) < 1e-7);
    CHECK(std::abs(logits[4]) < 1e-30F);
  }
}

TEST_CASE("an output that is no number makes the loss no number and the row wrong", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (std::size_t at = 0; at < 10; at += 3) {
        std::vector<float> logits(10, 1.0F);
        logits[at] = bad;
        const std::int32_t label = 0;
        const LossSum sum = TrainingLoopsFor(isa).softmax_loss({.logits = logits.data(),
                                                                .stride = 10,
                                                                .rows = 1,
                                                                .classes = 10,
                                                                .labels = &label,
                                                                .gradient = false,
                                                                .scale = 0});
        INFO(IsaName(isa) << ", output " << at << " is " << bad);
        CHECK(std::isnan(sum.loss));
        CHECK(sum.correct == 0);
      }
    }
  }
}

TEST_CASE("a ReLU lets NaN through", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const std::vector<float> x{std::numeric_limits<float>::quiet_NaN()};
    const std::vector<float> w{1};
    float y = 0;
    TrainingLoopsFor(isa).dense_forward({.x = x.data(),
                                         .x_stride = 1,
                                         .rows = 1,
                                         .inputs = 1,
                                         .outputs = 1,
                                         .weights = w.data(),
                                         .bias = nullptr,
                                         .y = &y,
                                         .y_stride = 1,
                                         .relu = true});
    CHECK(std::isnan(y));
  }
}

}  // namespace
}  // namespace skep::kernels
