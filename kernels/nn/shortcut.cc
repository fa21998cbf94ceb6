#include "kernels/nn/shortcut.h"

#include <algorithm>
#include <limits>

namespace skep::kernels {
namespace {

// Calls `visit(in the result, in the kept value)` with the offsets of each place that meets.
template <class Visit>
void ForEachPlace(const model::AddLayer& add, const Visit& visit) {
  const bool is_image = add.shape.kind == model::Shape::Kind::kImage;
  const std::size_t row_stride = is_image ? add.stride : 1;
  for (std::size_t i = 0; i < add.shape.height; ++i) {
    for (std::size_t j = 0; j < add.shape.width; ++j) {
      visit((i * add.shape.width + j) * add.shape.channels,
            (i * row_stride * add.kept.width + j * add.stride) * add.kept.channels);
    }
  }
}

// Nothing is left out on either side.
bool IsWhole(const model::AddLayer& add) {
  return add.stride == 1 && add.kept.channels == add.shape.channels;
}

// NaN stays NaN.
float AtLeast(float least, float value) {
  return value < least ? least : value;
}

}  // namespace

void AddShortcut(const model::AddLayer& add, bool rectify, std::size_t rows, ConstRows kept,
                 ConstRows x, Rows y) {
  const float least = rectify ? 0 : -std::numeric_limits<float>::infinity();
  for (std::size_t r = 0; r < rows; ++r) {
    const float* from = kept.data + r * kept.stride;
    const float* in = x.data + r * x.stride;
    float* out = y.data + r * y.stride;
    if (IsWhole(add)) {
      const std::size_t values = add.shape.Values();
      for (std::size_t i = 0; i < values; ++i) out[i] = AtLeast(least, in[i] + from[i]);
      continue;
    }
    ForEachPlace(add, [&](std::size_t at, std::size_t kept_at) {
      std::size_t c = 0;
      for (; c < add.kept.channels; ++c) {
        out[at + c] = AtLeast(least, in[at + c] + from[kept_at + c]);
      }
      for (; c < add.shape.channels; ++c) out[at + c] = AtLeast(least, in[at + c]);
    });
  }
}

void KeepShortcutGradient(const model::AddLayer& add, std::size_t rows, ConstRows dy, Rows slot) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float* from = dy.data + r * dy.stride;
    float* to = slot.data + r * slot.stride;
    if (IsWhole(add)) {
      std::copy_n(from, add.shape.Values(), to);
      continue;
    }
    std::fill_n(to, add.kept.Values(), 0.0F);
    ForEachPlace(add, [&](std::size_t at, std::size_t kept_at) {
      std::copy_n(from + at, add.kept.channels, to + kept_at);
    });
  }
}

void AddShortcutGradient(std::size_t rows, std::size_t values, ConstRows slot, ConstRows gate,
                         Rows dy) {
  // Two loops: in one, the sum would be taken behind a branch. Pieces stay in the first-level
  // cache.
  constexpr std::size_t kPiece = 1024;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t begin = 0; begin < values; begin += kPiece) {
      const std::size_t count = std::min(kPiece, values - begin);
      const float* from = slot.data + r * slot.stride + begin;
      float* to = dy.data + r * dy.stride + begin;
      for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
      if (gate.data == nullptr) continue;
      const float* x = gate.data + r * gate.stride + begin;
      for (std::size_t i = 0; i < count; ++i) to[i] = x[i] > 0 ? to[i] : 0;
    }
  }
}

}  // namespace skep::kernels
