#include "kernels/nn/layers.h"
#include "kernels/training_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

class Dense final : public Layer {
 public:
  Dense(const model::DenseLayer& layer, const LayerContext& context)
      : loops_(TrainingLoopsFor(context.isa)),
        positions_(layer.positions),
        inputs_(layer.inputs),
        outputs_(layer.outputs),
        weight_(context.Offset(layer.weight)),
        bias_(layer.has_bias ? context.Offset(layer.bias) : 0),
        has_bias_(layer.has_bias),
        rectifies_(context.rectify) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    loops_.dense_forward({.x = x.data,
                          .x_stride = StrideOf(x.stride, inputs_),
                          .rows = pass.rows * positions_,
                          .inputs = inputs_,
                          .outputs = outputs_,
                          .weights = pass.params.data() + weight_,
                          .bias = has_bias_ ? pass.params.data() + bias_ : nullptr,
                          .y = y.data,
                          .y_stride = StrideOf(y.stride, outputs_),
                          .relu = rectifies_});
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    const std::size_t rows = pass.rows * positions_;
    const std::size_t x_stride = StrideOf(back.x.stride, inputs_);
    const std::size_t dy_stride = StrideOf(back.dy.stride, outputs_);
    const DenseWeightGradient weight{.dy = back.dy.data,
                                     .dy_stride = dy_stride,
                                     .x = back.x.data,
                                     .x_stride = x_stride,
                                     .rows = rows,
                                     .inputs = inputs_,
                                     .outputs = outputs_,
                                     .weights = sink.values.data() + weight_,
                                     .bias = has_bias_ ? sink.values.data() + bias_ : nullptr,
                                     .scale = sink.scale,
                                     .accumulate = sink.accumulate};
    if (back.dx.data == nullptr) return loops_.dense_weight_gradient(weight);
    SKEP_CHECK(!back.x_is_rectified || StrideOf(back.dx.stride, inputs_) == x_stride);
    loops_.dense_gradients({.dy = back.dy.data,
                            .dy_stride = dy_stride,
                            .rows = rows,
                            .inputs = inputs_,
                            .outputs = outputs_,
                            .weights = pass.params.data() + weight_,
                            .active = back.x_is_rectified ? back.x.data : nullptr,
                            .dx = back.dx.data,
                            .dx_stride = StrideOf(back.dx.stride, inputs_)},
                           weight);
  }

 private:
  // Of the places of an example, which follow each other, if there are several.
  [[nodiscard]] std::size_t StrideOf(std::size_t row_stride, std::size_t width) const {
    SKEP_CHECK(positions_ == 1 || row_stride == positions_ * width);
    return positions_ == 1 ? row_stride : width;
  }

  const TrainingLoops& loops_;
  std::size_t positions_;
  std::size_t inputs_;
  std::size_t outputs_;
  std::size_t weight_;
  std::size_t bias_;
  bool has_bias_;
  bool rectifies_;
};

}  // namespace

std::unique_ptr<Layer> MakeDense(const model::DenseLayer& layer, const LayerContext& context) {
  return std::make_unique<Dense>(layer, context);
}

}  // namespace skep::kernels
