#include "kernels/conv_loops.h"
#include "kernels/nn/layers.h"

namespace skep::kernels {
namespace {

class Pool final : public Layer {
 public:
  Pool(const model::PoolLayer& layer, const LayerContext& context)
      : loops_(ConvLoopsFor(context.isa)),
        is_maximum_(layer.is_maximum),
        windows_{.in_rows = layer.in.height,
                 .in_columns = layer.in.width,
                 .channels = layer.in.channels,
                 .window_rows = layer.window_height,
                 .window_columns = layer.window_width,
                 .rows = layer.out.height,
                 .columns = layer.out.width} {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    const auto forward = is_maximum_ ? loops_.pool_maximum : loops_.pool_average;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      forward({.windows = windows_, .x = x.data + r * x.stride, .y = y.data + r * y.stride});
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink&) override {
    if (back.dx.data == nullptr) return;
    const auto gradient = is_maximum_ ? loops_.pool_maximum_gradient : loops_.pool_average_gradient;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      gradient({.windows = windows_,
                .x = back.x.data + r * back.x.stride,
                .y = back.y.data + r * back.y.stride,
                .dy = back.dy.data + r * back.dy.stride,
                .dx = back.dx.data + r * back.dx.stride,
                .gate = back.x_is_rectified});
    }
  }

 private:
  const ConvLoops& loops_;
  bool is_maximum_;
  PoolWindows windows_;
};

}  // namespace

std::unique_ptr<Layer> MakePool(const model::PoolLayer& layer, const LayerContext& context) {
  return std::make_unique<Pool>(layer, context);
}

}  // namespace skep::kernels
