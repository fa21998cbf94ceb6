#include "kernels/cuda/grids.h"
#include "kernels/cuda/lane_layers.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

// All products are row-major in memory, so column-major here, seen as their transposes (gemm.h).
class LaneDense final : public LaneLayer {
 public:
  LaneDense(const model::DenseLayer& layer, const LaneContext& context)
      : layer_(layer),
        weight_(context.Offset(layer.weight)),
        bias_(layer.has_bias ? context.Offset(layer.bias) : 0),
        rectifies_(context.rectify) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    const std::uint32_t rows = pass.rows * layer_.positions;
    // y^T [outputs, rows] = W [outputs, inputs] x^T
    SKEP_TRY(queue.Multiply({.transpose_a = true,
                             .m = layer_.outputs,
                             .n = rows,
                             .k = layer_.inputs,
                             .a = pass.params + weight_,
                             .lda = layer_.inputs,
                             .a_stride = pass.params_stride,
                             .b = x.data,
                             .ldb = layer_.inputs,
                             .b_stride = std::uint64_t{rows} * layer_.inputs,
                             .c = y.data,
                             .ldc = layer_.outputs,
                             .c_stride = std::uint64_t{rows} * layer_.outputs,
                             .batch = pass.lanes}));
    if (!layer_.has_bias && !rectifies_) return Ok();
    return queue.Launch<body::AddBias>(
        GridFor(std::uint64_t{rows} * layer_.outputs, pass.lanes),
        {.y = y.data,
         .bias = layer_.has_bias ? DevicePtr<const float>(pass.params + bias_)
                                 : DevicePtr<const float>{},
         .bias_stride = pass.params_stride,
         .rows = rows,
         .outputs = layer_.outputs,
         .rectify = rectifies_ ? 1U : 0U});
  }

  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    const std::uint32_t rows = pass.rows * layer_.positions;
    if (!back.dx.data.IsNull()) SKEP_TRY(InputGradient(queue, pass, back, rows));
    // G^T [inputs, outputs] = x^T dy: W is its row-major form.
    SKEP_TRY(queue.Multiply({.transpose_b = true,
                             .m = layer_.inputs,
                             .n = layer_.outputs,
                             .k = rows,
                             .alpha = sink.accumulate ? sink.scale : 1,
                             .beta = sink.accumulate ? 1.0F : 0.0F,
                             .a = back.x.data,
                             .lda = layer_.inputs,
                             .a_stride = std::uint64_t{rows} * layer_.inputs,
                             .b = back.dy.data,
                             .ldb = layer_.outputs,
                             .b_stride = std::uint64_t{rows} * layer_.outputs,
                             .c = sink.values + weight_,
                             .ldc = layer_.inputs,
                             .c_stride = sink.stride,
                             .batch = pass.lanes}));
    if (!layer_.has_bias) return Ok();
    return queue.Launch<body::SumRows>(GridFor(layer_.outputs, pass.lanes),
                                       {.x = back.dy.data,
                                        .to = sink.values + bias_,
                                        .to_stride = sink.stride,
                                        .rows = rows,
                                        .columns = layer_.outputs,
                                        .accumulate = sink.accumulate ? 1U : 0U,
                                        .scale = sink.scale});
  }

 private:
  // dx^T [inputs, rows] = W^T dy^T
  Status InputGradient(Queue& queue, const LanePass& pass, const LaneBackward& back,
                       std::uint32_t rows) {
    SKEP_TRY(queue.Multiply({.m = layer_.inputs,
                             .n = rows,
                             .k = layer_.outputs,
                             .a = pass.params + weight_,
                             .lda = layer_.inputs,
                             .a_stride = pass.params_stride,
                             .b = back.dy.data,
                             .ldb = layer_.outputs,
                             .b_stride = std::uint64_t{rows} * layer_.outputs,
                             .c = back.dx.data,
                             .ldc = layer_.inputs,
                             .c_stride = std::uint64_t{rows} * layer_.inputs,
                             .batch = pass.lanes}));
    if (!back.x_is_rectified) return Ok();
    const std::uint64_t count = std::uint64_t{pass.lanes} * rows * layer_.inputs;
    return queue.Launch<body::RectifyGradient>(
        GridFor(count), {.x = back.x.data, .dx = back.dx.data, .count = count});
  }

  model::DenseLayer layer_;
  std::uint64_t weight_;
  std::uint64_t bias_;
  bool rectifies_;
};

}  // namespace

MadeLaneLayer MakeLaneDense(const model::DenseLayer& layer, const LaneContext& context) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneDense>(layer, context));
}

}  // namespace skep::kernels
