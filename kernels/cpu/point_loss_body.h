// Losses of single outputs, written once over `Vector`: include after point_body.h.
#pragma once

#include "kernels/point_loops.h"

namespace skep::kernels {
namespace {

// ln(1 + x) for 0 <= x <= 1, to 1e-11 of it: 2 artanh(x / (2 + x)). NaN stays NaN.
inline double LogOfOnePlus(double x) {
  const double s = x / (2 + x);
  const double z = s * s;
  double series = 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  series = series * z + 1.0;
  return 2 * s * series;
}

// Outputs of one vector and their targets.
struct Targets {
  Targets(const PointLoss& op, std::size_t row)
      : label(op.labels[row]), is_single(op.columns == 1) {}
  // Of the outputs from column `c`.
  void Fill(std::size_t c, float (&target)[kLanes]) const {
    for (std::size_t i = 0; i < kLanes; ++i) target[i] = 0;
    if (is_single) {
      target[0] = static_cast<float>(label);
      return;
    }
    const std::size_t place = static_cast<std::size_t>(label) - c;  // wraps below c
    if (place < kLanes) target[place] = 1;
  }
  std::int32_t label;
  bool is_single;
};

// loss(outputs, target, lanes) adds up the losses of a vector and writes its gradients by the
// outputs, not yet scaled.
template <class VectorLoss>
inline double SumLosses(const PointLoss& op, const VectorLoss& loss) {
  double sum = 0;
  for (std::size_t r = 0; r < op.rows; ++r) {
    float* row = op.outputs + r * op.stride;
    const bool counts = op.labels[r] >= 0;
    const Targets targets(op, r);
    double of_row = 0;
    for (std::size_t c = 0; c < op.columns; c += kLanes) {
      const std::size_t count = Least(kLanes, op.columns - c);
      const Mask lanes = Vector::FirstLanes(count);
      Reg gradient = Vector::Zero();
      if (counts) {
        float target[kLanes];
        targets.Fill(c, target);
        of_row += loss(Vector::Load(row + c, lanes), Vector::Load(target), count, gradient);
        gradient = Vector::Mul(gradient, Vector::Set(op.scale));
      }
      if (op.gradient) Vector::Store(row + c, gradient, lanes);
    }
    sum += of_row;
  }
  return sum;
}

double SigmoidLoss(const PointLoss& op) {
  return SumLosses(op, [](Reg z, Reg target, std::size_t count, Reg& gradient) {
    gradient = Vector::Sub(Sigmoid(z), target);
    // max(z, 0) - z target + ln(1 + e^-|z|).
    float power[kLanes];
    float linear[kLanes];
    Vector::Store(power, Exp(Negative(Magnitude(z))));
    Vector::Store(linear, Vector::Sub(Vector::Max(Vector::Zero(), z), Vector::Mul(z, target)));
    double loss[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      loss[i] = static_cast<double>(linear[i]) + LogOfOnePlus(static_cast<double>(power[i]));
    }
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += loss[i];
    return sum;
  });
}

double SquaredLoss(const PointLoss& op) {
  return SumLosses(op, [](Reg z, Reg target, std::size_t count, Reg& gradient) {
    const Reg error = Vector::Sub(z, target);
    gradient = Vector::Add(error, error);
    float errors[kLanes];
    Vector::Store(errors, error);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += static_cast<double>(errors[i]) * static_cast<double>(errors[i]);
    }
    return sum;
  });
}

}  // namespace
}  // namespace skep::kernels
