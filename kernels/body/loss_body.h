// The loss of a batch and its gradient, one thread a row; its sum, one thread a lane, so that every
// sum has one order. Meanings: kernels/nn/loss.h.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"
#include "kernels/body/math.h"

namespace skep::kernels::body {

// How many rows of a lane have a label, and the weight of one in the mean.
struct CountLabels {
  static constexpr const char* kName = "count_labels";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const std::int32_t> labels;  // [lanes][rows]
    DevicePtr<std::uint32_t> counted;      // [lanes]
    std::uint64_t rows;
    std::uint32_t lanes;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    for (std::uint64_t lane = c.global_index(); lane < a.lanes; lane += c.grid_threads()) {
      const std::int32_t* labels = c.memory(a.labels + lane * a.rows);
      std::uint32_t count = 0;
      for (std::uint64_t r = 0; r < a.rows; ++r) count += labels[r] >= 0 ? 1U : 0U;
      c.memory(a.counted)[lane] = count;
    }
  }
};

// Replaces a row of outputs by the gradient of the lane's mean loss, and keeps the row's loss.
struct LossGradient {
  static constexpr const char* kName = "loss_gradient";
  static constexpr bool kSynchronises = false;
  enum Kind : std::uint32_t { kSoftmax = 0, kSigmoid = 1, kSquares = 2 };
  struct Args {
    DevicePtr<float> outputs;              // [lanes][rows][width]
    DevicePtr<const std::int32_t> labels;  // [lanes][rows]
    DevicePtr<const std::uint32_t> counted;
    DevicePtr<float> losses;  // [lanes][rows]
    std::uint64_t rows;
    std::uint32_t width;
    std::uint32_t kind;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t lane = c.block_y();
    const std::uint32_t counted = c.memory(a.counted)[lane];
    float* losses = c.memory(a.losses + lane * a.rows);
    const std::int32_t* labels = c.memory(a.labels + lane * a.rows);
    for (std::uint64_t r = c.global_index(); r < a.rows; r += c.grid_threads()) {
      float* z = c.memory(a.outputs + (lane * a.rows + r) * a.width);
      if (labels[r] < 0) {
        for (std::uint32_t i = 0; i < a.width; ++i) z[i] = 0;
        losses[r] = 0;
        continue;
      }
      const auto label = static_cast<std::uint32_t>(labels[r]);
      const float scale = 1.0F / static_cast<float>(counted);
      losses[r] = a.kind == kSoftmax ? Softmax(z, a.width, label, scale)
                                     : Apart(z, a.width, label, scale, a.kind == kSigmoid);
    }
  }

 private:
  SKEP_HD static float Softmax(float* z, std::uint32_t width, std::uint32_t label, float scale) {
    float largest = z[0];
    for (std::uint32_t i = 1; i < width; ++i) largest = z[i] > largest ? z[i] : largest;
    const float margin = z[label] - largest;
    float sum = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      z[i] = Exp(z[i] - largest);
      sum += z[i];
    }
    const float factor = scale / sum;
    for (std::uint32_t i = 0; i < width; ++i) z[i] *= factor;
    z[label] -= scale;
    return Log(sum) - margin;
  }
  // Each output by itself: the target is 1 for the label's, or the label of a single output.
  SKEP_HD static float Apart(float* z, std::uint32_t width, std::uint32_t label, float scale,
                             bool is_sigmoid) {
    float sum = 0;
    const float each = scale / static_cast<float>(width);
    for (std::uint32_t i = 0; i < width; ++i) {
      const float target = (width == 1 ? label == 1 : label == i) ? 1.0F : 0.0F;
      const float value = z[i];
      if (is_sigmoid) {
        const float size = value < 0 ? -value : value;
        sum += (value > 0 ? value : 0.0F) - value * target + Log1p(Exp(-size));
        z[i] = (Sigmoid(value) - target) * each;
      } else {
        const float difference = value - target;
        sum += difference * difference;
        z[i] = 2 * difference * each;
      }
    }
    return sum / static_cast<float>(width);
  }
};

// epoch_loss += the sum of the batch's losses.
struct AddLoss {
  static constexpr const char* kName = "add_loss";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> losses;  // [lanes][rows]; 0 where a label does not count
    DevicePtr<double> epoch_loss;   // [lanes]
    std::uint64_t rows;
    std::uint32_t lanes;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    for (std::uint64_t lane = c.global_index(); lane < a.lanes; lane += c.grid_threads()) {
      const float* losses = c.memory(a.losses + lane * a.rows);
      double sum = 0;
      for (std::uint64_t r = 0; r < a.rows; ++r) sum += static_cast<double>(losses[r]);
      c.memory(a.epoch_loss)[lane] += sum;
    }
  }
};

}  // namespace skep::kernels::body
