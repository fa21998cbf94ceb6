// Self-attention: products over the examples of all lanes, a head at a time.
#include <cmath>

#include "kernels/cuda/grids.h"
#include "kernels/cuda/lane_layers.h"
#include "kernels/cuda/lane_linear.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

struct Kept {
  DevicePtr<float> qkv;            // [lanes][rows][length][3 * features]
  DevicePtr<float> probabilities;  // [heads][lanes][rows][length][length]
  DevicePtr<float> context;        // [lanes][rows][length][features]
  DevicePtr<float> dqkv;           // as qkv
  DevicePtr<float> dscores;        // as probabilities, of one head
  DevicePtr<float> dcontext;       // as context
};

// A row-major matrix of an example: one row a place.
struct Places {
  DevicePtr<float> at;
  std::uint32_t width;  // of a row
};

class LaneAttention final : public LaneLayer {
 public:
  LaneAttention(const model::AttentionLayer& layer, const LaneContext& context, const Kept& kept)
      : layer_(layer),
        head_(layer.features / layer.heads),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(head_)))),
        in_{.inputs = layer.features,
            .outputs = 3 * layer.features,
            .weight = context.Offset(layer.weight_qkv),
            .bias = context.Offset(layer.bias_qkv),
            .has_bias = true},
        out_{.inputs = layer.features,
             .outputs = layer.features,
             .weight = context.Offset(layer.weight_out),
             .bias = context.Offset(layer.bias_out),
             .has_bias = true},
        kept_(kept) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    const std::uint32_t places = pass.rows * layer_.length;
    SKEP_TRY(in_.Forward(queue, pass, places, x.data, kept_.qkv));
    for (std::uint32_t head = 0; head < layer_.heads; ++head) {
      const Places scores = Probabilities(pass, head);
      // scores[i][j] = q[i] k[j]
      SKEP_TRY(ByRows(queue, pass, Part(kept_.qkv, 1, head), Part(kept_.qkv, 0, head), scores));
      const std::uint64_t rows = std::uint64_t{pass.lanes} * places;
      SKEP_TRY(queue.Launch<body::AttentionSoftmax>(GridFor(rows),
                                                    {.scores = scores.at,
                                                     .count = rows,
                                                     .length = layer_.length,
                                                     .is_causal = layer_.is_causal ? 1U : 0U,
                                                     .scale = scale_}));
      SKEP_TRY(
          Mix(queue, pass, Part(kept_.qkv, 2, head), scores, false, Context(kept_.context, head)));
    }
    return out_.Forward(queue, pass, places, kept_.context, y.data);
  }

  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    const std::uint32_t places = pass.rows * layer_.length;
    SKEP_TRY(out_.InputGradient(queue, pass, places, back.dy.data, kept_.dcontext));
    for (std::uint32_t head = 0; head < layer_.heads; ++head) {
      SKEP_TRY(HeadGradient(queue, pass, head));
    }
    if (!back.dx.data.IsNull()) {
      SKEP_TRY(in_.InputGradient(queue, pass, places, kept_.dqkv, back.dx.data));
      SKEP_TRY(RectifyInput(queue, back, std::uint64_t{pass.lanes} * places * layer_.features));
    }
    SKEP_TRY(out_.ParameterGradient(queue, pass, places, kept_.context, back.dy.data, sink));
    return in_.ParameterGradient(queue, pass, places, back.x.data, kept_.dqkv, sink);
  }

 private:
  // Queries (0), keys (1) or values (2) of a head.
  [[nodiscard]] Places Part(DevicePtr<float> qkv, std::uint32_t which, std::uint32_t head) const {
    return {qkv + std::uint64_t{which} * layer_.features + std::uint64_t{head} * head_,
            3 * layer_.features};
  }
  [[nodiscard]] Places Context(DevicePtr<float> context, std::uint32_t head) const {
    return {context + std::uint64_t{head} * head_, layer_.features};
  }
  [[nodiscard]] Places Probabilities(const LanePass& pass, std::uint32_t head) const {
    const std::uint64_t each =
        std::uint64_t{pass.lanes} * pass.rows * layer_.length * layer_.length;
    return {kept_.probabilities + head * each, layer_.length};
  }

  Status HeadGradient(Queue& queue, const LanePass& pass, std::uint32_t head) {
    const Places p = Probabilities(pass, head);
    const Places ds{kept_.dscores, layer_.length};
    const Places dcontext = Context(kept_.dcontext, head);
    SKEP_TRY(ByRows(queue, pass, Part(kept_.qkv, 2, head), dcontext, ds));
    SKEP_TRY(Mix(queue, pass, dcontext, p, true, Part(kept_.dqkv, 2, head)));
    const std::uint64_t rows = std::uint64_t{pass.lanes} * pass.rows * layer_.length;
    SKEP_TRY(queue.Launch<body::AttentionSoftmaxGradient>(GridFor(rows), {.probabilities = p.at,
                                                                          .gradient = ds.at,
                                                                          .count = rows,
                                                                          .length = layer_.length,
                                                                          .scale = scale_}));
    SKEP_TRY(Mix(queue, pass, Part(kept_.qkv, 1, head), ds, false, Part(kept_.dqkv, 0, head)));
    return Mix(queue, pass, Part(kept_.qkv, 0, head), ds, true, Part(kept_.dqkv, 1, head));
  }

  // c[i][j] = b[i] a[j], over the values of a head.
  Status ByRows(Queue& queue, const LanePass& pass, Places a, Places b, Places c) const {
    const std::uint32_t length = layer_.length;
    return queue.Multiply({.transpose_a = true,
                           .m = length,
                           .n = length,
                           .k = head_,
                           .a = a.at,
                           .lda = a.width,
                           .a_stride = std::uint64_t{length} * a.width,
                           .b = b.at,
                           .ldb = b.width,
                           .b_stride = std::uint64_t{length} * b.width,
                           .c = c.at,
                           .ldc = c.width,
                           .c_stride = std::uint64_t{length} * c.width,
                           .batch = pass.lanes * pass.rows});
  }

  // c[i] = the sum over j of shares[i][j] a[j], or of shares[j][i] a[j].
  Status Mix(Queue& queue, const LanePass& pass, Places a, Places shares, bool transpose,
             Places c) const {
    const std::uint32_t length = layer_.length;
    return queue.Multiply({.transpose_b = transpose,
                           .m = head_,
                           .n = length,
                           .k = length,
                           .a = a.at,
                           .lda = a.width,
                           .a_stride = std::uint64_t{length} * a.width,
                           .b = shares.at,
                           .ldb = shares.width,
                           .b_stride = std::uint64_t{length} * shares.width,
                           .c = c.at,
                           .ldc = c.width,
                           .c_stride = std::uint64_t{length} * c.width,
                           .batch = pass.lanes * pass.rows});
  }

  model::AttentionLayer layer_;
  std::uint32_t head_;
  float scale_;
  LaneLinear in_;
  LaneLinear out_;
  Kept kept_;
};

}  // namespace

MadeLaneLayer MakeLaneAttention(const model::AttentionLayer& layer, const LaneContext& context) {
  const char* what = "the scores of attention";
  const std::uint64_t places = std::uint64_t{context.lanes} * context.rows * layer.length;
  Kept kept;
  SKEP_ASSIGN(kept.qkv, context.arena.Make<float>(places * 3 * layer.features, what));
  SKEP_ASSIGN(kept.dqkv, context.arena.Make<float>(places * 3 * layer.features, what));
  SKEP_ASSIGN(kept.context, context.arena.Make<float>(places * layer.features, what));
  SKEP_ASSIGN(kept.dcontext, context.arena.Make<float>(places * layer.features, what));
  SKEP_ASSIGN(kept.probabilities,
              context.arena.Make<float>(places * layer.length * layer.heads, what));
  SKEP_ASSIGN(kept.dscores, context.arena.Make<float>(places * layer.length, what));
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneAttention>(layer, context, kept));
}

}  // namespace skep::kernels
