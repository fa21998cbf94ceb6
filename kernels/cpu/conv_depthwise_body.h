// Convolutions whose outputs each have a channel of their own, after conv_body.h: vectors run over
// the channels of a place.
#pragma once

#include "kernels/conv_loops.h"

namespace skep::kernels {
namespace {

// Places that share a load of a weight.
constexpr std::size_t kDepthwisePlaces = kLanes == 16 ? 8 : 4;

template <std::size_t P>
void DepthwiseTile(const Correlation& op, const ConvTileRange& at) {
  const std::size_t row = VectorsFor(op.outputs) * kLanes;
  Reg sum[P][1];
  const Reg start = at.bias == nullptr ? Vector::Zero() : Vector::Load(at.bias, at.last);
#pragma GCC unroll 8
  for (std::size_t p = 0; p < P; ++p) sum[p][0] = start;
  const float* w = at.weights;
  for (std::size_t i = 0; i < op.taps.tap_rows; ++i) {
    const float* x = at.x + i * op.taps.tap_row;
    for (std::size_t j = 0; j < op.taps.tap_columns; ++j, x += op.taps.tap_column, w += row) {
      const Reg weight = Vector::Load(w);
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) {
        sum[p][0] = Vector::Fma(Vector::Load(x + p * op.x_column, at.last), weight, sum[p][0]);
      }
    }
  }
  FinishTile<P, 1>(op, at, sum);
}

template <std::size_t P>
ConvTileFunction DepthwiseTileOf(std::size_t places) {
  if constexpr (P > 1) {
    if (places < P) return DepthwiseTileOf<P - 1>(places);
  }
  return DepthwiseTile<P>;
}

void CorrelateDepthwise(const Correlation& op) {
  const Pieces places(op.columns, kDepthwisePlaces);
  for (std::size_t row = 0; row < op.rows; ++row) {
    std::size_t column = 0;
    for (std::size_t i = 0; i < places.count; ++i) {
      const ConvTileFunction tile = DepthwiseTileOf<kDepthwisePlaces>(places.Size(i));
      for (std::size_t o = 0; o < op.outputs; o += kLanes) {
        tile(op, {.x = op.x + row * op.x_row + column * op.x_column + o,
                  .weights = op.weights + o,
                  .y = row * op.y_row + column * op.y_column + o,
                  .bias = op.bias == nullptr ? nullptr : op.bias + o,
                  .last = Vector::FirstLanes(Least(kLanes, op.outputs - o))});
      }
      column += places.Size(i);
    }
  }
}

// Taps of a row that share a load of dy.
constexpr std::size_t kDepthwiseTaps = 8;

template <std::size_t T>
void DepthwiseSumsTile(const ConvSums& op, const SumsTileRange& at) {
  Reg sum[T];
#pragma GCC unroll 8
  for (std::size_t t = 0; t < T; ++t) sum[t] = Vector::Zero();
  for (std::size_t row = 0; row < op.rows; ++row) {
    const float* x = at.x + row * op.x_row;
    const float* dy = at.dy + row * op.dy_row;
    for (std::size_t c = 0; c < op.columns; ++c, x += op.x_column, dy += op.dy_column) {
      const Reg gradient = Vector::Load(dy, at.last);
#pragma GCC unroll 8
      for (std::size_t t = 0; t < T; ++t) {
        sum[t] = Vector::Fma(Vector::Load(x + t * op.taps.tap_column, at.last), gradient, sum[t]);
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t t = 0; t < T; ++t) {
    float* to = at.sums + t * at.row;
    Vector::Store(to, op.is_first ? sum[t] : Vector::Add(Vector::Load(to), sum[t]));
  }
}

template <std::size_t T>
SumsTileFunction DepthwiseSumsTileOf(std::size_t taps) {
  if constexpr (T > 1) {
    if (taps < T) return DepthwiseSumsTileOf<T - 1>(taps);
  }
  return DepthwiseSumsTile<T>;
}

void SumsDepthwise(const ConvSums& op) {
  const std::size_t row = VectorsFor(op.outputs) * kLanes;
  const Pieces pieces(op.taps.tap_columns, kDepthwiseTaps);
  for (std::size_t o = 0; o < op.outputs; o += kLanes) {
    for (std::size_t i = 0; i < op.taps.tap_rows; ++i) {
      std::size_t j = 0;
      for (std::size_t n = 0; n < pieces.count; ++n) {
        DepthwiseSumsTileOf<kDepthwiseTaps>(pieces.Size(n))(
            op, {.x = op.x + i * op.taps.tap_row + j * op.taps.tap_column + o,
                 .dy = op.dy + o,
                 .sums = op.sums + (i * op.taps.tap_columns + j) * row + o,
                 .row = row,
                 .last = Vector::FirstLanes(Least(kLanes, op.outputs - o))});
        j += pieces.Size(n);
      }
    }
  }
}

}  // namespace
}  // namespace skep::kernels
