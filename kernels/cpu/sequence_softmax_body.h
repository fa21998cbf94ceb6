// The softmax of attention's scores, written once over `Vector`: include after exp_body.h.
#pragma once

#include "kernels/sequence_loops.h"

namespace skep::kernels {
namespace {

float SumOfLanes(Reg v) {
  const Vector::Quad quad = Vector::Sums(v, Vector::Zero(), Vector::Zero(), Vector::Zero());
  float sum[4];
  Vector::QuadStore(sum, quad);
  return sum[0];
}

std::size_t VisibleColumns(std::size_t visible, std::size_t row, std::size_t columns) {
  return visible == 0 ? columns : Least(visible + row, columns);
}

void SoftmaxOfRow(float* row, std::size_t count, std::size_t columns, float scale) {
  const float lowest = -__builtin_inff();
  Reg most = Vector::Set(lowest);
  for (std::size_t n = 0; n < count; n += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, count - n));
    most = Vector::Max(most, Vector::LoadOr(row + n, lanes, lowest));
  }
  const Reg largest = Vector::Set(Vector::Largest(most));
  const Reg factor = Vector::Set(scale);
  Reg sum = Vector::Zero();
  for (std::size_t n = 0; n < count; n += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, count - n));
    const Reg value = Vector::Keep(
        Exp(Vector::Mul(factor, Vector::Sub(Vector::Load(row + n, lanes), largest))), lanes);
    Vector::Store(row + n, value, lanes);
    sum = Vector::Add(sum, value);
  }
  const Reg share = Vector::Set(1.0F / SumOfLanes(sum));
  for (std::size_t n = 0; n < columns; n += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, columns - n));
    const Mask seen = Vector::FirstLanes(n < count ? Least(kLanes, count - n) : 0);
    const Reg value = Vector::Keep(Vector::Mul(Vector::Load(row + n, lanes), share), seen);
    Vector::Store(row + n, value, lanes);
  }
}

void Softmax(const ScoreSoftmax& op) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    SoftmaxOfRow(op.scores + r * op.row, VisibleColumns(op.visible, r, op.columns), op.columns,
                 op.scale);
  }
}

void SoftmaxGradient(const ScoreSoftmaxGradient& op) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* p = op.probabilities + r * op.row;
    float* d = op.dscores + r * op.row;
    const std::size_t count = VisibleColumns(op.visible, r, op.columns);
    Reg sum = Vector::Zero();
    for (std::size_t n = 0; n < count; n += kLanes) {
      const Mask lanes = Vector::FirstLanes(Least(kLanes, count - n));
      sum = Vector::Fma(Vector::Load(p + n, lanes), Vector::Load(d + n, lanes), sum);
    }
    const Reg mean = Vector::Set(SumOfLanes(sum));
    const Reg scale = Vector::Set(op.scale);
    for (std::size_t n = 0; n < op.columns; n += kLanes) {
      const Mask lanes = Vector::FirstLanes(Least(kLanes, op.columns - n));
      const Mask seen = Vector::FirstLanes(n < count ? Least(kLanes, count - n) : 0);
      const Reg slope =
          Vector::Mul(Vector::Load(p + n, lanes), Vector::Sub(Vector::Load(d + n, lanes), mean));
      Vector::Store(d + n, Vector::Keep(Vector::Mul(scale, slope), seen), lanes);
    }
  }
}

}  // namespace
}  // namespace skep::kernels
