// The exponential, written once over `Vector`: include after dense_body.h.
//
// exp and log are our own: those of the C library differ in last bits from one version to the next,
// and these do not.
#pragma once

#include <cstddef>

namespace skep::kernels {
namespace {

// e^x for x <= 0, within 2 units in the last place; below -87, e^-87 (1.6e-38). NaN stays NaN.
// n = the nearest integer of x / ln 2, e^x = 2^n e^r with a polynomial for e^r, |r| <= 0.347.
Reg Exp(Reg x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low mantissa bits.
  const Reg rounder = Vector::Set(0x1.8p23F);
  const Reg clamped = Vector::Max(Vector::Set(-87.0F), x);
  const Reg shifted = Vector::Fma(clamped, Vector::Set(0x1.715476p+0F), rounder);
  const Reg n = Vector::Sub(shifted, rounder);
  // ln 2 in two parts: the product with the first is exact.
  const Reg r = Vector::Fma(n, Vector::Set(-0x1.7f7d1cp-20F),
                            Vector::Fma(n, Vector::Set(-0x1.62e4p-1F), clamped));
  Reg power = Vector::Set(1.0F / 5040);
  power = Vector::Fma(power, r, Vector::Set(1.0F / 720));
  power = Vector::Fma(power, r, Vector::Set(1.0F / 120));
  power = Vector::Fma(power, r, Vector::Set(1.0F / 24));
  power = Vector::Fma(power, r, Vector::Set(1.0F / 6));
  power = Vector::Fma(power, r, Vector::Set(0.5F));
  power = Vector::Fma(power, r, Vector::Set(1.0F));
  power = Vector::Fma(power, r, Vector::Set(1.0F));
  return Vector::TimesPowerOfTwo(power, shifted);
}

}  // namespace
}  // namespace skep::kernels
