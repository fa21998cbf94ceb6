#include <cmath>
#include <limits>

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
        worst_slope = std::max(worst_slope, test::Units(dx[i], curve.slope(at),
                                                        std::max({part, other, 0x1p-126})));
      }
      INFO(IsaName(isa) << ", " << curve.name << ": " << worst << ", slope " << worst_slope);
      CHECK(worst <= 8);
      CHECK(worst_slope <= 8);
      WARN(IsaName(isa) << ", " << curve.name << ": " << worst << ", slope " << worst_slope);
    }
  }
}

}  // namespace
}  // namespace skep::kernels
