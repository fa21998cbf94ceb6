// What convolutions and pooling do besides products, on images with the channel last. Counts are
// over all rows of all lanes.
//
// A convolution is a product of its windows, laid out as rows, with the weights as they lie in the
// parameters: so a window's values are in the order channel, row, column.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"

namespace skep::kernels::body {

struct WindowShape {
  std::uint32_t in_height;
  std::uint32_t in_width;
  std::uint32_t channels;
  std::uint32_t out_height;
  std::uint32_t out_width;
  std::uint32_t window_height;
  std::uint32_t window_width;
  std::uint32_t stride_height;
  std::uint32_t stride_width;
  std::uint32_t pad_height;
  std::uint32_t pad_width;
};

// windows[row][place][channel][i][j] = x at the place's window, 0 beyond the image.
struct LayOutWindows {
  static constexpr const char* kName = "lay_out_windows";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<float> windows;
    std::uint64_t rows;
    WindowShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const WindowShape& s = a.shape;
    const float* x = c.memory(a.x);
    float* windows = c.memory(a.windows);
    const std::uint64_t window = std::uint64_t{s.window_height} * s.window_width;
    const std::uint64_t width = window * s.channels;
    const std::uint64_t places = std::uint64_t{s.out_height} * s.out_width;
    const std::uint64_t image = std::uint64_t{s.in_height} * s.in_width * s.channels;
    for (std::uint64_t k = c.global_index(); k < a.rows * places * width; k += c.grid_threads()) {
      const std::uint64_t place = k / width % places;
      const std::uint64_t channel = k % width / window;
      const std::uint64_t i = k % window / s.window_width;
      const std::uint64_t j = k % s.window_width;
      // Unsigned: beyond the upper and left edge is far beyond the lower and right one.
      const std::uint64_t line = place / s.out_width * s.stride_height + i - s.pad_height;
      const std::uint64_t column = place % s.out_width * s.stride_width + j - s.pad_width;
      const bool is_inside = line < s.in_height && column < s.in_width;
      const std::uint64_t row = k / (places * width);
      windows[k] =
          is_inside ? x[row * image + (line * s.in_width + column) * s.channels + channel] : 0.0F;
    }
  }
};

// dx = the sum over the windows that hold a value, in their order; 0 where x is not above 0 with a
// gate.
struct GatherWindows {
  static constexpr const char* kName = "gather_windows";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> windows;
    DevicePtr<float> dx;
    DevicePtr<const float> gate;  // null, or x
    std::uint64_t rows;
    WindowShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const WindowShape& s = a.shape;
    float* dx = c.memory(a.dx);
    const float* gate = a.gate.IsNull() ? nullptr : c.memory(a.gate);
    const std::uint64_t image = std::uint64_t{s.in_height} * s.in_width * s.channels;
    for (std::uint64_t k = c.global_index(); k < a.rows * image; k += c.grid_threads()) {
      const bool passes = gate == nullptr || gate[k] > 0;
      dx[k] = passes ? Sum(c.memory(a.windows), s, k / image, k % image) : 0.0F;
    }
  }

 private:
  SKEP_HD static float Sum(const float* windows, const WindowShape& s, std::uint64_t row,
                           std::uint64_t at) {
    const std::uint64_t window = std::uint64_t{s.window_height} * s.window_width;
    const std::uint64_t places = std::uint64_t{s.out_height} * s.out_width;
    const std::uint64_t channel = at % s.channels;
    const std::uint64_t line = at / s.channels / s.in_width + s.pad_height;
    const std::uint64_t column = at / s.channels % s.in_width + s.pad_width;
    float sum = 0;
    for (std::uint64_t i = 0; i < s.window_height; ++i) {
      if (line < i || (line - i) % s.stride_height != 0) continue;
      const std::uint64_t out_line = (line - i) / s.stride_height;
      if (out_line >= s.out_height) continue;
      for (std::uint64_t j = 0; j < s.window_width; ++j) {
        if (column < j || (column - j) % s.stride_width != 0) continue;
        const std::uint64_t out_column = (column - j) / s.stride_width;
        if (out_column >= s.out_width) continue;
        const std::uint64_t place = out_line * s.out_width + out_column;
        sum += windows[((row * places + place) * s.channels + channel) * window +
                       i * s.window_width + j];
      }
    }
    return sum;
  }
};

// Largest or mean of each window.
struct PoolWindows {
  static constexpr const char* kName = "pool_windows";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<float> y;
    std::uint64_t rows;
    std::uint32_t is_maximum;
    WindowShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const WindowShape& s = a.shape;
    const float* x = c.memory(a.x);
    float* y = c.memory(a.y);
    const std::uint64_t places = std::uint64_t{s.out_height} * s.out_width;
    const std::uint64_t image = std::uint64_t{s.in_height} * s.in_width * s.channels;
    for (std::uint64_t k = c.global_index(); k < a.rows * places * s.channels;
         k += c.grid_threads()) {
      const std::uint64_t place = k / s.channels % places;
      const float* from = x + k / (places * s.channels) * image + k % s.channels;
      float largest = 0;
      float sum = 0;
      for (std::uint64_t i = 0; i < s.window_height; ++i) {
        for (std::uint64_t j = 0; j < s.window_width; ++j) {
          const std::uint64_t line = place / s.out_width * s.window_height + i;
          const std::uint64_t column = place % s.out_width * s.window_width + j;
          const float value = from[(line * s.in_width + column) * s.channels];
          const bool is_first = i == 0 && j == 0;
          // NaN wins.
          largest = is_first || value > largest || value != value ? value : largest;
          sum += value;
        }
      }
      const auto count = static_cast<float>(s.window_height * s.window_width);
      y[k] = a.is_maximum != 0 ? largest : sum / count;
    }
  }
};

// dx: to the first largest value of each window, or in equal parts; 0 beyond the windows, and where
// x is not above 0 if `rectify`.
struct PoolGradient {
  static constexpr const char* kName = "pool_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<const float> y;
    DevicePtr<const float> dy;
    DevicePtr<float> dx;
    std::uint64_t rows;
    std::uint32_t is_maximum;
    std::uint32_t rectify;
    WindowShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const WindowShape& s = a.shape;
    const float* x = c.memory(a.x);
    float* dx = c.memory(a.dx);
    const std::uint64_t places = std::uint64_t{s.out_height} * s.out_width;
    const std::uint64_t image = std::uint64_t{s.in_height} * s.in_width * s.channels;
    const float share = 1.0F / static_cast<float>(s.window_height * s.window_width);
    for (std::uint64_t k = c.global_index(); k < a.rows * image; k += c.grid_threads()) {
      const std::uint64_t channel = k % s.channels;
      const std::uint64_t line = k % image / s.channels / s.in_width;
      const std::uint64_t column = k % image / s.channels % s.in_width;
      const std::uint64_t out_line = line / s.window_height;
      const std::uint64_t out_column = column / s.window_width;
      const bool is_inside = out_line < s.out_height && out_column < s.out_width;
      if (!is_inside || (a.rectify != 0 && !(x[k] > 0))) {
        dx[k] = 0;
        continue;
      }
      const std::uint64_t from =
          (k / image * places + out_line * s.out_width + out_column) * s.channels + channel;
      const float dy = c.memory(a.dy)[from];
      if (a.is_maximum == 0) {
        dx[k] = dy * share;
      } else {
        const bool is_it =
            IsFirst(x + k / image * image + channel, s, line, column, c.memory(a.y)[from]);
        dx[k] = is_it ? dy : 0.0F;
      }
    }
  }

 private:
  SKEP_HD static bool IsSame(float a, float b) { return a == b || (a != a && b != b); }

  // Whether the value at (line, column) is the first of its window that equals `largest`.
  SKEP_HD static bool IsFirst(const float* image, const WindowShape& s, std::uint64_t line,
                              std::uint64_t column, float largest) {
    const std::uint64_t top = line / s.window_height * s.window_height;
    const std::uint64_t left = column / s.window_width * s.window_width;
    for (std::uint64_t i = top; i <= line; ++i) {
      for (std::uint64_t j = left; j < left + s.window_width; ++j) {
        if (!IsSame(image[(i * s.in_width + j) * s.channels], largest)) continue;
        return i == line && j == column;
      }
    }
    return false;
  }
};

}  // namespace skep::kernels::body
