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
