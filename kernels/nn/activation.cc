#include <algorithm>

#include "kernels/nn/layers.h"
#include "kernels/point_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

// A ReLU that the layer before it could not do.
class Relu final : public Layer {
 public:
  Relu(std::size_t values, Isa isa) : loops_(PointLoopsFor(isa)), values_(values) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    loops_.relu({.x = x.data,
                 .x_stride = x.stride,
                 .rows = pass.rows,
                 .columns = values_,
                 .y = y.data,
                 .y_stride = y.stride});
  }

  // Its derivative is in dy already: y is the output of a ReLU.
  void Backward(const Pass& pass, const BackwardPass& back, const Sink&) override {
    if (back.dx.data == nullptr) return;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      std::copy_n(back.dy.data + r * back.dy.stride, values_, back.dx.data + r * back.dx.stride);
    }
  }

 private:
  const PointLoops& loops_;
  std::size_t values_;
};

struct Curve {
  void (*forward)(const PointForward&);
  void (*gradient)(const PointGradient&);
};

class Smooth final : public Layer {
 public:
  Smooth(std::size_t values, Curve curve) : curve_(curve), values_(values) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    curve_.forward({.x = x.data,
                    .x_stride = x.stride,
                    .rows = pass.rows,
                    .columns = values_,
                    .y = y.data,
                    .y_stride = y.stride});
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink&) override {
    if (back.dx.data == nullptr) return;
    curve_.gradient({.dy = back.dy.data,
                     .dy_stride = back.dy.stride,
                     .x = back.x.data,
                     .x_stride = back.x.stride,
                     .rows = pass.rows,
                     .columns = values_,
                     .dx = back.dx.data,
                     .dx_stride = back.dx.stride,
                     .gate = back.x_is_rectified});
  }

 private:
  Curve curve_;
  std::size_t values_;
};

Curve CurveOf(model::Activation kind, const PointLoops& loops) {
  if (kind == model::Activation::kTanh) return {loops.tanh, loops.tanh_gradient};
  if (kind == model::Activation::kSigmoid) return {loops.sigmoid, loops.sigmoid_gradient};
  SKEP_CHECK(kind == model::Activation::kGelu);
  return {loops.gelu, loops.gelu_gradient};
}

}  // namespace

std::unique_ptr<Layer> MakeActivation(const model::ActivationLayer& layer,
                                      const LayerContext& context) {
  const std::size_t values = layer.shape.Values();
  if (layer.kind == model::Activation::kRelu) return std::make_unique<Relu>(values, context.isa);
  return std::make_unique<Smooth>(values, CurveOf(layer.kind, PointLoopsFor(context.isa)));
}

}  // namespace skep::kernels
