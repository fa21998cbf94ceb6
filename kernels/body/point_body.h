// Layers whose values do not mix: activations, transposition, dropout, positions, embedding.
// Meanings: shared/model/layers.h. Counts are over all rows of all lanes, unless lanes are named.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"
#include "kernels/body/math.h"
#include "kernels/body/philox.h"

namespace skep::kernels::body {

enum CurveKind : std::uint32_t {
  kReluCurve = 0,
  kTanhCurve = 1,
  kSigmoidCurve = 2,
  kGeluCurve = 3
};

struct Activate {
  static constexpr const char* kName = "activate";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<float> y;
    std::uint64_t count;
    std::uint32_t kind;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* x = c.memory(a.x);
    float* y = c.memory(a.y);
    for (std::uint64_t i = c.global_index(); i < a.count; i += c.grid_threads()) {
      y[i] = Curve(x[i], a.kind);
    }
  }

 private:
  SKEP_HD static float Curve(float x, std::uint32_t kind) {
    if (kind == kTanhCurve) return Tanh(x);
    if (kind == kSigmoidCurve) return Sigmoid(x);
    if (kind == kGeluCurve) return x * NormalProbability(x);
    return x < 0 ? 0.0F : x;  // NaN stays
  }
};

// dx = dy times the slope at x, where y is the value there; 0 where x is not above 0 if `rectify`.
struct ActivateGradient {
  static constexpr const char* kName = "activate_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<const float> y;
    DevicePtr<const float> dy;
    DevicePtr<float> dx;
    std::uint64_t count;
    std::uint32_t kind;
    std::uint32_t rectify;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* x = c.memory(a.x);
    const float* y = c.memory(a.y);
    const float* dy = c.memory(a.dy);
    float* dx = c.memory(a.dx);
    for (std::uint64_t i = c.global_index(); i < a.count; i += c.grid_threads()) {
      const bool passes = a.rectify == 0 || x[i] > 0;
      dx[i] = passes ? dy[i] * Slope(x[i], y[i], a.kind) : 0.0F;
    }
  }

 private:
  SKEP_HD static float Slope(float x, float y, std::uint32_t kind) {
    if (kind == kTanhCurve) return 1 - y * y;
    if (kind == kSigmoidCurve) return y * (1 - y);
    if (kind == kGeluCurve) return NormalProbability(x) + x * NormalDensity(x);
    return x > 0 ? 1.0F : 0.0F;
  }
};

// y[row][j][i] = x[row][i][j]: rows of m x n become rows of n x m.
struct Transpose {
  static constexpr const char* kName = "transpose";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<float> y;
    DevicePtr<const float> gate;  // null, or of y's order: 0 where it is not above 0
    std::uint64_t rows;
    std::uint32_t m;
    std::uint32_t n;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t values = std::uint64_t{a.m} * a.n;
    const float* x = c.memory(a.x);
    float* y = c.memory(a.y);
    const float* gate = a.gate.IsNull() ? nullptr : c.memory(a.gate);
    for (std::uint64_t k = c.global_index(); k < a.rows * values; k += c.grid_threads()) {
      const std::uint64_t at = k % values;
      const float value = x[k - at + at % a.m * a.n + at / a.m];
      y[k] = gate == nullptr || gate[k] > 0 ? value : 0.0F;
    }
  }
};

// y = x / (1 - p) where the draw of this value keeps it, else 0; the same for gradients.
struct Drop {
  static constexpr const char* kName = "drop";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<float> y;
    DevicePtr<const float> gate;          // null, or 0 where it is not above 0
    DevicePtr<const std::uint64_t> keys;  // [lanes]
    std::uint64_t count;                  // of a lane
    std::uint32_t layer;
    std::uint32_t threshold;  // the upper 24 bits of a word that keeps its value are not below it
    float factor;             // 1 / (1 - probability)
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t lane = c.block_y();
    const std::uint64_t key = c.memory(a.keys)[lane];
    const float* x = c.memory(a.x + lane * a.count);
    float* y = c.memory(a.y + lane * a.count);
    const float* gate = a.gate.IsNull() ? nullptr : c.memory(a.gate + lane * a.count);
    const std::uint64_t blocks = (a.count + 3) / 4;
    for (std::uint64_t b = c.global_index(); b < blocks; b += c.grid_threads()) {
      std::uint32_t words[4] = {static_cast<std::uint32_t>(b), a.layer, 0, 5};
      Philox(key, words);
      for (std::uint32_t w = 0; w < 4 && b * 4 + w < a.count; ++w) {
        const std::uint64_t i = b * 4 + w;
        const bool kept = words[w] >> 8U >= a.threshold && (gate == nullptr || gate[i] > 0);
        y[i] = kept ? x[i] * a.factor : 0.0F;
      }
    }
  }
};

// y = x + the vector of the place.
struct AddPositions {
  static constexpr const char* kName = "add_positions";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;  // [lanes][rows][values]
    DevicePtr<float> y;
    DevicePtr<const float> weight;  // lane l at + l * weight_stride
    std::uint64_t weight_stride;
    std::uint64_t rows;
    std::uint32_t values;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t count = a.rows * a.values;
    const float* x = c.memory(a.x + c.block_y() * count);
    float* y = c.memory(a.y + c.block_y() * count);
    const float* weight = c.memory(a.weight + c.block_y() * a.weight_stride);
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      y[i] = x[i] + weight[i % a.values];
    }
  }
};

// y = the rows of `weight` that x names. A number beyond the symbols reads symbol 0: trainers
// refuse it before.
struct Embed {
  static constexpr const char* kName = "embed";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;  // [lanes][places]
    DevicePtr<float> y;        // [lanes][places][features]
    DevicePtr<const float> weight;
    std::uint64_t weight_stride;
    std::uint64_t places;
    std::uint32_t symbols;
    std::uint32_t features;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* x = c.memory(a.x + c.block_y() * a.places);
    float* y = c.memory(a.y + c.block_y() * a.places * a.features);
    const float* weight = c.memory(a.weight + c.block_y() * a.weight_stride);
    const std::uint64_t count = a.places * a.features;
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      const float value = x[i / a.features];
      const bool is_symbol = value >= 0 && value < static_cast<float>(a.symbols);
      const auto symbol = is_symbol ? static_cast<std::uint64_t>(value) : 0;
      y[i] = weight[symbol * a.features + i % a.features];
    }
  }
};

// The gradient of one value of the table: the sum over the places of its symbol, in order.
struct EmbedGradient {
  static constexpr const char* kName = "embed_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;   // [lanes][places]
    DevicePtr<const float> dy;  // [lanes][places][features]
    DevicePtr<float> to;        // lane l at + l * to_stride
    std::uint64_t to_stride;
    std::uint64_t places;
    std::uint32_t symbols;
    std::uint32_t features;
    std::uint32_t accumulate;
    float scale;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* x = c.memory(a.x + c.block_y() * a.places);
    const float* dy = c.memory(a.dy + c.block_y() * a.places * a.features);
    float* to = c.memory(a.to + c.block_y() * a.to_stride);
    const std::uint64_t count = std::uint64_t{a.symbols} * a.features;
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      const auto symbol = static_cast<float>(i / a.features);
      float sum = 0;
      for (std::uint64_t p = 0; p < a.places; ++p) {
        if (x[p] == symbol) sum += dy[p * a.features + i % a.features];
      }
      to[i] = a.accumulate != 0 ? a.scale * sum + to[i] : sum;
    }
  }
};

}  // namespace skep::kernels::body
