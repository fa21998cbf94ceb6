// Shortcuts of residual blocks. Meanings: kernels/nn/shortcut.h. Counts are over all rows of all
// lanes.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"

namespace skep::kernels::body {

// The geometry of an AddLayer.
struct ShortcutShape {
  std::uint32_t width;  // of the result
  std::uint32_t height;
  std::uint32_t channels;
  std::uint32_t kept_width;
  std::uint32_t kept_height;
  std::uint32_t kept_channels;
  std::uint32_t row_stride;
  std::uint32_t stride;
};

// y = x + every stride-th place of `kept`, then max(0, y) if `rectify`; NaN stays NaN.
struct AddShortcut {
  static constexpr const char* kName = "add_shortcut";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> kept;
    DevicePtr<const float> x;
    DevicePtr<float> y;
    std::uint64_t rows;
    ShortcutShape shape;
    std::uint32_t rectify;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const ShortcutShape& s = a.shape;
    const float* kept = c.memory(a.kept);
    const float* x = c.memory(a.x);
    float* y = c.memory(a.y);
    const std::uint64_t values = std::uint64_t{s.width} * s.height * s.channels;
    const std::uint64_t kept_values = std::uint64_t{s.kept_width} * s.kept_height * s.kept_channels;
    for (std::uint64_t i = c.global_index(); i < a.rows * values; i += c.grid_threads()) {
      const std::uint64_t row = i / values;
      const auto channel = static_cast<std::uint32_t>(i % s.channels);
      const std::uint64_t place = i % values / s.channels;
      float value = x[i];
      if (channel < s.kept_channels) {
        const std::uint64_t from =
            (place / s.width * s.row_stride * s.kept_width + place % s.width * s.stride) *
                s.kept_channels +
            channel;
        value += kept[row * kept_values + from];
      }
      y[i] = a.rectify != 0 && value < 0 ? 0.0F : value;
    }
  }
};

// slot = the gradient of `kept`.
struct KeepShortcutGradient {
  static constexpr const char* kName = "keep_shortcut_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> dy;
    DevicePtr<float> slot;
    std::uint64_t rows;
    ShortcutShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const ShortcutShape& s = a.shape;
    const float* dy = c.memory(a.dy);
    float* slot = c.memory(a.slot);
    const std::uint64_t values = std::uint64_t{s.width} * s.height * s.channels;
    const std::uint64_t kept_values = std::uint64_t{s.kept_width} * s.kept_height * s.kept_channels;
    for (std::uint64_t i = c.global_index(); i < a.rows * kept_values; i += c.grid_threads()) {
      const std::uint64_t row = i / kept_values;
      const std::uint64_t channel = i % s.kept_channels;
      const std::uint64_t place = i % kept_values / s.kept_channels;
      const std::uint64_t line = place / s.kept_width;
      const std::uint64_t column = place % s.kept_width;
      const bool is_added = line % s.row_stride == 0 && column % s.stride == 0;
      const std::uint64_t from =
          (line / s.row_stride * s.width + column / s.stride) * s.channels + channel;
      slot[i] = is_added ? dy[row * values + from] : 0.0F;
    }
  }
};

// dy += slot.
struct AddShortcutGradient {
  static constexpr const char* kName = "add_shortcut_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> slot;
    DevicePtr<float> dy;
    std::uint64_t count;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* slot = c.memory(a.slot);
    float* dy = c.memory(a.dy);
    for (std::uint64_t i = c.global_index(); i < a.count; i += c.grid_threads()) dy[i] += slot[i];
  }
};

}  // namespace skep::kernels::body
