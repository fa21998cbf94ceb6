// Norms, written once over `Vector` and `Wide`: include after point_body.h.
//
// Sums are taken in double: a column has as many values as a batch has places, and its mean may be
// far from 0 against its deviation. Even and odd rows go to two sums each, so that one addition
// need not wait for the one before.
#pragma once

#include "kernels/point_loops.h"

namespace skep::kernels {
namespace {

// x - mean, as exact as x is.
inline Reg Centred(Reg x, Reg mean_high, Reg mean_low) {
  return Vector::Sub(Vector::Sub(x, mean_high), mean_low);
}

// sums[i] = the sum over the rows of term i, for the columns from `c`. term(row, i) is a Wide.
template <std::size_t kTerms, class Terms>
inline void SumRows(std::size_t rows, const Terms& terms, Wide (&sums)[kTerms]) {
  Wide odd[kTerms];
  for (std::size_t i = 0; i < kTerms; ++i) sums[i] = odd[i] = Wide::Zero();
  std::size_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    terms(r, sums);
    terms(r + 1, odd);
  }
  if (r < rows) terms(r, sums);
  for (std::size_t i = 0; i < kTerms; ++i) sums[i] = Wide::Add(sums[i], odd[i]);
}

void SumColumns(const NormSums& op) {
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    Wide sums[1];
    SumRows<1>(
        op.rows,
        [&](std::size_t r, Wide(&sum)[1]) {
          sum[0] = Wide::Add(sum[0], Wide::Of(Vector::Load(op.x + r * op.x_stride + c, lanes)));
        },
        sums);
    sums[0].Store(op.first + c);
  });
}

void SumSquares(const NormSums& op) {
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    const Reg high = Vector::Load(op.mean_high + c, lanes);
    const Reg low = Vector::Load(op.mean_low + c, lanes);
    Wide sums[1];
    SumRows<1>(
        op.rows,
        [&](std::size_t r, Wide(&sum)[1]) {
          const Wide x =
              Wide::Of(Centred(Vector::Load(op.x + r * op.x_stride + c, lanes), high, low));
          sum[0] = Wide::Fma(x, x, sum[0]);
        },
        sums);
    sums[0].Store(op.second + c);
  });
}

void SumProducts(const NormSums& op) {
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    const Reg high = Vector::Load(op.mean_high + c, lanes);
    const Reg low = Vector::Load(op.mean_low + c, lanes);
    Wide sums[2];
    SumRows<2>(
        op.rows,
        [&](std::size_t r, Wide(&sum)[2]) {
          const Wide x =
              Wide::Of(Centred(Vector::Load(op.x + r * op.x_stride + c, lanes), high, low));
          const Wide dy = Wide::Of(Vector::Load(op.dy + r * op.dy_stride + c, lanes));
          sum[0] = Wide::Add(sum[0], dy);
          sum[1] = Wide::Fma(dy, x, sum[1]);
        },
        sums);
    sums[0].Store(op.first + c);
    sums[1].Store(op.second + c);
  });
}

void NormColumns(const ColumnNorm& op) {
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    const Reg high = Vector::Load(op.mean_high + c, lanes);
    const Reg low = Vector::Load(op.mean_low + c, lanes);
    const Reg scale = Vector::Load(op.scale + c, lanes);
    const Reg bias = Vector::Load(op.bias + c, lanes);
    for (std::size_t r = 0; r < op.rows; ++r) {
      const Reg x = Centred(Vector::Load(op.x + r * op.x_stride + c, lanes), high, low);
      Reg y = Vector::Fma(x, scale, bias);
      if (op.relu) y = Vector::Max(Vector::Zero(), y);
      Vector::Store(op.y + r * op.y_stride + c, y, lanes);
    }
  });
}

void NormColumnsGradient(const ColumnNormGradient& op) {
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    const Reg high = Vector::Load(op.mean_high + c, lanes);
    const Reg low = Vector::Load(op.mean_low + c, lanes);
    const Reg scale = Vector::Load(op.scale + c, lanes);
    const Reg slope = Vector::Load(op.slope + c, lanes);
    const Reg shift = Vector::Load(op.shift + c, lanes);
    for (std::size_t r = 0; r < op.rows; ++r) {
      const Reg x = Vector::Load(op.x + r * op.x_stride + c, lanes);
      const Reg dy = Vector::Load(op.dy + r * op.dy_stride + c, lanes);
      Reg dx = Vector::Fma(dy, scale, Vector::Fma(Centred(x, high, low), slope, shift));
      if (op.gate) dx = Vector::WherePositive(x, dx);
      Vector::Store(op.dx + r * op.dx_stride + c, dx, lanes);
    }
  });
}

// Two floats whose sum is the double, to 48 bits.
inline void Split(double value, float& high, float& low) {
  high = static_cast<float>(value);
  low = static_cast<float>(value - static_cast<double>(high));
}

inline Moments MomentsOfRow(const float* x, std::size_t columns, double epsilon) {
  const auto count = static_cast<double>(columns);
  Wide sum = Wide::Zero();
  ForEachVector(columns, [&](std::size_t c, Mask lanes) {
    sum = Wide::Add(sum, Wide::Of(Vector::Load(x + c, lanes)));
  });
  Moments moments;
  Split(sum.Sum() / count, moments.mean_high, moments.mean_low);
  const Reg high = Vector::Set(moments.mean_high);
  const Reg low = Vector::Set(moments.mean_low);
  Wide squares = Wide::Zero();
  ForEachVector(columns, [&](std::size_t c, Mask lanes) {
    const Reg centred = Centred(Vector::Load(x + c, lanes), high, low);
    const Wide wide = Wide::Of(Vector::Keep(centred, lanes));
    squares = Wide::Fma(wide, wide, squares);
  });
  moments.inverse = static_cast<float>(1 / __builtin_sqrt(squares.Sum() / count + epsilon));
  return moments;
}

void NormRows(const RowNorm& op) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* x = op.x + r * op.x_stride;
    float* y = op.y + r * op.y_stride;
    const Moments moments = MomentsOfRow(x, op.columns, op.epsilon);
    op.moments[r] = moments;
    const Reg high = Vector::Set(moments.mean_high);
    const Reg low = Vector::Set(moments.mean_low);
    const Reg inverse = Vector::Set(moments.inverse);
    ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
      const Reg unit = Vector::Mul(Centred(Vector::Load(x + c, lanes), high, low), inverse);
      Reg value =
          Vector::Fma(unit, Vector::Load(op.weight + c, lanes), Vector::Load(op.bias + c, lanes));
      if (op.relu) value = Vector::Max(Vector::Zero(), value);
      Vector::Store(y + c, value, lanes);
    });
  }
}

// With g = dy weight and u = (x - mean) inverse: dx = inverse (g - mean of g - u mean of g u).
inline void RowInputGradient(const RowNormGradient& op, std::size_t row) {
  const float* x = op.x + row * op.x_stride;
  const float* dy = op.dy + row * op.dy_stride;
  float* dx = op.dx + row * op.dx_stride;
  const Moments& moments = op.moments[row];
  const Reg high = Vector::Set(moments.mean_high);
  const Reg low = Vector::Set(moments.mean_low);
  // A single value is its own mean, whatever it is: no gradient, not even of rounding.
  const Reg inverse = Vector::Set(op.columns > 1 ? moments.inverse : 0);
  Wide sum = Wide::Zero();
  Wide product = Wide::Zero();
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    // Lanes past the row have g = 0.
    const Reg g = Vector::Mul(Vector::Load(dy + c, lanes), Vector::Load(op.weight + c, lanes));
    const Reg unit = Vector::Mul(Centred(Vector::Load(x + c, lanes), high, low), inverse);
    sum = Wide::Add(sum, Wide::Of(g));
    product = Wide::Fma(Wide::Of(g), Wide::Of(Vector::Keep(unit, lanes)), product);
  });
  const auto count = static_cast<double>(op.columns);
  const Reg mean = Vector::Set(static_cast<float>(sum.Sum() / count));
  const Reg slope = Vector::Set(static_cast<float>(-product.Sum() / count));
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    const Reg value = Vector::Load(x + c, lanes);
    const Reg g = Vector::Mul(Vector::Load(dy + c, lanes), Vector::Load(op.weight + c, lanes));
    const Reg unit = Vector::Mul(Centred(value, high, low), inverse);
    Reg gradient = Vector::Mul(inverse, Vector::Fma(unit, slope, Vector::Sub(g, mean)));
    if (op.gate) gradient = Vector::WherePositive(value, gradient);
    Vector::Store(dx + c, gradient, lanes);
  });
}

void NormRowsGradient(const RowNormGradient& op) {
  for (std::size_t r = 0; op.dx != nullptr && r < op.rows; ++r) RowInputGradient(op, r);
  ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
    Wide sums[2];
    SumRows<2>(
        op.rows,
        [&](std::size_t r, Wide(&sum)[2]) {
          const Moments& moments = op.moments[r];
          const Reg centred =
              Centred(Vector::Load(op.x + r * op.x_stride + c, lanes),
                      Vector::Set(moments.mean_high), Vector::Set(moments.mean_low));
          const Reg unit = Vector::Mul(centred, Vector::Set(moments.inverse));
          const Wide dy = Wide::Of(Vector::Load(op.dy + r * op.dy_stride + c, lanes));
          sum[0] = Wide::Fma(dy, Wide::Of(unit), sum[0]);
          sum[1] = Wide::Add(sum[1], dy);
        },
        sums);
    sums[0].Store(op.weight_sums + c);
    sums[1].Store(op.bias_sums + c);
  });
}

void AddSumsToGradient(const SumsToGradient& op) {
  ForEachVector(op.count, [&](std::size_t c, Mask lanes) {
    Reg gradient = Wide::Load(op.sums + c).Narrow();
    if (op.accumulate) {
      gradient = Vector::Fma(Vector::Set(op.scale), gradient, Vector::Load(op.values + c, lanes));
    }
    Vector::Store(op.values + c, gradient, lanes);
  });
}

}  // namespace
}  // namespace skep::kernels
