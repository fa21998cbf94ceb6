// Softmax cross-entropy, written once over `Vector`: include after exp_body.h.
#pragma once

#include "kernels/training_loops.h"

namespace skep::kernels {
namespace {

// Rows whose logarithms are taken in one loop.
constexpr std::size_t kLossRows = 16;

// x[i] = ln x[i] for x >= 1, finite, in double; NaN stays NaN. x = 2^e m with m near 1, ln m = 2
// artanh((m - 1) / (m + 1)).
void TakeLogarithms(double (&x)[kLossRows]) {
  for (double& value : x) {
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof bits);
    // The exponent, still biased, as the low mantissa bits of 2^52: an integer made a double
    // without a conversion.
    std::uint64_t exponent_bits = (bits >> 52) | 0x4330000000000000U;
    bits = (bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U;
    double exponent = 0;
    double m = 0;
    __builtin_memcpy(&exponent, &exponent_bits, sizeof exponent);
    __builtin_memcpy(&m, &bits, sizeof m);
    exponent -= 0x1p52 + 1023;
    const bool is_above = m > 1.4142135623730951;
    m = is_above ? m * 0.5 : m;
    exponent = is_above ? exponent + 1 : exponent;
    const double s = (m - 1) / (m + 1);
    const double z = s * s;
    double series = 1.0 / 21;
    series = series * z + 1.0 / 19;
    series = series * z + 1.0 / 17;
    series = series * z + 1.0 / 15;
    series = series * z + 1.0 / 13;
    series = series * z + 1.0 / 11;
    series = series * z + 1.0 / 9;
    series = series * z + 1.0 / 7;
    series = series * z + 1.0 / 5;
    series = series * z + 1.0 / 3;
    series = series * z + 1.0;
    const double logarithm = exponent * 0.6931471805599453 + 2 * s * series;
    value = value == value ? logarithm : value;
  }
}

float SumOfLanes(Reg v) {
  const Vector::Quad quad = Vector::Sums(v, Vector::Zero(), Vector::Zero(), Vector::Zero());
  float sum[4];
  __builtin_memcpy(sum, &quad, sizeof sum);
  return sum[0];
}

struct RowSum {
  float largest;
  float exponentials;  // sum of e^(logit - largest)
};

// Leaves e^(logit - largest) in `row` if `keep`.
RowSum SumExponentials(float* row, std::size_t classes, bool keep) {
  Reg most = Vector::Set(-__builtin_inff());
  for (std::size_t c = 0; c < classes; c += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, classes - c));
    most = Vector::Max(most, Vector::LoadOr(row + c, lanes, -__builtin_inff()));
  }
  const float largest = Vector::Largest(most);
  Reg sum = Vector::Zero();
  for (std::size_t c = 0; c < classes; c += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, classes - c));
    const Reg value = Exp(Vector::Sub(Vector::Load(row + c, lanes), Vector::Set(largest)));
    if (keep) Vector::Store(row + c, value, lanes);
    sum = Vector::Add(sum, Vector::Keep(value, lanes));
  }
  return {largest, SumOfLanes(sum)};
}

std::size_t FirstLargest(const float* row, std::size_t classes) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < classes; ++c) best = row[c] > row[best] ? c : best;
  return best;
}

// Turns the exponentials in `row` into the gradient of this row's part of the mean loss.
void WriteGradient(float* row, std::size_t classes, std::size_t label, float sum, float per_row) {
  const Reg scale = Vector::Set(per_row / sum);
  for (std::size_t c = 0; c < classes; c += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, classes - c));
    Vector::Store(row + c, Vector::Mul(Vector::Load(row + c, lanes), scale), lanes);
  }
  row[label] -= per_row;
}

void ClearRow(float* row, std::size_t classes) {
  for (std::size_t c = 0; c < classes; c += kLanes) {
    Vector::Store(row + c, Vector::Zero(), Vector::FirstLanes(Least(kLanes, classes - c)));
  }
}

void AddLossOfRows(const SoftmaxLoss& op, std::size_t first, std::size_t rows, LossSum& total) {
  double logarithm[kLossRows];
  double margin[kLossRows];  // the label's logit - the largest
  bool is_right[kLossRows];
  for (double& value : logarithm) value = 1;
  for (std::size_t i = 0; i < rows; ++i) {
    float* row = op.logits + (first + i) * op.stride;
    margin[i] = 0;
    is_right[i] = false;
    if (op.labels[first + i] < 0) {
      if (op.gradient) ClearRow(row, op.classes);
      continue;
    }
    const auto label = static_cast<std::size_t>(op.labels[first + i]);
    is_right[i] = !op.gradient && FirstLargest(row, op.classes) == label;
    margin[i] = static_cast<double>(row[label]);
    const RowSum sum = SumExponentials(row, op.classes, op.gradient);
    margin[i] -= static_cast<double>(sum.largest);
    logarithm[i] = static_cast<double>(sum.exponentials);
    if (op.gradient) WriteGradient(row, op.classes, label, sum.exponentials, op.scale);
  }
  TakeLogarithms(logarithm);
  for (std::size_t i = 0; i < rows; ++i) {
    const double loss = logarithm[i] - margin[i];
    const bool is_number = loss == loss;
    total.loss += loss;
    total.correct += is_number && is_right[i] ? 1 : 0;
  }
}

LossSum Loss(const SoftmaxLoss& op) {
  LossSum total{0, 0};
  for (std::size_t first = 0; first < op.rows; first += kLossRows) {
    AddLossOfRows(op, first, Least(kLossRows, op.rows - first), total);
  }
  return total;
}

}  // namespace
}  // namespace skep::kernels
