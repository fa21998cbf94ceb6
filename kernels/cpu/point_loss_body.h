// Losses of single outputs, written once over `Vector` and `Wide`: include after point_body.h.
#pragma once

#include "kernels/point_loops.h"

namespace skep::kernels {
namespace {

// ln(1 + x) for 0 <= x <= 1, to 1e-11 of it: 2 artanh(x / (2 + x)). NaN stays NaN.
inline Wide LogOfOnePlus(Wide x) {
  const Wide s = Wide::Div(x, Wide::Add(x, Wide::Set(2)));
  const Wide z = Wide::Mul(s, s);
  Wide series = Wide::Set(2.0 / 19);
  series = Wide::Fma(series, z, Wide::Set(2.0 / 17));
  series = Wide::Fma(series, z, Wide::Set(2.0 / 15));
  series = Wide::Fma(series, z, Wide::Set(2.0 / 13));
  series = Wide::Fma(series, z, Wide::Set(2.0 / 11));
  series = Wide::Fma(series, z, Wide::Set(2.0 / 9));
  series = Wide::Fma(series, z, Wide::Set(2.0 / 7));
  series = Wide::Fma(series, z, Wide::Set(2.0 / 5));
  series = Wide::Fma(series, z, Wide::Set(2.0 / 3));
  series = Wide::Fma(series, z, Wide::Set(2));
  return Wide::Mul(s, series);
}

// The targets of the outputs from column `c`.
inline Reg TargetsFrom(const PointLoss& op, std::size_t row, std::size_t c) {
  const std::int32_t label = op.labels[row];
  if (op.columns == 1) return Vector::Set(static_cast<float>(label));
  // A 1 among zeros, read from where it falls into its place.
  float zeros[3 * kLanes] = {};
  zeros[kLanes] = 1;
  const std::size_t place = static_cast<std::size_t>(label) - c;  // wraps below c
  return Vector::Load(zeros + (place < kLanes ? kLanes - place : 2 * kLanes));
}

struct VectorLoss {
  Wide loss;
  Reg gradient;  // by the outputs
};

// loss(outputs, target, lanes) is a VectorLoss, 0 outside `lanes`.
template <class Loss>
inline double SumLosses(const PointLoss& op, const Loss& loss) {
  double sum = 0;
  for (std::size_t r = 0; r < op.rows; ++r) {
    float* row = op.outputs + r * op.stride;
    const bool counts = op.labels[r] >= 0;
    Wide of_row = Wide::Zero();
    ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
      Reg gradient = Vector::Zero();
      if (counts) {
        const VectorLoss part = loss(Vector::Load(row + c, lanes), TargetsFrom(op, r, c), lanes);
        of_row = Wide::Add(of_row, part.loss);
        gradient = Vector::Mul(part.gradient, Vector::Set(op.scale));
      }
      if (op.gradient) Vector::Store(row + c, gradient, lanes);
    });
    sum += of_row.Sum();
  }
  return sum;
}

double SigmoidLoss(const PointLoss& op) {
  return SumLosses(op, [](Reg z, Reg target, Mask lanes) {
    // max(z, 0) - z target + ln(1 + e^-|z|).
    const Reg power = Vector::Keep(Exp(Negative(Magnitude(z))), lanes);
    const Reg linear = Vector::Sub(Vector::Max(Vector::Zero(), z), Vector::Mul(z, target));
    return VectorLoss{Wide::Add(Wide::Of(linear), LogOfOnePlus(Wide::Of(power))),
                      Vector::Sub(Sigmoid(z), target)};
  });
}

double SquaredLoss(const PointLoss& op) {
  return SumLosses(op, [](Reg z, Reg target, Mask lanes) {
    const Reg error = Vector::Keep(Vector::Sub(z, target), lanes);
    return VectorLoss{Wide::Mul(Wide::Of(error), Wide::Of(error)), Vector::Add(error, error)};
  });
}

}  // namespace
}  // namespace skep::kernels
