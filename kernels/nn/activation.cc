#include <algorithm>

#include "kernels/nn/layers.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

// A ReLU that the layer before it could not do.
class Relu final : public Layer {
 public:
  explicit Relu(std::size_t values) : values_(values) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    for (std::size_t r = 0; r < pass.rows; ++r) {
      const float* in = x.data + r * x.stride;
      float* out = y.data + r * y.stride;
      // NaN stays NaN.
      for (std::size_t i = 0; i < values_; ++i) out[i] = in[i] < 0 ? 0 : in[i];
    }
  }

  // Its derivative is in dy already: y is the output of a ReLU.
  void Backward(const Pass& pass, const BackwardPass& back, const Sink&) override {
    if (back.dx.data == nullptr) return;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      std::copy_n(back.dy.data + r * back.dy.stride, values_, back.dx.data + r * back.dx.stride);
    }
  }

 private:
  std::size_t values_;
};

}  // namespace

std::unique_ptr<Layer> MakeActivation(const model::ActivationLayer& layer, const LayerContext&) {
  SKEP_CHECK(layer.kind == model::Activation::kRelu);
  return std::make_unique<Relu>(layer.shape.Values());
}

}  // namespace skep::kernels
