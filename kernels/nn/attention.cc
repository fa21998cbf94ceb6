// Self-attention of several heads, forward and backward.
//
// Projections are one product over all places. The scores of a head are made some queries at a
// time: a causal head then leaves out the keys behind the last of them, in every product. Their
// probabilities are kept for the backward pass, which is exact.
#include <algorithm>
#include <cmath>

#include "kernels/nn/layers.h"
#include "kernels/sequence_loops.h"
#include "shared/base/check.h"
#include "shared/model/params.h"

namespace skep::kernels {
namespace {

// An evaluation is done in pieces of as many examples as a step of training has, or as these.
constexpr std::size_t kFewestRows = 10;
// Queries, or keys, of one product: whole tiles of every instruction set.
constexpr std::size_t kScoreRows = 24;
// Places of one product of the gradients of weights. Another number is another order of additions.
constexpr std::size_t kGradientPlaces = 256;

std::size_t RoundUp(std::size_t floats) {
  return (floats + 15) / 16 * 16;
}

// A matrix without gaps between its rows, one a place.
struct Matrix {
  const float* data;
  std::size_t width;
};

// Weights with their bias, by offset.
struct Projection {
  std::size_t weight;
  std::size_t bias;
};

class Attention final : public Layer {
 public:
  Attention(const model::AttentionLayer& layer, const LayerContext& context)
      : loops_(SequenceLoopsFor(context.isa)),
        length_(layer.length),
        features_(layer.features),
        heads_(layer.heads),
        width_(layer.features / layer.heads),
        is_causal_(layer.is_causal),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(width_)))),
        qkv_{context.Offset(layer.weight_qkv), context.Offset(layer.bias_qkv)},
        out_{context.Offset(layer.weight_out), context.Offset(layer.bias_out)},
        score_row_(RoundUp(length_)),
        rows_(std::max(context.training_rows, std::min(context.capacity, kFewestRows))) {
    Allocate(context.training_rows * length_);
  }

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    SKEP_CHECK(!pass.is_training || pass.rows <= rows_);
    SKEP_CHECK(x.stride == length_ * features_ && y.stride == length_ * features_);
    for (std::size_t first = 0; first < pass.rows; first += rows_) {
      const std::size_t rows = std::min(rows_, pass.rows - first);
      Project(pass, qkv_, {x.data + first * x.stride, features_}, rows,
              {qkv_values_.data(), 3 * features_});
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t h = 0; h < heads_; ++h) ForwardHead(HeadAt(r, h));
      }
      Project(pass, out_, {context_.data(), features_}, rows,
              {y.data + first * y.stride, features_});
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    const std::size_t places = pass.rows * length_;
    ProjectBack(pass, out_, {back.dy.data, features_}, places, {dcontext_.data(), features_});
    for (std::size_t r = 0; r < pass.rows; ++r) {
      for (std::size_t h = 0; h < heads_; ++h) BackwardHead(HeadAt(r, h));
    }
    const Matrix dqkv{dqkv_.data(), 3 * features_};
    if (back.dx.data != nullptr) {
      ProjectBack(pass, qkv_, dqkv, places, {back.dx.data, features_});
      if (back.x_is_rectified) {
        ApplyReluGradient(back.x, back.dx, pass.rows, length_ * features_);
      }
    }
    WeightGradient(dqkv, {back.x.data, features_}, places, qkv_, sink);
    WeightGradient({back.dy.data, features_}, {context_.data(), features_}, places, out_, sink);
  }

 private:
  // One head of one example.
  struct Head {
    std::size_t qkv;      // of its queries in qkv_values_ and dqkv_; keys and values follow
    std::size_t context;  // of its part in context_ and dcontext_
    float* probabilities;
  };
  // A place and what it is written to.
  struct Target {
    float* data;
    std::size_t width;
  };
  // Queries [begin, end), and keys before `keys`.
  struct Queries {
    std::size_t begin;
    std::size_t end;
    std::size_t keys;
    [[nodiscard]] std::size_t Count() const { return end - begin; }
  };

  void Allocate(std::size_t training_places) {
    const std::size_t places = rows_ * length_;
    qkv_values_.resize(places * 3 * features_);
    context_.resize(places * features_);
    probabilities_.resize(rows_ * heads_ * length_ * score_row_);
    dcontext_.resize(training_places * features_);
    dqkv_.resize(training_places * 3 * features_);
    dscores_.resize(length_ * score_row_);
    const std::size_t block = std::min(training_places, kGradientPlaces);
    weight_panels_.resize(
        std::max({PanelFloats(features_, 3 * features_), PanelFloats(3 * features_, features_),
                  PanelFloats(block, features_)}));
    head_panels_.resize(std::max(PanelFloats(width_, length_), PanelFloats(length_, width_)));
    packed_rows_.resize(std::max(length_ * length_, block * 3 * features_));
    if (block < training_places) partial_.resize(3 * features_ * (features_ + 1));
  }

  [[nodiscard]] Head HeadAt(std::size_t row, std::size_t head) {
    return {row * length_ * 3 * features_ + head * width_,
            row * length_ * features_ + head * width_,
            probabilities_.data() + (row * heads_ + head) * length_ * score_row_};
  }

  [[nodiscard]] Queries QueriesFrom(std::size_t begin) const {
    const std::size_t end = std::min(begin + kScoreRows, length_);
    return {begin, end, is_causal_ ? end : length_};
  }

  // y = x W^T + b
  void Project(const Pass& pass, const Projection& projection, Matrix x, std::size_t rows,
               Target y) {
    loops_.pack_panels({.from = pass.params.data() + projection.weight,
                        .depth_step = 1,
                        .column_step = x.width,
                        .depth = x.width,
                        .columns = y.width,
                        .panels = weight_panels_.data(),
                        .first = 0,
                        .panel_depth = x.width});
    loops_.panel_product({.a = x.data,
                          .a_row = x.width,
                          .rows = rows * length_,
                          .panels = weight_panels_.data(),
                          .panel_depth = x.width,
                          .panel_columns = y.width,
                          .depth = x.width,
                          .columns = y.width,
                          .bias = pass.params.data() + projection.bias,
                          .result = y.data,
                          .result_row = y.width,
                          .adds = false});
  }

  // dx = dy W
  void ProjectBack(const Pass& pass, const Projection& projection, Matrix dy, std::size_t places,
                   Target dx) {
    loops_.pack_panels({.from = pass.params.data() + projection.weight,
                        .depth_step = dx.width,
                        .column_step = 1,
                        .depth = dy.width,
                        .columns = dx.width,
                        .panels = weight_panels_.data(),
                        .first = 0,
                        .panel_depth = dy.width});
    loops_.panel_product({.a = dy.data,
                          .a_row = dy.width,
                          .rows = places,
                          .panels = weight_panels_.data(),
                          .panel_depth = dy.width,
                          .panel_columns = dx.width,
                          .depth = dy.width,
                          .columns = dx.width,
                          .bias = nullptr,
                          .result = dx.data,
                          .result_row = dx.width,
                          .adds = false});
  }

  // Values of a head at places `begin` and following, one place a row of the packed matrix.
  void PackPlaces(const float* from, std::size_t row, std::size_t begin) {
    loops_.pack_panels({.from = from + begin * row,
                        .depth_step = row,
                        .column_step = 1,
                        .depth = length_ - begin,
                        .columns = width_,
                        .panels = head_panels_.data(),
                        .first = 0,
                        .panel_depth = length_ - begin});
  }
  // One place a column.
  void PackPlacesAcross(const float* from, std::size_t row) {
    loops_.pack_panels({.from = from,
                        .depth_step = 1,
                        .column_step = row,
                        .depth = width_,
                        .columns = length_,
                        .panels = head_panels_.data(),
                        .first = 0,
                        .panel_depth = width_});
  }

  // scores[i][j] = a[i] b[j], where b is packed across.
  void Scores(const float* a, std::size_t a_row, const Queries& queries, float* scores) const {
    loops_.panel_product({.a = a + queries.begin * a_row,
                          .a_row = a_row,
                          .rows = queries.Count(),
                          .panels = head_panels_.data(),
                          .panel_depth = width_,
                          .panel_columns = length_,
                          .depth = width_,
                          .columns = queries.keys,
                          .bias = nullptr,
                          .result = scores + queries.begin * score_row_,
                          .result_row = score_row_,
                          .adds = false});
  }

  // result[i] = the sum over the keys of scores[i][j] b[j], where b is packed by places.
  void Mix(const float* scores, const Queries& queries, float* result, std::size_t row) const {
    loops_.panel_product({.a = scores + queries.begin * score_row_,
                          .a_row = score_row_,
                          .rows = queries.Count(),
                          .panels = head_panels_.data(),
                          .panel_depth = length_,
                          .panel_columns = width_,
                          .depth = queries.keys,
                          .columns = width_,
                          .bias = nullptr,
                          .result = result + queries.begin * row,
                          .result_row = row,
                          .adds = false});
  }

  void ForwardHead(const Head& head) {
    const float* queries = qkv_values_.data() + head.qkv;
    const std::size_t row = 3 * features_;
    PackPlacesAcross(queries + features_, row);
    for (std::size_t begin = 0; begin < length_; begin += kScoreRows) {
      const Queries piece = QueriesFrom(begin);
      Scores(queries, row, piece, head.probabilities);
      loops_.score_softmax({.scores = head.probabilities + begin * score_row_,
                            .row = score_row_,
                            .rows = piece.Count(),
                            .columns = piece.keys,
                            .visible = is_causal_ ? begin + 1 : 0,
                            .scale = scale_});
    }
    PackPlaces(queries + 2 * features_, row, 0);
    for (std::size_t begin = 0; begin < length_; begin += kScoreRows) {
      Mix(head.probabilities, QueriesFrom(begin), context_.data() + head.context, features_);
    }
  }

  void BackwardHead(const Head& head) {
    const float* queries = qkv_values_.data() + head.qkv;
    const float* dcontext = dcontext_.data() + head.context;
    float* dqueries = dqkv_.data() + head.qkv;
    const std::size_t row = 3 * features_;
    PackPlacesAcross(queries + 2 * features_, row);
    for (std::size_t begin = 0; begin < length_; begin += kScoreRows) {
      const Queries piece = QueriesFrom(begin);
      Scores(dcontext, features_, piece, dscores_.data());
      loops_.score_softmax_gradient({.probabilities = head.probabilities + begin * score_row_,
                                     .dscores = dscores_.data() + begin * score_row_,
                                     .row = score_row_,
                                     .rows = piece.Count(),
                                     .columns = piece.keys,
                                     .visible = is_causal_ ? begin + 1 : 0,
                                     .scale = scale_});
    }
    PackPlaces(queries + features_, row, 0);
    for (std::size_t begin = 0; begin < length_; begin += kScoreRows) {
      Mix(dscores_.data(), QueriesFrom(begin), dqueries, row);
    }
    MixAcross(dscores_.data(), queries, row, dqueries + features_);
    MixAcross(head.probabilities, dcontext, features_, dqueries + 2 * features_);
  }

  // result[j] = the sum over the queries i of scores[i][j] b[i]; of a causal head, those that see
  // key j.
  void MixAcross(const float* scores, const float* b, std::size_t b_row, float* result) {
    const std::size_t keys = is_causal_ ? kScoreRows : length_;
    for (std::size_t begin = 0; begin < length_; begin += keys) {
      const std::size_t count = std::min(keys, length_ - begin);
      const std::size_t first = is_causal_ ? begin : 0;
      PackPlaces(b, b_row, first);
      loops_.pack_rows({.from = scores + first * score_row_ + begin,
                        .depth_step = score_row_,
                        .rows = count,
                        .depth = length_ - first,
                        .to = packed_rows_.data()});
      loops_.panel_gradient({.a = packed_rows_.data(),
                             .rows = count,
                             .panels = head_panels_.data(),
                             .depth = length_ - first,
                             .columns = width_,
                             .before = nullptr,
                             .result = result + begin * 3 * features_,
                             .result_row = 3 * features_,
                             .scale = 1,
                             .accumulate = false});
    }
  }

  void WeightGradient(Matrix dy, Matrix x, std::size_t places, const Projection& projection,
                      const Sink& sink) {
    float* partial = partial_.data();
    float* partial_bias = partial + dy.width * x.width;
    for (std::size_t begin = 0; begin < places; begin += kGradientPlaces) {
      const std::size_t count = std::min(kGradientPlaces, places - begin);
      const bool is_first = begin == 0;
      const bool is_last = begin + count == places;
      loops_.pack_rows({.from = dy.data + begin * dy.width,
                        .depth_step = dy.width,
                        .rows = dy.width,
                        .depth = count,
                        .to = packed_rows_.data()});
      loops_.pack_panels({.from = x.data + begin * x.width,
                          .depth_step = x.width,
                          .column_step = 1,
                          .depth = count,
                          .columns = x.width,
                          .panels = weight_panels_.data(),
                          .first = 0,
                          .panel_depth = count});
      loops_.panel_gradient({.a = packed_rows_.data(),
                             .rows = dy.width,
                             .panels = weight_panels_.data(),
                             .depth = count,
                             .columns = x.width,
                             .before = is_first ? nullptr : partial,
                             .result = is_last ? sink.values.data() + projection.weight : partial,
                             .result_row = x.width,
                             .scale = sink.scale,
                             .accumulate = is_last && sink.accumulate});
      loops_.column_sums({.x = dy.data + begin * dy.width,
                          .x_row = dy.width,
                          .rows = count,
                          .columns = dy.width,
                          .before = is_first ? nullptr : partial_bias,
                          .result = is_last ? sink.values.data() + projection.bias : partial_bias,
                          .scale = sink.scale,
                          .accumulate = is_last && sink.accumulate});
    }
  }

  const SequenceLoops& loops_;
  std::size_t length_;
  std::size_t features_;
  std::size_t heads_;
  std::size_t width_;  // of a head
  bool is_causal_;
  float scale_;
  Projection qkv_;
  Projection out_;
  std::size_t score_row_;
  std::size_t rows_;               // that the buffers of places hold
  model::FloatVector qkv_values_;  // a place: queries, keys, values, each head by head
  model::FloatVector context_;     // what the heads see, before the last projection
  model::FloatVector probabilities_;
  model::FloatVector dcontext_;
  model::FloatVector dqkv_;
  model::FloatVector dscores_;        // of one head
  model::FloatVector weight_panels_;  // weights, or values of places for their gradient
  model::FloatVector head_panels_;
  model::FloatVector packed_rows_;
  model::FloatVector partial_;  // sums of gradients; empty where one block does
};

}  // namespace

std::unique_ptr<Layer> MakeAttention(const model::AttentionLayer& layer,
                                     const LayerContext& context) {
  return std::make_unique<Attention>(layer, context);
}

}  // namespace skep::kernels
