// The gradient of a convolution's weights, after conv_body.h.
//
// A register tile holds R inputs of a run x V vectors of outputs of the sum of outer products over
// all places of an image: the inputs lie together under each place. Tiles are added image by image,
// so every value is one chain over the places of an image, and then one over the images.
#pragma once

#include "kernels/conv_loops.h"

namespace skep::kernels {
namespace {

struct SumsTileRange {
  const float* x;
  const float* dy;
  float* sums;
  std::size_t row;  // of sums, in floats
  Mask last;        // lanes of the last vector
};

template <std::size_t R, std::size_t V>
void SumsTile(const ConvSums& op, const SumsTileRange& at) {
  Reg sum[R][V];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) sum[r][v] = Vector::Zero();
  }
  for (std::size_t row = 0; row < op.rows; ++row) {
    const float* x = at.x + row * op.x_row;
    const float* dy = at.dy + row * op.dy_row;
#pragma GCC unroll 2
    for (std::size_t c = 0; c < op.columns; ++c, x += op.x_column, dy += op.dy_column) {
      Reg gradient[V];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < V; ++v) {
        gradient[v] =
            v + 1 < V ? Vector::Load(dy + v * kLanes) : Vector::Load(dy + v * kLanes, at.last);
      }
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r) {
        const Reg value = Vector::Set(x[r]);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < V; ++v) sum[r][v] = Vector::Fma(value, gradient[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) {
      float* to = at.sums + r * at.row + v * kLanes;
      Vector::Store(to, op.is_first ? sum[r][v] : Vector::Add(Vector::Load(to), sum[r][v]));
    }
  }
}

using SumsTileFunction = void (*)(const ConvSums&, const SumsTileRange&);

template <std::size_t R, std::size_t V>
SumsTileFunction SumsTileOf(std::size_t inputs, std::size_t vectors) {
  if constexpr (R > 1) {
    if (inputs < R) return SumsTileOf<R - 1, V>(inputs, vectors);
  }
  if constexpr (V > 1) {
    if (vectors < V) return SumsTileOf<R, V - 1>(inputs, vectors);
  }
  return SumsTile<R, V>;
}

// All inputs of one run, for the outputs of one piece.
void SumRun(const ConvSums& op, std::size_t vectors, const SumsTileRange& run) {
  const Pieces inputs(op.taps.depth, kPlaces);
  SumsTileRange at = run;
  for (std::size_t i = 0; i < inputs.count; ++i) {
    SumsTileOf<kPlaces, kVectors>(inputs.Size(i), vectors)(op, at);
    at.x += inputs.Size(i);
    at.sums += inputs.Size(i) * at.row;
  }
}

void Sums(const ConvSums& op) {
  const std::size_t row = VectorsFor(op.outputs) * kLanes;
  const Pieces pieces(VectorsFor(op.outputs), kVectors);
  std::size_t output = 0;
  for (std::size_t n = 0; n < pieces.count; ++n) {
    const std::size_t floats = pieces.Size(n) * kLanes;
    const std::size_t lanes = Least(floats, op.outputs - output) - (floats - kLanes);
    for (std::size_t i = 0; i < op.taps.tap_rows; ++i) {
      for (std::size_t j = 0; j < op.taps.tap_columns; ++j) {
        SumRun(op, pieces.Size(n),
               {.x = op.x + i * op.taps.tap_row + j * op.taps.tap_column,
                .dy = op.dy + output,
                .sums = op.sums + (i * op.taps.tap_columns + j) * op.taps.depth * row + output,
                .row = row,
                .last = Vector::FirstLanes(lanes)});
      }
    }
    output += floats;
  }
}

void BiasSums(const ConvBiasSums& op) {
  for (std::size_t o = 0; o < op.outputs; o += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, op.outputs - o));
    Reg sum[4] = {Vector::Zero(), Vector::Zero(), Vector::Zero(), Vector::Zero()};
    const float* dy = op.dy + o;
    std::size_t place = 0;
    for (; place + 4 <= op.places; place += 4) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < 4; ++i, dy += op.outputs) {
        sum[i] = Vector::Add(sum[i], Vector::Load(dy, lanes));
      }
    }
    for (; place < op.places; ++place, dy += op.outputs) {
      sum[0] = Vector::Add(sum[0], Vector::Load(dy, lanes));
    }
    const Reg all = Vector::Add(Vector::Add(sum[0], sum[1]), Vector::Add(sum[2], sum[3]));
    float* to = op.sums + o;
    Vector::Store(to, op.is_first ? all : Vector::Add(Vector::Load(to), all));
  }
}

}  // namespace
}  // namespace skep::kernels
