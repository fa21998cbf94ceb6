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

// Calls visit(place in x) for the places of a window, by rows.
template <class Visit>
[[gnu::always_inline]] inline void ForEachPlace(const PoolWindows& w, std::size_t first,
                                                const Visit& visit) {
  for (std::size_t i = 0; i < w.window_rows; ++i, first += w.in_columns * w.channels) {
    for (std::size_t j = 0; j < w.window_columns; ++j) visit(first + j * w.channels);
  }
}

void PoolMaximum(const PoolForward& op) {
  ForEachWindow(op.windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    Reg largest = Vector::Load(op.x + x, lanes);
    ForEachPlace(op.windows, x, [&](std::size_t place) {
      largest = Vector::MaxOrNan(largest, Vector::Load(op.x + place, lanes));
    });
    Vector::Store(op.y + y, largest, lanes);
  });
}

void PoolAverage(const PoolForward& op) {
  const Reg count =
      Vector::Set(static_cast<float>(op.windows.window_rows * op.windows.window_columns));
  ForEachWindow(op.windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    Reg sum = Vector::Zero();
    ForEachPlace(op.windows, x, [&](std::size_t place) {
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

void PoolMaximumGradient(const PoolGradient& op) {
  ClearRest(op);
  ForEachWindow(op.windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    const Reg largest = Vector::Load(op.y + y, lanes);
    Reg left = Vector::Load(op.dy + y, lanes);  // until its place is found
    if (op.gate) left = Vector::WherePositive(largest, left);
    ForEachPlace(op.windows, x, [&](std::size_t place) {
      const Reg value = Vector::Load(op.x + place, lanes);
      Vector::Store(op.dx + place, Vector::WhereLargest(value, largest, left), lanes);
      left = Vector::WhereSmaller(value, largest, left);
    });
  });
}

void PoolAverageGradient(const PoolGradient& op) {
  ClearRest(op);
  const Reg count =
      Vector::Set(static_cast<float>(op.windows.window_rows * op.windows.window_columns));
  ForEachWindow(op.windows, [&](std::size_t x, std::size_t y, Mask lanes) {
    const Reg share = Vector::Div(Vector::Load(op.dy + y, lanes), count);
    ForEachPlace(op.windows, x, [&](std::size_t place) {
      const Reg value =
          op.gate ? Vector::WherePositive(Vector::Load(op.x + place, lanes), share) : share;
      Vector::Store(op.dx + place, value, lanes);
    });
  });
}

}  // namespace
}  // namespace skep::kernels
