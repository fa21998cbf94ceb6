// Functions of one float that a device and a host both have.
//
// Within 4 units in the last place on both (CUDA C++ Programming Guide, mathematical functions);
// not equal bit for bit. For kernel bodies.
#pragma once

#include <math.h>

#include "kernels/body/device_ptr.h"

namespace skep::kernels::body {

SKEP_HD inline float Exp(float x) {
  return expf(x);
}
SKEP_HD inline float Log(float x) {
  return logf(x);
}
SKEP_HD inline float Log1p(float x) {
  return log1pf(x);
}
SKEP_HD inline float Tanh(float x) {
  return tanhf(x);
}
SKEP_HD inline float Sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}
SKEP_HD inline float Root(float x) {
  return sqrtf(x);
}
// Of the standard normal distribution.
SKEP_HD inline float NormalDensity(float x) {
  return 0.39894228040143268F * expf(-0.5F * x * x);
}
SKEP_HD inline float NormalProbability(float x) {
  return 0.5F * erfcf(-0.70710678118654752F * x);
}

}  // namespace skep::kernels::body
