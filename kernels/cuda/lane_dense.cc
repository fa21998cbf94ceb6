#include "kernels/cuda/lane_layers.h"
#include "kernels/cuda/lane_linear.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

class LaneDense final : public LaneLayer {
 public:
  LaneDense(const model::DenseLayer& layer, const LaneContext& context)
      : positions_(layer.positions),
        linear_{.inputs = layer.inputs,
                .outputs = layer.outputs,
                .weight = context.Offset(layer.weight),
                .bias = layer.has_bias ? context.Offset(layer.bias) : 0,
                .has_bias = layer.has_bias,
                .rectify = context.rectify} {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    return linear_.Forward(queue, pass, pass.rows * positions_, x.data, y.data);
  }

  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    const std::uint32_t places = pass.rows * positions_;
    if (!back.dx.data.IsNull()) {
      SKEP_TRY(linear_.InputGradient(queue, pass, places, back.dy.data, back.dx.data));
      SKEP_TRY(RectifyInput(queue, back, std::uint64_t{pass.lanes} * places * linear_.inputs));
    }
    return linear_.ParameterGradient(queue, pass, places, back.x.data, back.dy.data, sink);
  }

 private:
  std::uint32_t positions_;
  LaneLinear linear_;
};

}  // namespace

MadeLaneLayer MakeLaneDense(const model::DenseLayer& layer, const LaneContext& context) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneDense>(layer, context));
}

}  // namespace skep::kernels
