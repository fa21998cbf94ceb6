// Bound: a value in double precision, and how far single precision may be from it.
//
// Formulas of references are written on it as they stand; each operation adds what its rounding may
// cost: half a unit in the last place, and 8 units for exp, tanh, erf and their kin. So the
// tolerance of a formula follows from the formula. A sum of K products comes out as K 2^-24 sum |a
// b| and a little more, as for matrix products. For tests of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace skep::gpu {

inline constexpr double kUnit = 0x1p-24;  // half a unit in the last place of a float in [1, 2)
inline constexpr double kCurveUnits = 16;
inline constexpr double kLeastUnits = 8;  // 4 units in the last place, of every operation
inline constexpr double kSmallest = 0x1p-147;

struct Bound {
  double value = 0;
  double error = 0;  // in kUnit, absolute

  Bound() = default;
  Bound(double exact) : value(exact) {}  // NOLINT: numbers in formulas are exact
  Bound(double v, double e) : value(v), error(e) {}

  [[nodiscard]] double Tolerance() const {
    return std::max(error, kLeastUnits * std::abs(value)) * 1.001 * kUnit + kSmallest;
  }
};

inline Bound operator+(const Bound& a, const Bound& b) {
  const double v = a.value + b.value;
  return {v, a.error + b.error + std::abs(v)};
}
inline Bound operator-(const Bound& a, const Bound& b) {
  const double v = a.value - b.value;
  return {v, a.error + b.error + std::abs(v)};
}
inline Bound operator-(const Bound& a) {
  return {-a.value, a.error};
}
inline Bound operator*(const Bound& a, const Bound& b) {
  const double v = a.value * b.value;
  return {v, std::abs(a.value) * b.error + std::abs(b.value) * a.error + std::abs(v)};
}
inline Bound operator/(const Bound& a, const Bound& b) {
  const double v = a.value / b.value;
  return {v, (a.error + std::abs(v) * b.error) / std::abs(b.value) + std::abs(v)};
}

inline Bound Exp(const Bound& a) {
  const double v = std::exp(a.value);
  return {v, v * (a.error + kCurveUnits)};
}
inline Bound Log(const Bound& a) {
  const double v = std::log(a.value);
  return {v, a.error / std::abs(a.value) + kCurveUnits * std::abs(v)};
}
inline Bound Log1p(const Bound& a) {
  const double v = std::log1p(a.value);
  return {v, a.error / (1 + a.value) + kCurveUnits * std::abs(v)};
}
inline Bound Tanh(const Bound& a) {
  const double v = std::tanh(a.value);
  return {v, (1 - v * v) * a.error + kCurveUnits * std::abs(v)};
}
inline Bound Sigmoid(const Bound& a) {
  return Bound(1) / (Bound(1) + Exp(-a));
}
inline Bound Root(const Bound& a) {
  const double v = std::sqrt(a.value);
  return {v, (v > 0 ? a.error / (2 * v) : std::sqrt(a.error)) + v};
}
// Of the standard normal distribution. Its argument x / sqrt 2 is rounded twice.
inline Bound NormalProbability(const Bound& x) {
  const double v = 0.5 * std::erfc(-x.value / std::sqrt(2.0));
  const double density = 0.3989422804014327 * std::exp(-0.5 * x.value * x.value);
  return {v, density * (x.error + 2 * std::abs(x.value)) + kCurveUnits * v};
}
inline Bound NormalDensity(const Bound& x) {
  return Bound(0.3989422804014327, 0.4) * Exp(Bound(-0.5) * x * x);
}
inline const Bound& Larger(const Bound& a, const Bound& b) {
  return b.value > a.value ? b : a;
}

}  // namespace skep::gpu
