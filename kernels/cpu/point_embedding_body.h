// Embeddings, written once over `Vector` and `Wide`: include after point_body.h.
#pragma once

#include "kernels/point_loops.h"

namespace skep::kernels {
namespace {

void Gather(const EmbeddingForward& op) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* vector = op.vectors + op.symbols[r] * op.columns;
    float* y = op.y + r * op.columns;
    ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
      Vector::Store(y + c, Vector::Load(vector + c, lanes), lanes);
    });
  }
}

void Scatter(const EmbeddingGradient& op) {
  for (std::size_t s = 0; s < op.symbols; ++s) {
    const std::uint32_t first = op.head[s];
    if (first == kNoRow && op.accumulate) continue;
    float* values = op.vectors + s * op.columns;
    ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
      Wide sum = Wide::Zero();
      for (std::uint32_t r = first; r != kNoRow; r = op.next[r]) {
        sum = Wide::Add(sum, Wide::Of(Vector::Load(op.dy + r * op.columns + c, lanes)));
      }
      Reg gradient = sum.Narrow();
      if (op.accumulate) {
        gradient = Vector::Fma(Vector::Set(op.scale), gradient, Vector::Load(values + c, lanes));
      }
      Vector::Store(values + c, gradient, lanes);
    });
  }
}

}  // namespace
}  // namespace skep::kernels
