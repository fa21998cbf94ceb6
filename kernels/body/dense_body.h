// What dense layers do besides products: bias and ReLU, the gradient of the bias, the gradient of a
// ReLU. One lane per block_y().
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"

namespace skep::kernels::body {

// y += bias, then max(0, y) if `rectify`; NaN stays NaN.
struct AddBias {
  static constexpr const char* kName = "add_bias";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<float> y;           // [lanes][rows][outputs]
    DevicePtr<const float> bias;  // lane l at + l * bias_stride; null: none
    std::uint64_t bias_stride;
    std::uint64_t rows;  // of a lane
    std::uint32_t outputs;
    std::uint32_t rectify;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t count = a.rows * a.outputs;
    float* y = c.memory(a.y + c.block_y() * count);
    const float* bias = a.bias.IsNull() ? nullptr : c.memory(a.bias + c.block_y() * a.bias_stride);
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      const float value = bias == nullptr ? y[i] : y[i] + bias[i % a.outputs];
      y[i] = a.rectify != 0 && value < 0 ? 0.0F : value;
    }
  }
};

// to = fma(scale, sum over rows of x, to), or the sum: one thread a column, rows in order.
struct SumRows {
  static constexpr const char* kName = "sum_rows";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;  // [lanes][rows][width], of which the first `columns`
    DevicePtr<float> to;       // lane l at + l * to_stride
    std::uint64_t to_stride;
    std::uint64_t rows;
    std::uint32_t width;
    std::uint32_t columns;
    std::uint32_t accumulate;
    float scale;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* x = c.memory(a.x + c.block_y() * a.rows * a.width);
    float* to = c.memory(a.to + c.block_y() * a.to_stride);
    for (std::uint64_t j = c.global_index(); j < a.columns; j += c.grid_threads()) {
      float sum = 0;
      for (std::uint64_t r = 0; r < a.rows; ++r) sum += x[r * a.width + j];
      to[j] = a.accumulate != 0 ? a.scale * sum + to[j] : sum;
    }
  }
};

// dx = 0 where x is not above 0.
struct RectifyGradient {
  static constexpr const char* kName = "rectify_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<float> dx;
    std::uint64_t count;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* x = c.memory(a.x);
    float* dx = c.memory(a.dx);
    for (std::uint64_t i = c.global_index(); i < a.count; i += c.grid_threads()) {
      dx[i] = x[i] > 0 ? dx[i] : 0.0F;
    }
  }
};

}  // namespace skep::kernels::body
