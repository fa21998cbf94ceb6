#include <algorithm>
#include <cmath>

#include "kernels/nn/layers.h"
#include "kernels/point_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

// The words of a batch have block numbers of 32 bits.
constexpr std::uint64_t kMostValues = std::uint64_t{1} << 34U;

// Draws the same again in the backward pass: that costs less than to keep what was drawn.
class DropoutOfValues final : public Layer {
 public:
  DropoutOfValues(const model::DropoutLayer& layer, const LayerContext& context)
      : loops_(PointLoopsFor(context.isa)),
        values_(layer.shape.Values()),
        index_(layer.index),
        // w 2^-24 >= p for whole w: w is not below p 2^24 rounded up, which is exact in double.
        threshold_(static_cast<std::uint32_t>(std::ceil(layer.probability * 0x1p24))),
        scale_(static_cast<float>(1 / (1 - layer.probability))) {
    SKEP_CHECK(layer.probability >= 0 && layer.probability < 1);
    SKEP_CHECK(values_ <= kMostValues / context.training_rows);
  }

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    if (pass.is_training) {
      loops_.dropout(Operation(pass, x, y, {}));
      return;
    }
    for (std::size_t r = 0; r < pass.rows; ++r) {
      std::copy_n(x.data + r * x.stride, values_, y.data + r * y.stride);
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink&) override {
    if (back.dx.data == nullptr) return;
    loops_.dropout(Operation(pass, back.dy, back.dx, back.x_is_rectified ? back.x : ConstRows{}));
  }

 private:
  [[nodiscard]] Dropout Operation(const Pass& pass, ConstRows x, Rows y, ConstRows active) const {
    return {.x = x.data,
            .x_stride = x.stride,
            .rows = pass.rows,
            .columns = values_,
            .active = active.data,
            .active_stride = active.stride,
            .y = y.data,
            .y_stride = y.stride,
            .key = pass.step_key,
            .layer = index_,
            .threshold = threshold_,
            .scale = scale_};
  }

  const PointLoops& loops_;
  std::size_t values_;
  std::uint32_t index_;
  std::uint32_t threshold_;
  float scale_;
};

}  // namespace

std::unique_ptr<Layer> MakeDropout(const model::DropoutLayer& layer, const LayerContext& context) {
  return std::make_unique<DropoutOfValues>(layer, context);
}

}  // namespace skep::kernels
