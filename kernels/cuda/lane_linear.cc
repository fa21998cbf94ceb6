#include "kernels/cuda/lane_linear.h"

#include "kernels/cuda/grids.h"
#include "shared/base/try.h"

namespace skep::kernels {

Status LaneLinear::Forward(Queue& queue, const LanePass& pass, std::uint32_t places,
                           DevicePtr<const float> x, DevicePtr<float> y) const {
  // y^T [outputs, places] = W [outputs, inputs] x^T
  SKEP_TRY(queue.Multiply({.transpose_a = true,
                           .m = outputs,
                           .n = places,
                           .k = inputs,
                           .a = pass.params + weight,
                           .lda = inputs,
                           .a_stride = pass.params_stride,
                           .b = x,
                           .ldb = inputs,
                           .b_stride = std::uint64_t{places} * inputs,
                           .c = y,
                           .ldc = outputs,
                           .c_stride = std::uint64_t{places} * outputs,
                           .batch = pass.lanes}));
  if (!has_bias && !rectify) return Ok();
  return queue.Launch<body::AddBias>(
      GridFor(std::uint64_t{places} * outputs, pass.lanes),
      {.y = y,
       .bias = has_bias ? DevicePtr<const float>(pass.params + bias) : DevicePtr<const float>{},
       .bias_stride = pass.params_stride,
       .rows = places,
       .outputs = outputs,
       .rectify = rectify ? 1U : 0U});
}

Status LaneLinear::InputGradient(Queue& queue, const LanePass& pass, std::uint32_t places,
                                 DevicePtr<const float> dy, DevicePtr<float> dx) const {
  // dx^T [inputs, places] = W^T dy^T
  return queue.Multiply({.m = inputs,
                         .n = places,
                         .k = outputs,
                         .a = pass.params + weight,
                         .lda = inputs,
                         .a_stride = pass.params_stride,
                         .b = dy,
                         .ldb = outputs,
                         .b_stride = std::uint64_t{places} * outputs,
                         .c = dx,
                         .ldc = inputs,
                         .c_stride = std::uint64_t{places} * inputs,
                         .batch = pass.lanes});
}

Status LaneLinear::ParameterGradient(Queue& queue, const LanePass& pass, std::uint32_t places,
                                     DevicePtr<const float> x, DevicePtr<const float> dy,
                                     const LaneSink& sink) const {
  // G^T [inputs, outputs] = x^T dy: W is its row-major form.
  SKEP_TRY(queue.Multiply({.transpose_b = true,
                           .m = inputs,
                           .n = outputs,
                           .k = places,
                           .alpha = sink.accumulate ? sink.scale : 1,
                           .beta = sink.accumulate ? 1.0F : 0.0F,
                           .a = x,
                           .lda = inputs,
                           .a_stride = std::uint64_t{places} * inputs,
                           .b = dy,
                           .ldb = outputs,
                           .b_stride = std::uint64_t{places} * outputs,
                           .c = sink.values + weight,
                           .ldc = inputs,
                           .c_stride = sink.stride,
                           .batch = pass.lanes}));
  if (!has_bias) return Ok();
  return queue.Launch<body::SumRows>(GridFor(outputs, pass.lanes),
                                     {.x = dy,
                                      .to = sink.values + bias,
                                      .to_stride = sink.stride,
                                      .rows = places,
                                      .width = outputs,
                                      .columns = outputs,
                                      .accumulate = sink.accumulate ? 1U : 0U,
                                      .scale = sink.scale});
}

Status RectifyInput(Queue& queue, const LaneBackward& back, std::uint64_t count) {
  if (!back.x_is_rectified) return Ok();
  return queue.Launch<body::RectifyGradient>(
      GridFor(count), {.x = back.x.data, .dx = back.dx.data, .count = count});
}

}  // namespace skep::kernels
