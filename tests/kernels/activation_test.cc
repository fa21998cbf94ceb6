#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/backend.h"
#include "kernels/point_loops.h"
#include "tests/kernels/point_reference.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Curve {
  const char* name;
  void (*PointLoops::*forward)(const PointForward&);
  void (*PointLoops::*gradient)(const PointGradient&);
  double (*value)(double);
  double (*slope)(double);
};

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double SigmoidSlope(double x) {
  const double power = std::exp(-std::abs(x));
  return power / ((1 + power) * (1 + power));
}
double Tanh(double x) {
  return std::tanh(x);
}
double TanhSlope(double x) {
  return 4 * SigmoidSlope(2 * x);
}

const std::vector<Curve>& Curves() {
  static const std::vector<Curve> curves{
      {"tanh", &PointLoops::tanh, &PointLoops::tanh_gradient, Tanh, TanhSlope},
      {"sigmoid", &PointLoops::sigmoid, &PointLoops::sigmoid_gradient, Sigmoid, SigmoidSlope},
      {"gelu", &PointLoops::gelu, &PointLoops::gelu_gradient, test::GeluReference,
       test::GeluSlopeReference}};
  return curves;
}

std::vector<float> Apply(const PointLoops& loops, const Curve& curve, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  (loops.*curve.forward)({x.data(), x.size(), 1, x.size(), y.data(), y.size()});
  return y;
}

std::vector<float> ApplyGradient(const PointLoops& loops, const Curve& curve,
                                 const std::vector<float>& x, const std::vector<float>& dy,
                                 bool gate = false) {
  std::vector<float> dx(x.size());
  (loops.*curve.gradient)(
      {dy.data(), dy.size(), x.data(), x.size(), 1, x.size(), dx.data(), dx.size(), gate});
  return dx;
}

// Every 2,048th float of each sign from 2^-40 to the bound, and 0.
std::vector<float> Sweep(float bound) {
  std::vector<float> x{0};
  for (float v = 0x1p-40F; v < bound; v *= 1 + 0x1p-12F) {
    x.push_back(v);
    x.push_back(-v);
  }
  return x;
}

TEST_CASE("activations and their slopes are exact to 8 units of the last place", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const PointLoops& loops = PointLoopsFor(isa);
    for (const Curve& curve : Curves()) {
      const bool is_gelu = std::string(curve.name) == "gelu";
      // Beyond, a sigmoid and its slope are no normal floats; gelu of -13 is -1e-37.
      const float bound = is_gelu ? 12.9F : 43;
      const std::vector<float> x = Sweep(bound);
      const std::vector<float> y = Apply(loops, curve, x);
      const std::vector<float> dx = ApplyGradient(loops, curve, x, std::vector<float>(x.size(), 1));
      double worst = 0;
      double worst_slope = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto at = static_cast<double>(x[i]);
        worst = std::max(worst, test::Units(y[i], curve.value(at)));
        // The slope of gelu is a sum that crosses 0: units of its larger part.
        const double part = is_gelu ? 0.5 * std::erfc(-at / std::sqrt(2.0)) : 0;
        const double other = is_gelu ? std::abs(at) * std::exp(-at * at / 2) * 0.3989 : 0;
        worst_slope = std::max(
            worst_slope, test::Units(dx[i], curve.slope(at), std::max({part, other, 0x1p-126})));
      }
      INFO(IsaName(isa) << ", " << curve.name << ": " << worst << ", slope " << worst_slope);
      CHECK(worst <= 8);
      CHECK(worst_slope <= 8);
    }
  }
}

TEST_CASE("far from 0 an activation is its limit", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const PointLoops& loops = PointLoopsFor(isa);
    INFO(IsaName(isa));
    const float far = 1e30F;
    CHECK(Apply(loops, Curves()[0], {far, -far, 20, -20}) == std::vector<float>{1, -1, 1, -1});
    const std::vector<float> sigmoid = Apply(loops, Curves()[1], {far, -far});
    CHECK(sigmoid[0] == 1);
    CHECK(std::abs(sigmoid[1]) < 2e-38F);
    const std::vector<float> gelu = Apply(loops, Curves()[2], {far, 20, -20});
    CHECK(gelu[0] == far);
    CHECK(gelu[1] == 20);
    CHECK(std::abs(gelu[2]) < 1e-36F);
    for (const Curve& curve : Curves()) {
      const std::vector<float> slope = ApplyGradient(loops, curve, {-20, 20}, {1, 1});
      const bool is_gelu = std::string(curve.name) == "gelu";
      CHECK(std::abs(slope[0]) < 3e-9F);
      CHECK(std::abs(slope[1] - (is_gelu ? 1 : 0)) < 3e-9F);
    }
  }
}

TEST_CASE("known values of activations", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const PointLoops& loops = PointLoopsFor(isa);
    INFO(IsaName(isa));
    CHECK(Apply(loops, Curves()[0], {0})[0] == 0);
    CHECK(std::abs(Apply(loops, Curves()[0], {0.5F})[0] - 0.46211716F) < 6e-8F);
    CHECK(Apply(loops, Curves()[1], {0})[0] == 0.5F);
    CHECK(std::abs(Apply(loops, Curves()[1], {1})[0] - 0.73105858F) < 6e-8F);
    CHECK(Apply(loops, Curves()[2], {0})[0] == 0);
    CHECK(std::abs(Apply(loops, Curves()[2], {1})[0] - 0.84134475F) < 1.2e-7F);
    CHECK(std::abs(Apply(loops, Curves()[2], {-1})[0] + 0.15865525F) < 3e-8F);
  }
}

TEST_CASE("a NaN stays one in every activation", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const PointLoops& loops = PointLoopsFor(isa);
    INFO(IsaName(isa));
    std::vector<float> y{0};
    loops.relu({&kNan, 1, 1, 1, y.data(), 1});
    CHECK(std::isnan(y[0]));
    for (const Curve& curve : Curves()) {
      INFO(curve.name);
      CHECK(std::isnan(Apply(loops, curve, {kNan})[0]));
      CHECK(std::isnan(ApplyGradient(loops, curve, {kNan}, {1})[0]));
      CHECK(std::isnan(ApplyGradient(loops, curve, {0.5F}, {kNan})[0]));
    }
  }
}

TEST_CASE("a row of any size is done to its end and no further", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const PointLoops& loops = PointLoopsFor(isa);
    for (const std::size_t n : test::Sizes{0, 1, 2, 7, 15, 16, 17, 33}) {
      constexpr std::size_t kRows = 3;
      const std::size_t stride = n + 5;
      test::Unaligned x(test::RandomFloats(kRows * stride, n));
      test::Unaligned y(std::vector<float>(kRows * stride, 77));
      loops.relu({x.data(), stride, kRows, n, y.data(), stride});
      for (std::size_t i = 0; i < kRows * stride; ++i) {
        INFO(IsaName(isa) << ", " << n << " values, place " << i);
        const float expected = i % stride < n ? std::max(0.0F, x.data()[i]) : 77;
        REQUIRE(y.data()[i] == expected);
      }
      for (const Curve& curve : Curves()) {
        test::Unaligned dx(std::vector<float>(kRows * stride, 77));
        (loops.*curve.forward)({x.data(), stride, kRows, n, y.data(), stride});
        (loops.*
         curve.gradient)({y.data(), stride, x.data(), stride, kRows, n, dx.data(), stride, true});
        for (std::size_t i = 0; i < kRows * stride; ++i) {
          INFO(IsaName(isa) << ", " << curve.name << ", " << n << " values, place " << i);
          const auto at = static_cast<double>(x.data()[i]);
          const double value = curve.value(at);
          const double slope = at > 0 ? value * curve.slope(at) : 0;
          const bool is_inside = i % stride < n;
          REQUIRE(std::abs(static_cast<double>(y.data()[i]) - (is_inside ? value : 77)) < 5e-7);
          REQUIRE(std::abs(static_cast<double>(dx.data()[i]) - (is_inside ? slope : 77)) < 5e-7);
        }
      }
    }
  }
}

TEST_CASE("the gradient through activations is the slope of the loss", "[unit]") {
  for (const char* kind : {"relu", "tanh", "sigmoid", "gelu"}) {
    for (const unsigned width : {1U, 2U, 7U, 15U, 16U, 17U, 33U}) {
      // Behind a dense layer that gives the gradient of the activation's x; behind a ReLU that
      // stands alone; and at the end of the model.
      const auto spec = test::LayerSpec(
          {3}, {"dense " + std::to_string(width), kind, "relu", "relu", kind, "dense 3", kind});
      const auto params = test::RandomFloats(spec.layout()->values(), width, 0.9F);
      test::CheckAgainstReference(spec, params, test::BatchFor(spec, 5, width));
      test::CheckSinks(spec, params, test::BatchFor(spec, 5, width));
    }
  }
}

TEST_CASE("activations of images and sequences act on every value", "[unit]") {
  for (const char* kind : {"relu", "tanh", "sigmoid", "gelu"}) {
    const auto image = test::LayerSpec({2, 3, 5}, {kind, "dense 4", kind, "dense 3"});
    test::CheckAgainstReference(image, test::RandomFloats(image.layout()->values(), 1),
                                test::BatchFor(image, 3, 2));
    const auto sequence = test::LayerSpec({5, 3}, {"dense 4", kind, "dense 3"});
    test::CheckAgainstReference(sequence, test::RandomFloats(sequence.layout()->values(), 1),
                                test::BatchFor(sequence, 3, 2));
  }
}

}  // namespace
}  // namespace skep::kernels
