// LaneLinear: y = x W^T + b at each place of each lane, and its gradients: what dense layers,
// recurrent layers and attention have in common.
//
// All products are row-major in memory, so column-major here, seen as their transposes (gemm.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/lane_layer.h"

namespace skep::kernels {

struct LaneLinear {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  std::uint64_t weight = 0;  // offset of [outputs, inputs] in a lane's parameters
  std::uint64_t bias = 0;    // likewise
  bool has_bias = false;
  bool rectify = false;

  // x: [lanes][places][inputs], y: [lanes][places][outputs].
  [[nodiscard]] Status Forward(Queue& queue, const LanePass& pass, std::uint32_t places,
                               DevicePtr<const float> x, DevicePtr<float> y) const;
  // dx = dy W.
  [[nodiscard]] Status InputGradient(Queue& queue, const LanePass& pass, std::uint32_t places,
                                     DevicePtr<const float> dy, DevicePtr<float> dx) const;
  [[nodiscard]] Status ParameterGradient(Queue& queue, const LanePass& pass, std::uint32_t places,
                                         DevicePtr<const float> x, DevicePtr<const float> dy,
                                         const LaneSink& sink) const;
};

// The ReLU below a layer, if there is one.
[[nodiscard]] Status RectifyInput(Queue& queue, const LaneBackward& back, std::uint64_t count);

}  // namespace skep::kernels
