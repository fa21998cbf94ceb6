#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/conv_reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

struct Case {
  std::vector<std::uint32_t> input;  // channels, height, width; or length, features
  std::string line;
  std::size_t rows;
};

// Around the widths of registers and tiles; every way of padding, striding and grouping.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::size_t odd : test::Sizes{1, 2, 7, 15, 16, 17, 33}) {
    const auto n = static_cast<std::uint32_t>(odd);
    const std::string count = std::to_string(n);
    const std::string conv = "conv " + count;
    std::string grouped = conv + " 3x3 same groups ";
    grouped += count;
    cases.push_back({{n, 5, 6}, "conv 3 3x3 same", 2});
    cases.push_back({{3, 5, 4}, conv + " 3x3", 1});
    cases.push_back({{2, 5, n + 2}, "conv 18 3x3", 2});
    cases.push_back({{n, 4, 9}, conv + " 1x1", 2});
    cases.push_back({{n, 7, 6}, grouped, 2});
    cases.push_back({{n, 9}, "conv1d " + count + " 3 same", 2});
  }
  for (const char* line :
       {"conv 5 5x5", "conv 5 5x5 same", "conv 5 2x2 same", "conv 5 2x2 stride 2",
        "conv 5 3x3 stride 2", "conv 5 3x3 same stride 2", "conv 5 1x1 stride 2",
        "conv 5 1x1 stride 3", "conv 5 3x5 same stride 3", "conv 5 2x3 stride 4",
        "conv 5 7x7 same stride 2", "conv 5 1x3 same", "conv 5 7x8", "conv 8 3x3 groups 2",
        "conv 12 3x3 same groups 4 stride 2", "conv 8 2x2 groups 4 nobias",
        "conv 40 3x3 same groups 4 stride 2", "conv 4 1x1 groups 2", "conv 3 9x9 same stride 20"}) {
    cases.push_back({{4, 7, 8}, line, 3});
  }
  cases.push_back({{33, 6, 7}, "conv 66 3x3 same groups 33 stride 2", 2});
  cases.push_back({{17, 6, 3}, "conv 51 2x3 groups 17", 2});
  cases.push_back({{20, 3}, "conv1d 7 5 stride 2", 2});
  cases.push_back({{20, 3}, "conv1d 70 4 same stride 3 nobias", 2});
  cases.push_back({{1, 28, 28}, "conv 32 5x5 same", 1});
  cases.push_back({{32, 14, 14}, "conv 64 5x5 same", 1});
  cases.push_back({{64, 4, 4}, "conv 96 3x3 same", 2});
  return cases;
}

template <class Check>
void ForEveryCase(const Check& check) {
  for (const Isa isa : AvailableIsas()) {
    for (const Case& c : Cases()) {
      INFO(IsaName(isa) << ": " << c.line << " on " << c.input[0] << " x " << c.input[1]);
      check(isa, c);
    }
  }
}

const model::ConvLayer& ConvOf(const test::LayerUnderTest& under) {
  return std::get<model::ConvLayer>(under.layer());
}

// Where the bias starts, which follows the weights.
std::size_t WeightsOf(const model::ConvLayer& conv) {
  return std::size_t{conv.out.channels} * (conv.in.channels / conv.groups) * conv.kernel_height *
         conv.kernel_width;
}

TEST_CASE("a convolution's outputs are those of the double reference", "[unit]") {
  ForEveryCase([](Isa isa, const Case& c) {
    test::LayerUnderTest under(c.input, c.line, isa, c.rows);
    const model::ConvLayer& conv = ConvOf(under);
    const std::vector<float> params = test::RandomFloats(under.params(), 1);
    const std::vector<float> x = test::RandomFloats(c.rows * under.in_values(), 2);
    const std::vector<float> y = under.Forward(params, x);
    const float* bias = conv.has_bias ? params.data() + WeightsOf(conv) : nullptr;
    for (std::size_t r = 0; r < c.rows; ++r) {
      test::ExactSums exact(under.out_values());
      test::AddConvolved(conv, x.data() + r * under.in_values(), params.data(), bias, exact);
      const auto first = y.begin() + static_cast<std::ptrdiff_t>(r * under.out_values());
      REQUIRE(exact.WorstError({first, first + static_cast<std::ptrdiff_t>(under.out_values())}) <=
              1);
    }
    test::LayerUnderTest rectified(c.input, c.line, isa, c.rows, true);
    std::vector<float> positive = y;
    for (float& value : positive) value = std::max(value, 0.0F);
    REQUIRE(rectified.Forward(params, x) == positive);
  });
}

TEST_CASE("the gradients of a convolution are those of the double reference", "[unit]") {
  ForEveryCase([](Isa isa, const Case& c) {
    test::LayerUnderTest under(c.input, c.line, isa, c.rows);
    const model::ConvLayer& conv = ConvOf(under);
    const std::vector<float> params = test::RandomFloats(under.params(), 3);
    const std::vector<float> x = test::RandomFloats(c.rows * under.in_values(), 4);
    const std::vector<float> dy = test::RandomFloats(c.rows * under.out_values(), 5);
    const std::vector<float> y = under.Forward(params, x);
    const auto gradients = under.Backward(params, x, y, dy, std::vector<float>(under.params(), 77));

    test::ExactSums weight(WeightsOf(conv));
    test::ExactSums bias(conv.out.channels);
    for (std::size_t r = 0; r < c.rows; ++r) {
      const float* dy_row = dy.data() + r * under.out_values();
      test::AddWeightGradient(conv, x.data() + r * under.in_values(), dy_row, weight, bias);
      test::ExactSums dx(under.in_values());
      test::AddInputGradient(conv, dy_row, params.data(), dx);
      const auto first = gradients.dx.begin() + static_cast<std::ptrdiff_t>(r * under.in_values());
      REQUIRE(dx.WorstError({first, first + static_cast<std::ptrdiff_t>(under.in_values())}) <= 1);
    }
    const auto end = gradients.params.begin() + static_cast<std::ptrdiff_t>(WeightsOf(conv));
    REQUIRE(weight.WorstError({gradients.params.begin(), end}) <= 1);
    if (conv.has_bias) REQUIRE(bias.WorstError({end, gradients.params.end()}) <= 1);
  });
}

TEST_CASE("a rectified input's gradient is 0 where the input is not above 0", "[unit]") {
  ForEveryCase([](Isa isa, const Case& c) {
    test::LayerUnderTest under(c.input, c.line, isa, c.rows);
    const std::vector<float> params = test::RandomFloats(under.params(), 6);
    const std::vector<float> x = test::RandomFloats(c.rows * under.in_values(), 7);
    const std::vector<float> dy = test::RandomFloats(c.rows * under.out_values(), 8);
    const std::vector<float> start(under.params());
    const std::vector<float> y = under.Forward(params, x);
    std::vector<float> expected = under.Backward(params, x, y, dy, start).dx;
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = x[i] > 0 ? expected[i] : 0;
    REQUIRE(under.Backward(params, x, y, dy, start, true).dx == expected);
  });
}

TEST_CASE("adding a convolution's gradient equals storing it and then adding", "[unit]") {
  ForEveryCase([](Isa isa, const Case& c) {
    test::LayerUnderTest under(c.input, c.line, isa, c.rows);
    const std::vector<float> params = test::RandomFloats(under.params(), 9);
    const std::vector<float> x = test::RandomFloats(c.rows * under.in_values(), 10);
    const std::vector<float> dy = test::RandomFloats(c.rows * under.out_values(), 11);
    const std::vector<float> y = under.Forward(params, x);
    const auto stored = under.Backward(params, x, y, dy, params).params;
    const auto added = under.Backward(params, x, y, dy, params, false, true, -0.3F).params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const double expected = static_cast<double>(params[i]) -
                              static_cast<double>(0.3F) * static_cast<double>(stored[i]);
      const double allowed = 0x1p-23 * (std::abs(static_cast<double>(params[i])) +
                                        std::abs(static_cast<double>(stored[i])));
      REQUIRE(std::abs(static_cast<double>(added[i]) - expected) <= allowed);
    }
  });
}

TEST_CASE("an example's outputs do not depend on the examples beside it", "[unit]") {
  ForEveryCase([](Isa isa, const Case& c) {
    test::LayerUnderTest together(c.input, c.line, isa, c.rows);
    test::LayerUnderTest alone(c.input, c.line, isa, 1);
    const std::vector<float> params = test::RandomFloats(together.params(), 12);
    const std::vector<float> x = test::RandomFloats(c.rows * together.in_values(), 13);
    const std::vector<float> y = together.Forward(params, x);
    for (std::size_t r = 0; r < c.rows; ++r) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(r * together.in_values());
      const std::vector<float> one =
          alone.Forward(params, {first, first + static_cast<std::ptrdiff_t>(together.in_values())});
      REQUIRE(std::equal(one.begin(), one.end(),
                         y.begin() + static_cast<std::ptrdiff_t>(r * together.out_values())));
    }
  });
}

TEST_CASE("a convolution gives the values worked out by hand", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    // 1 to 9 by rows, weights 1 to 4: the first window is 1 + 4 + 12 + 20.
    const std::vector<float> image{1, 2, 3, 4, 5, 6, 7, 8, 9};
    const std::vector<float> params{1, 2, 3, 4, 100};
    test::LayerUnderTest valid({1, 3, 3}, "conv 1 2x2", isa, 1);
    CHECK(valid.Forward(params, image) == std::vector<float>{137, 147, 167, 177});
    test::LayerUnderTest strided({1, 3, 3}, "conv 1 2x2 same stride 2", isa, 1);
    CHECK(strided.Forward(params, image) == std::vector<float>{104, 118, 136, 177});
    // A sequence of three places of two features; one output over two places.
    test::LayerUnderTest windows({3, 2}, "conv1d 1 2", isa, 1);
    CHECK(windows.Forward({1, 10, 2, 20, 0}, {1, 2, 3, 4, 5, 6}) == std::vector<float>{115, 181});
  }
}

TEST_CASE("a convolution lets NaN through, also through its ReLU", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    test::LayerUnderTest under({3, 5, 5}, "conv 17 3x3 same", isa, 1, true);
    std::vector<float> x(75, 1);
    x[0] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> params = test::RandomFloats(under.params(), 14);
    const std::vector<float> y = under.Forward(params, x);
    for (std::size_t place = 0; place < 25; ++place) {
      const bool is_beside = place % 5 < 2 && place / 5 < 2;
      for (std::size_t o = 0; o < 17; ++o) REQUIRE(std::isnan(y[place * 17 + o]) == is_beside);
    }
  }
}

}  // namespace
}  // namespace skep::kernels
