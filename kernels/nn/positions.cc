#include <algorithm>
#include <vector>

#include "kernels/nn/layers.h"
#include "kernels/point_loops.h"

namespace skep::kernels {
namespace {

class Positions final : public Layer {
 public:
  Positions(const model::PositionsLayer& layer, const LayerContext& context)
      : loops_(PointLoopsFor(context.isa)),
        values_(std::size_t{layer.length} * layer.features),
        weight_(context.Offset(layer.weight)),
        sums_(values_ + kColumnPad) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    loops_.add_vector({.x = x.data,
                       .x_stride = x.stride,
                       .rows = pass.rows,
                       .columns = values_,
                       .vector = pass.params.data() + weight_,
                       .y = y.data,
                       .y_stride = y.stride});
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    loops_.column_sums({.x = back.dy.data,
                        .x_stride = back.dy.stride,
                        .dy = nullptr,
                        .dy_stride = 0,
                        .rows = pass.rows,
                        .columns = values_,
                        .mean_high = nullptr,
                        .mean_low = nullptr,
                        .first = sums_.data(),
                        .second = nullptr});
    loops_.sums_to_gradient({.sums = sums_.data(),
                             .count = values_,
                             .values = sink.values.data() + weight_,
                             .scale = sink.scale,
                             .accumulate = sink.accumulate});
    if (back.dx.data == nullptr) return;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      std::copy_n(back.dy.data + r * back.dy.stride, values_, back.dx.data + r * back.dx.stride);
    }
    if (back.x_is_rectified) ApplyReluGradient(back.x, back.dx, pass.rows, values_);
  }

 private:
  const PointLoops& loops_;
  std::size_t values_;
  std::size_t weight_;
  std::vector<double> sums_;
};

}  // namespace

std::unique_ptr<Layer> MakePositions(const model::PositionsLayer& layer,
                                     const LayerContext& context) {
  return std::make_unique<Positions>(layer, context);
}

}  // namespace skep::kernels
