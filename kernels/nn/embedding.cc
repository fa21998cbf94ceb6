#include <algorithm>
#include <vector>

#include "kernels/nn/layers.h"
#include "kernels/point_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

// Its gradient is a sum for each symbol. The places of a batch are strung on one list a symbol, so
// that each sum is taken at once and the vectors are touched once.
class Embedding final : public Layer {
 public:
  Embedding(const model::EmbeddingLayer& layer, const LayerContext& context)
      : loops_(PointLoopsFor(context.isa)),
        length_(layer.length),
        features_(layer.features),
        weight_(context.Offset(layer.weight)),
        symbols_(context.capacity * length_),
        head_(layer.symbols),
        next_(context.training_rows * length_) {
    SKEP_CHECK(symbols_.size() < kNoRow);
  }

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    SKEP_CHECK(y.stride == length_ * features_);
    const auto symbols = static_cast<float>(head_.size());
    for (std::size_t r = 0; r < pass.rows; ++r) {
      for (std::size_t t = 0; t < length_; ++t) {
        const float value = x.data[r * x.stride + t];
        SKEP_CHECK(value >= 0 && value < symbols);
        const auto symbol = static_cast<std::uint32_t>(value);
        SKEP_CHECK(static_cast<float>(symbol) == value);
        symbols_[r * length_ + t] = symbol;
      }
    }
    loops_.embedding_forward({.symbols = symbols_.data(),
                              .rows = pass.rows * length_,
                              .columns = features_,
                              .vectors = pass.params.data() + weight_,
                              .y = y.data});
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    SKEP_CHECK(back.dx.data == nullptr && back.dy.stride == length_ * features_);
    std::fill(head_.begin(), head_.end(), kNoRow);
    for (std::size_t i = pass.rows * length_; i-- > 0;) {
      next_[i] = head_[symbols_[i]];
      head_[symbols_[i]] = static_cast<std::uint32_t>(i);
    }
    loops_.embedding_gradient({.dy = back.dy.data,
                               .head = head_.data(),
                               .next = next_.data(),
                               .symbols = head_.size(),
                               .columns = features_,
                               .vectors = sink.values.data() + weight_,
                               .scale = sink.scale,
                               .accumulate = sink.accumulate});
  }

 private:
  const PointLoops& loops_;
  std::size_t length_;
  std::size_t features_;
  std::size_t weight_;
  std::vector<std::uint32_t> symbols_;  // of the batch
  std::vector<std::uint32_t> head_;     // of each symbol: its first place in the batch
  std::vector<std::uint32_t> next_;     // of each place: the next one of its symbol
};

}  // namespace

std::unique_ptr<Layer> MakeEmbedding(const model::EmbeddingLayer& layer,
                                     const LayerContext& context) {
  return std::make_unique<Embedding>(layer, context);
}

}  // namespace skep::kernels
