// Pooling, after conv_body.h: vectors run over the channels of a place.
#pragma once

#include "kernels/conv_loops.h"

namespace skep::kernels {
namespace {

// Calls visit(first value of the window in x, place in y, lanes) for each window and each vector of
// channels of it.
template <class Visit>
void ForEachWindow(const PoolWindows& w, const Visit& visit) {
  for (std::size_t i = 0; i < w.rows; ++i) {
    for (std::size_t j = 0; j < w.columns; ++j) {
      const std::size_t x = (i * w.window_rows * w.in_columns + j * w.window_columns) * w.channels;
      const std::size_t y = (i * w.columns + j) * w.channels;
      std::size_t c = 0;
      for (; c + kLanes <= w.channels; c += kLanes) {
        visit(x + c, y + c, Vector::FirstLanes(kLanes));
      }
      if (c < w.channels) visit(x + c, y + c, Vector::FirstLanes(w.channels - c));
    }
  }
}

// The size of a window: known here for the usual one, whose loops then vanish.
struct TwoByTwo {
  explicit TwoByTwo(const PoolWindows&) {}
  static constexpr std::size_t rows = 2;
  static constexpr std::size_t columns = 2;
};
struct AnySize {
  explicit AnySize(const PoolWindows& w) : rows(w.window_rows), columns(w.window_columns) {}
  std::size_t rows;
  std::size_t columns;
};
bool IsTwoByTwo(const PoolWindows& w) {
  return w.window_rows == 2 && w.window_columns == 2;
}

// Calls visit(place in x) for the places of a window, by rows.
template <class Size, class Visit>
[[gnu::always_inline]] inline void ForEachPlace(const PoolWindows& w, const Size& size,
                                                std::size_t first, const Visit& visit) {
#pragma GCC unroll 2
  for (std::size_t i = 0; i < size.rows; ++i) {
#pragma GCC unroll 2
    for (std::size_t j = 0; j < size.columns; ++j) {
      visit(first + (i * w.in_columns + j) * w.channels);
    }
  }
}

template <class Size>
void PoolMaximumOf(const PoolForward& op) {
  const PoolWindows windows = op.windows;
  const Size size(windows);
  ForEachWindow(windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    Reg largest = Vector::Load(op.x + x, lanes);
    ForEachPlace(windows, size, x, [&](std::size_t place) {
      largest = Vector::MaxOrNan(largest, Vector::Load(op.x + place, lanes));
    });
    Vector::Store(op.y + y, largest, lanes);
  });
}

void PoolMaximum(const PoolForward& op) {
  if (IsTwoByTwo(op.windows)) return PoolMaximumOf<TwoByTwo>(op);
  PoolMaximumOf<AnySize>(op);
}

void PoolAverage(const PoolForward& op) {
  const AnySize size(op.windows);
  const Reg count = Vector::Set(static_cast<float>(size.rows * size.columns));
  ForEachWindow(op.windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    Reg sum = Vector::Zero();
    ForEachPlace(op.windows, size, x, [&](std::size_t place) {
      sum = Vector::Add(sum, Vector::Load(op.x + place, lanes));
    });
    Vector::Store(op.y + y, Vector::Div(sum, count), lanes);
  });
}

// dx = 0 at the places that fill no window.
void ClearRest(const PoolGradient& op) {
  const PoolWindows& w = op.windows;
  const std::size_t row = w.in_columns * w.channels;
  const std::size_t used_rows = w.rows * w.window_rows;
  const std::size_t used = w.columns * w.window_columns * w.channels;
  if (used < row) {
    for (std::size_t i = 0; i < used_rows; ++i) {
      for (std::size_t k = used; k < row; ++k) op.dx[i * row + k] = 0;
    }
  }
  for (std::size_t k = used_rows * row; k < w.in_rows * row; ++k) op.dx[k] = 0;
}

template <class Size>
void PoolMaximumGradientOf(const PoolGradient& op) {
  const PoolWindows windows = op.windows;
  const Size size(windows);
  ForEachWindow(windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    const Reg largest = Vector::Load(op.y + y, lanes);
    Reg left = Vector::Load(op.dy + y, lanes);  // until its place is found
    if (op.gate) left = Vector::WherePositive(largest, left);
    ForEachPlace(windows, size, x, [&](std::size_t place) {
      const Reg value = Vector::Load(op.x + place, lanes);
      Vector::Store(op.dx + place, Vector::WhereLargest(value, largest, left), lanes);
      left = Vector::WhereSmaller(value, largest, left);
    });
  });
}

void PoolMaximumGradient(const PoolGradient& op) {
  ClearRest(op);
  if (IsTwoByTwo(op.windows)) return PoolMaximumGradientOf<TwoByTwo>(op);
  PoolMaximumGradientOf<AnySize>(op);
}

void PoolAverageGradient(const PoolGradient& op) {
  ClearRest(op);
  const AnySize size(op.windows);
  const Reg count = Vector::Set(static_cast<float>(size.rows * size.columns));
  ForEachWindow(op.windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    const Reg share = Vector::Div(Vector::Load(op.dy + y, lanes), count);
    ForEachPlace(op.windows, size, x, [&](std::size_t place) {
      const Reg value =
          op.gate ? Vector::WherePositive(Vector::Load(op.x + place, lanes), share) : share;
      Vector::Store(op.dx + place, value, lanes);
    });
  });
}

}  // namespace
}  // namespace skep::kernels
