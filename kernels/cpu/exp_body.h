// The exponential and what follows from it, written once over `Vector`: include after base_body.h.
//
// exp and log are our own: those of the C library differ in last bits from one version to the next,
// and these do not. "Within n units" is of the last place of the exact result, on every set. The
// coefficients are least maximum fits of relative error.
#pragma once

#include <cstddef>

namespace skep::kernels {
namespace {

// e^x = 2^n e^rest, |rest| <= 0.347.
struct Exponent {
  Reg shifted;  // n in the low mantissa bits
  Reg rest;
};

// n = the nearest integer of x / ln 2. x is taken as -87 below that.
inline Exponent SplitExponent(Reg x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low mantissa bits.
  const Reg rounder = Vector::Set(0x1.8p23F);
  const Reg clamped = Vector::Max(Vector::Set(-87.0F), x);
  const Reg shifted = Vector::Fma(clamped, Vector::Set(0x1.715476p+0F), rounder);
  const Reg n = Vector::Sub(shifted, rounder);
  // ln 2 in two parts: the product with the first is exact.
  const Reg rest = Vector::Fma(n, Vector::Set(-0x1.7f7d1cp-20F),
                               Vector::Fma(n, Vector::Set(-0x1.62e4p-1F), clamped));
  return {shifted, rest};
}

inline Reg Power(const Exponent& exponent) {
  const Reg r = exponent.rest;
  Reg power = Vector::Set(1.0F / 5040);
  power = Vector::Fma(power, r, Vector::Set(1.0F / 720));
  power = Vector::Fma(power, r, Vector::Set(1.0F / 120));
  power = Vector::Fma(power, r, Vector::Set(1.0F / 24));
  power = Vector::Fma(power, r, Vector::Set(1.0F / 6));
  power = Vector::Fma(power, r, Vector::Set(0.5F));
  power = Vector::Fma(power, r, Vector::Set(1.0F));
  power = Vector::Fma(power, r, Vector::Set(1.0F));
  return Vector::TimesPowerOfTwo(power, exponent.shifted);
}

// e^x for x <= 0, within 2 units in the last place; below -87, e^-87 (1.6e-38). NaN stays NaN.
inline Reg Exp(Reg x) {
  return Power(SplitExponent(x));
}

inline Reg Negative(Reg x) {
  return Vector::Sub(Vector::Zero(), x);
}

inline Reg Magnitude(Reg x) {
  return Vector::Max(x, Negative(x));
}

// 1 / (1 + e^-x), within 4 units; below -87, as e^x. NaN stays NaN.
inline Reg Sigmoid(Reg x) {
  const Reg power = Exp(Negative(Magnitude(x)));
  const Reg above = Vector::Div(Vector::Set(1), Vector::Add(Vector::Set(1), power));
  return Vector::WherePositive(x, above, Vector::Mul(power, above));
}

// Its derivative: not from its value, which is 1 long before this is 0. Within 5 units.
inline Reg SigmoidSlope(Reg x) {
  const Reg power = Exp(Negative(Magnitude(x)));
  const Reg above = Vector::Div(Vector::Set(1), Vector::Add(Vector::Set(1), power));
  return Vector::Mul(Vector::Mul(power, above), above);
}

// Within 4 units. NaN stays NaN.
inline Reg Tanh(Reg x) {
  const Reg size = Magnitude(x);
  const Reg power = Exp(Vector::Mul(Vector::Set(-2), size));
  const Reg large = Vector::Div(Vector::Sub(Vector::Set(1), power),  //
                                Vector::Add(Vector::Set(1), power));
  // x + x^3 p(x^2) below 0.63, where 1 - e^-2x would cancel.
  const Reg square = Vector::Mul(x, x);
  Reg series = Vector::Set(-0x1.74330ep-8F);
  series = Vector::Fma(series, square, Vector::Set(0x1.51ceb4p-6F));
  series = Vector::Fma(series, square, Vector::Set(-0x1.b83060p-5F));
  series = Vector::Fma(series, square, Vector::Set(0x1.1106d8p-3F));
  series = Vector::Fma(series, square, Vector::Set(-0x1.555532p-2F));
  const Reg small = Vector::Fma(Vector::Mul(x, square), series, x);
  const Reg is_large = Vector::Sub(size, Vector::Set(0.625F));
  return Vector::WherePositive(is_large, Vector::WherePositive(x, large, Negative(large)), small);
}

// Its derivative, likewise from x. Within 8 units; below 87 / 2 away from 0.
inline Reg TanhSlope(Reg x) {
  return Vector::Mul(Vector::Set(4), SigmoidSlope(Vector::Add(x, x)));
}

// Of the standard normal distribution at x, |x| taken as 13.1875 above that.
struct Normal {
  Reg below;    // Phi(x), the probability of a value below x
  Reg density;  // e^(-x^2 / 2) / sqrt(2 pi)
};

// Both within 6 units: also Phi far below 0, where it is no difference of larger values. NaN stays
// NaN.
inline Normal NormalAt(Reg x) {
  const Reg most = Vector::Set(-13.1875F);
  const Reg size = Negative(Vector::Max(most, Negative(Magnitude(x))));
  // x^2 in two parts: `coarse` is a multiple of 2^-8, its square exact, and the rest small.
  const Reg rounder = Vector::Set(0x1.8p15F);
  const Reg coarse = Vector::Sub(Vector::Add(size, rounder), rounder);
  const Reg fine = Vector::Mul(Vector::Sub(size, coarse), Vector::Add(size, coarse));
  const Reg minus_half = Vector::Set(-0.5F);
  Exponent exponent = SplitExponent(Vector::Mul(Vector::Mul(coarse, coarse), minus_half));
  exponent.rest = Vector::Fma(fine, minus_half, exponent.rest);
  const Reg power = Power(exponent);
  // (1 - Phi(t)) e^(t^2 / 2) for t >= 0 is a polynomial of (t - 3) / (t + 3).
  const Reg q = Vector::Div(Vector::Sub(size, Vector::Set(3)), Vector::Add(size, Vector::Set(3)));
  Reg ratio = Vector::Set(0x1.c64014p-15F);
  ratio = Vector::Fma(ratio, q, Vector::Set(0x1.e6b230p-14F));
  ratio = Vector::Fma(ratio, q, Vector::Set(-0x1.646c40p-12F));
  ratio = Vector::Fma(ratio, q, Vector::Set(-0x1.01ff64p-10F));
  ratio = Vector::Fma(ratio, q, Vector::Set(0x1.7cb9a6p-9F));
  ratio = Vector::Fma(ratio, q, Vector::Set(0x1.91e0f6p-8F));
  ratio = Vector::Fma(ratio, q, Vector::Set(-0x1.7a9458p-5F));
  ratio = Vector::Fma(ratio, q, Vector::Set(0x1.f8baccp-4F));
  ratio = Vector::Fma(ratio, q, Vector::Set(-0x1.a6b66ap-3F));
  ratio = Vector::Fma(ratio, q, Vector::Set(0x1.f1b89cp-4F));
  const Reg tail = Vector::Mul(power, ratio);
  return {Vector::WherePositive(x, Vector::Sub(Vector::Set(1), tail), tail),
          Vector::Mul(power, Vector::Set(0.398942280F))};
}

// x Phi(x), exact GELU. NaN stays NaN.
inline Reg Gelu(Reg x) {
  return Vector::Mul(x, NormalAt(x).below);
}

inline Reg GeluSlope(Reg x) {
  const Normal normal = NormalAt(x);
  return Vector::Fma(x, normal.density, normal.below);
}

}  // namespace
}  // namespace skep::kernels
