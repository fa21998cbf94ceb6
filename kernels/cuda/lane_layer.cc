#include "kernels/cuda/lane_layer.h"

#include "kernels/cuda/lane_layers.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

struct Maker {
  const LaneContext& context;

  MadeLaneLayer operator()(const model::DenseLayer& layer) const {
    return MakeLaneDense(layer, context);
  }
  MadeLaneLayer operator()(const model::ConvLayer& layer) const {
    return MakeLaneConvolution(layer, context);
  }
  MadeLaneLayer operator()(const model::PoolLayer& layer) const {
    return MakeLanePool(layer, context);
  }
  MadeLaneLayer operator()(const model::ActivationLayer& layer) const {
    return MakeLaneActivation(layer, context);
  }
  MadeLaneLayer operator()(const model::TransposeLayer& layer) const {
    return MakeLaneTranspose(layer, context);
  }
  MadeLaneLayer operator()(const model::DropoutLayer& layer) const {
    return MakeLaneDropout(layer, context);
  }
  MadeLaneLayer operator()(const model::PositionsLayer& layer) const {
    return MakeLanePositions(layer, context);
  }
  MadeLaneLayer operator()(const model::EmbeddingLayer& layer) const {
    return MakeLaneEmbedding(layer, context);
  }
  MadeLaneLayer operator()(const model::NormLayer& layer) const {
    return MakeLaneNorm(layer, context);
  }
  MadeLaneLayer operator()(const model::RecurrentLayer& layer) const {
    return MakeLaneRecurrent(layer, context);
  }
  MadeLaneLayer operator()(const model::AttentionLayer& layer) const {
    return MakeLaneAttention(layer, context);
  }
  // Ends of shortcuts, which the network itself is.
  template <class Other>
  MadeLaneLayer operator()(const Other&) const {
    SKEP_CHECK(false);
    return Error{9001, "", ""};
  }
};

}  // namespace

MadeLaneLayer MakeLaneLayer(const model::Layer& layer, const LaneContext& context) {
  return std::visit(Maker{context}, layer);
}

}  // namespace skep::kernels
