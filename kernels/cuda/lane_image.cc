// Convolution and pooling.
#include "kernels/cuda/grids.h"
#include "kernels/cuda/lane_layers.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

// Products of the windows with the weights, a group at a time.
class LaneConvolution final : public LaneLayer {
 public:
  LaneConvolution(const model::ConvLayer& layer, const LaneContext& context,
                  DevicePtr<float> windows, DevicePtr<float> gradients)
      : layer_(layer),
        weight_(context.Offset(layer.weight)),
        bias_(layer.has_bias ? context.Offset(layer.bias) : 0),
        rectifies_(context.rectify),
        windows_(windows),
        window_gradients_(gradients) {}

  static std::uint64_t WindowValues(const model::ConvLayer& layer) {
    return std::uint64_t{layer.in.channels} * layer.kernel_height * layer.kernel_width;
  }

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    const std::uint64_t lane_rows = std::uint64_t{pass.lanes} * pass.rows;
    SKEP_TRY(queue.Launch<body::LayOutWindows>(
        GridFor(lane_rows * layer_.out.Pixels() * WindowValues(layer_)),
        {.x = x.data, .windows = windows_, .rows = lane_rows, .shape = ShapeOf()}));
    const std::uint32_t places = pass.rows * layer_.out.Pixels();
    for (std::uint32_t group = 0; group < layer_.groups; ++group) {
      // y^T [outputs, places] = W windows^T
      SKEP_TRY(queue.Multiply({.transpose_a = true,
                               .m = GroupOutputs(),
                               .n = places,
                               .k = GroupValues(),
                               .a = pass.params + WeightOf(group),
                               .lda = GroupValues(),
                               .a_stride = pass.params_stride,
                               .b = windows_ + std::uint64_t{group} * GroupValues(),
                               .ldb = AllValues(),
                               .b_stride = std::uint64_t{places} * AllValues(),
                               .c = y.data + std::uint64_t{group} * GroupOutputs(),
                               .ldc = layer_.out.channels,
                               .c_stride = std::uint64_t{places} * layer_.out.channels,
                               .batch = pass.lanes}));
    }
    if (!layer_.has_bias && !rectifies_) return Ok();
    return queue.Launch<body::AddBias>(
        GridFor(std::uint64_t{places} * layer_.out.channels, pass.lanes),
        {.y = y.data,
         .bias = layer_.has_bias ? DevicePtr<const float>(pass.params + bias_)
                                 : DevicePtr<const float>{},
         .bias_stride = pass.params_stride,
         .rows = places,
         .outputs = layer_.out.channels,
         .rectify = rectifies_ ? 1U : 0U});
  }

  // The gradient of the windows first: it needs the weights as they were.
  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    const bool wants_dx = !back.dx.data.IsNull();
    if (!wants_dx) return ParameterGradient(queue, pass, back, sink);
    SKEP_TRY(WindowGradient(queue, pass, back));
    SKEP_TRY(ParameterGradient(queue, pass, back, sink));
    const std::uint64_t lane_rows = std::uint64_t{pass.lanes} * pass.rows;
    return queue.Launch<body::GatherWindows>(
        GridFor(lane_rows * layer_.in.Values()),
        {.windows = window_gradients_,
         .dx = back.dx.data,
         .gate =
             back.x_is_rectified ? DevicePtr<const float>(back.x.data) : DevicePtr<const float>{},
         .rows = lane_rows,
         .shape = ShapeOf()});
  }

 private:
  [[nodiscard]] std::uint32_t GroupOutputs() const { return layer_.out.channels / layer_.groups; }
  [[nodiscard]] std::uint32_t AllValues() const {
    return static_cast<std::uint32_t>(WindowValues(layer_));
  }
  [[nodiscard]] std::uint32_t GroupValues() const { return AllValues() / layer_.groups; }
  [[nodiscard]] std::uint64_t WeightOf(std::uint32_t group) const {
    return weight_ + std::uint64_t{group} * GroupOutputs() * GroupValues();
  }
  [[nodiscard]] body::WindowShape ShapeOf() const {
    const bool is_image = layer_.in.kind == model::Shape::Kind::kImage;
    return {.in_height = layer_.in.height,
            .in_width = layer_.in.width,
            .channels = layer_.in.channels,
            .out_height = layer_.out.height,
            .out_width = layer_.out.width,
            .window_height = layer_.kernel_height,
            .window_width = layer_.kernel_width,
            .stride_height = is_image ? layer_.stride : 1,
            .stride_width = layer_.stride,
            .pad_height = layer_.pad_height,
            .pad_width = layer_.pad_width};
  }

  // windows'^T [values, places] = W^T dy^T
  Status WindowGradient(Queue& queue, const LanePass& pass, const LaneBackward& back) {
    const std::uint32_t places = pass.rows * layer_.out.Pixels();
    for (std::uint32_t group = 0; group < layer_.groups; ++group) {
      SKEP_TRY(queue.Multiply({.m = GroupValues(),
                               .n = places,
                               .k = GroupOutputs(),
                               .a = pass.params + WeightOf(group),
                               .lda = GroupValues(),
                               .a_stride = pass.params_stride,
                               .b = back.dy.data + std::uint64_t{group} * GroupOutputs(),
                               .ldb = layer_.out.channels,
                               .b_stride = std::uint64_t{places} * layer_.out.channels,
                               .c = window_gradients_ + std::uint64_t{group} * GroupValues(),
                               .ldc = AllValues(),
                               .c_stride = std::uint64_t{places} * AllValues(),
                               .batch = pass.lanes}));
    }
    return Ok();
  }

  Status ParameterGradient(Queue& queue, const LanePass& pass, const LaneBackward& back,
                           const LaneSink& sink) {
    const std::uint32_t places = pass.rows * layer_.out.Pixels();
    for (std::uint32_t group = 0; group < layer_.groups; ++group) {
      // G^T [values, outputs] = windows^T dy
      SKEP_TRY(queue.Multiply({.transpose_b = true,
                               .m = GroupValues(),
                               .n = GroupOutputs(),
                               .k = places,
                               .alpha = sink.accumulate ? sink.scale : 1,
                               .beta = sink.accumulate ? 1.0F : 0.0F,
                               .a = windows_ + std::uint64_t{group} * GroupValues(),
                               .lda = AllValues(),
                               .a_stride = std::uint64_t{places} * AllValues(),
                               .b = back.dy.data + std::uint64_t{group} * GroupOutputs(),
                               .ldb = layer_.out.channels,
                               .b_stride = std::uint64_t{places} * layer_.out.channels,
                               .c = sink.values + WeightOf(group),
                               .ldc = GroupValues(),
                               .c_stride = sink.stride,
                               .batch = pass.lanes}));
    }
    if (!layer_.has_bias) return Ok();
    return queue.Launch<body::SumRows>(GridFor(layer_.out.channels, pass.lanes),
                                       {.x = back.dy.data,
                                        .to = sink.values + bias_,
                                        .to_stride = sink.stride,
                                        .rows = places,
                                        .width = layer_.out.channels,
                                        .columns = layer_.out.channels,
                                        .accumulate = sink.accumulate ? 1U : 0U,
                                        .scale = sink.scale});
  }

  model::ConvLayer layer_;
  std::uint64_t weight_;
  std::uint64_t bias_;
  bool rectifies_;
  DevicePtr<float> windows_;  // of the forward pass
  DevicePtr<float> window_gradients_;
};

class LanePool final : public LaneLayer {
 public:
  explicit LanePool(const model::PoolLayer& layer) : layer_(layer) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    const std::uint64_t lane_rows = std::uint64_t{pass.lanes} * pass.rows;
    return queue.Launch<body::PoolWindows>(GridFor(lane_rows * layer_.out.Values()),
                                           {.x = x.data,
                                            .y = y.data,
                                            .rows = lane_rows,
                                            .is_maximum = layer_.is_maximum ? 1U : 0U,
                                            .shape = ShapeOf()});
  }
  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink&) override {
    if (back.dx.data.IsNull()) return Ok();
    const std::uint64_t lane_rows = std::uint64_t{pass.lanes} * pass.rows;
    return queue.Launch<body::PoolGradient>(GridFor(lane_rows * layer_.in.Values()),
                                            {.x = back.x.data,
                                             .y = back.y.data,
                                             .dy = back.dy.data,
                                             .dx = back.dx.data,
                                             .rows = lane_rows,
                                             .is_maximum = layer_.is_maximum ? 1U : 0U,
                                             .rectify = back.x_is_rectified ? 1U : 0U,
                                             .shape = ShapeOf()});
  }

 private:
  [[nodiscard]] body::WindowShape ShapeOf() const {
    return {.in_height = layer_.in.height,
            .in_width = layer_.in.width,
            .channels = layer_.in.channels,
            .out_height = layer_.out.height,
            .out_width = layer_.out.width,
            .window_height = layer_.window_height,
            .window_width = layer_.window_width,
            .stride_height = layer_.window_height,
            .stride_width = layer_.window_width,
            .pad_height = 0,
            .pad_width = 0};
  }

  model::PoolLayer layer_;
};

}  // namespace

MadeLaneLayer MakeLaneConvolution(const model::ConvLayer& layer, const LaneContext& context) {
  const std::uint64_t values = std::uint64_t{context.lanes} * context.rows * layer.out.Pixels() *
                               LaneConvolution::WindowValues(layer);
  SKEP_ASSIGN(const DevicePtr<float> windows,
              context.arena.Make<float>(values, "the windows of a convolution"));
  SKEP_ASSIGN(const DevicePtr<float> gradients,
              context.arena.Make<float>(values, "the windows of a convolution"));
  return std::unique_ptr<LaneLayer>(
      std::make_unique<LaneConvolution>(layer, context, windows, gradients));
}

MadeLaneLayer MakeLanePool(const model::PoolLayer& layer, const LaneContext&) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LanePool>(layer));
}

}  // namespace skep::kernels
