#include "kernels/nn/layer.h"

#include "kernels/nn/layers.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

struct Maker {
  const LayerContext& context;

  std::unique_ptr<Layer> operator()(const model::DenseLayer& layer) const {
    return MakeDense(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::ConvLayer& layer) const {
    return MakeConvolution(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::PoolLayer& layer) const {
    return MakePool(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::ActivationLayer& layer) const {
    return MakeActivation(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::TransposeLayer& layer) const {
    return MakeTranspose(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::RecurrentLayer& layer) const {
    return MakeRecurrent(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::AttentionLayer& layer) const {
    return MakeAttention(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::DropoutLayer& layer) const {
    return MakeDropout(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::NormLayer& layer) const {
    return MakeNorm(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::EmbeddingLayer& layer) const {
    return MakeEmbedding(layer, context);
  }
  std::unique_ptr<Layer> operator()(const model::PositionsLayer& layer) const {
    return MakePositions(layer, context);
  }
  template <class Other>
  std::unique_ptr<Layer> operator()(const Other&) const {
    SKEP_CHECK(false);
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const model::Layer& layer, const LayerContext& context) {
  return std::visit(Maker{context}, layer);
}

void ApplyReluGradient(ConstRows x, Rows dx, std::size_t rows, std::size_t values) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float* value = x.data + r * x.stride;
    float* gradient = dx.data + r * dx.stride;
    for (std::size_t i = 0; i < values; ++i) gradient[i] = value[i] > 0 ? gradient[i] : 0;
  }
}

}  // namespace skep::kernels
