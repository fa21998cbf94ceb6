// Updates of the parameters of all lanes from their gradients. A lane without examples in this
// batch rests. Meanings: kernels/training_loops.h.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"
#include "kernels/body/math.h"

namespace skep::kernels::body {

// scale[lane] = what clipping leaves of a gradient: min(1, clip / norm). One block a lane.
struct ClipScale {
  static constexpr const char* kName = "clip_scale";
  static constexpr bool kSynchronises = true;
  struct Args {
    DevicePtr<const float> gradient;  // lane l at + l * stride
    std::uint64_t stride;
    std::uint64_t count;
    double clip;
    DevicePtr<float> scale;  // [lanes]
  };
  // Shared: a double a thread.
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    double* part = c.template shared<double>();
    const float* gradient = c.memory(a.gradient + c.block_y() * a.stride);
    double sum = 0;
    for (std::uint64_t i = c.thread(); i < a.count; i += c.block_threads()) {
      sum += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    }
    part[c.thread()] = sum;
    c.sync();
    for (std::uint32_t step = c.block_threads() / 2; step > 0; step /= 2) {
      if (c.thread() < step) part[c.thread()] += part[c.thread() + step];
      c.sync();
    }
    if (c.thread() != 0) return;
    const double norm = sqrt(part[0]);
    c.memory(a.scale)[c.block_y()] = norm > a.clip ? static_cast<float>(a.clip / norm) : 1.0F;
  }
};

struct SgdStep {
  static constexpr const char* kName = "sgd_step";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<float> params;  // lane l at + l * stride, likewise the others
    DevicePtr<const float> gradient;
    DevicePtr<float> velocity;              // null: no momentum
    DevicePtr<const float> scale;           // [lanes]; null: 1
    DevicePtr<const std::uint32_t> active;  // [lanes]
    std::uint64_t stride;
    std::uint64_t begin;  // parameters of a lane
    std::uint64_t end;
    float learning_rate;
    float weight_decay;
    float momentum;
    std::uint32_t nesterov;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t lane = c.block_y();
    if (c.memory(a.active)[lane] == 0) return;
    float* params = c.memory(a.params + lane * a.stride);
    const float* gradient = c.memory(a.gradient + lane * a.stride);
    float* velocity = a.velocity.IsNull() ? nullptr : c.memory(a.velocity + lane * a.stride);
    const float scale = a.scale.IsNull() ? 1.0F : c.memory(a.scale)[lane];
    for (std::uint64_t i = a.begin + c.global_index(); i < a.end; i += c.grid_threads()) {
      float step = gradient[i] * scale;
      if (a.weight_decay != 0) step = a.weight_decay * params[i] + step;
      if (velocity != nullptr) {
        velocity[i] = a.momentum * velocity[i] + step;
        step = a.nesterov != 0 ? a.momentum * velocity[i] + step : velocity[i];
      }
      params[i] = -a.learning_rate * step + params[i];
    }
  }
};

struct AdamStep {
  static constexpr const char* kName = "adam_step";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<float> params;  // lane l at + l * stride, likewise the others
    DevicePtr<const float> gradient;
    DevicePtr<float> first;
    DevicePtr<float> second;
    DevicePtr<const float> scale;           // [lanes]; null: 1
    DevicePtr<const std::uint32_t> active;  // [lanes]
    DevicePtr<const std::uint32_t> steps;   // [lanes]: of this task, this one included
    std::uint64_t stride;
    std::uint64_t begin;
    std::uint64_t end;
    float learning_rate;
    float gradient_decay;
    float weight_factor;
    double beta1;
    double beta2;
    float epsilon;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t lane = c.block_y();
    if (c.memory(a.active)[lane] == 0) return;
    float* params = c.memory(a.params + lane * a.stride);
    const float* gradient = c.memory(a.gradient + lane * a.stride);
    float* first = c.memory(a.first + lane * a.stride);
    float* second = c.memory(a.second + lane * a.stride);
    const float scale = a.scale.IsNull() ? 1.0F : c.memory(a.scale)[lane];
    const double steps = c.memory(a.steps)[lane];
    const auto step_size =
        static_cast<float>(static_cast<double>(a.learning_rate) / (1 - pow(a.beta1, steps)));
    const auto root_scale = static_cast<float>(1 / sqrt(1 - pow(a.beta2, steps)));
    const auto beta1 = static_cast<float>(a.beta1);
    const auto beta2 = static_cast<float>(a.beta2);
    // Not of the floats: 1 - 0.999F is off by 5e-5.
    const auto rest1 = static_cast<float>(1 - a.beta1);
    const auto rest2 = static_cast<float>(1 - a.beta2);
    for (std::uint64_t i = a.begin + c.global_index(); i < a.end; i += c.grid_threads()) {
      const float g = gradient[i] * scale + a.gradient_decay * params[i];
      first[i] = beta1 * first[i] + rest1 * g;
      second[i] = beta2 * second[i] + rest2 * g * g;
      params[i] = params[i] * a.weight_factor -
                  step_size * first[i] / (root_scale * Root(second[i]) + a.epsilon);
    }
  }
};

}  // namespace skep::kernels::body
