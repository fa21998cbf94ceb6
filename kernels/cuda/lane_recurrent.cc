// LSTM and GRU: what does not wait for the place before is one product over all places; the rest is
// one product and one kernel a place.
#include "kernels/cuda/grids.h"
#include "kernels/cuda/lane_layers.h"
#include "kernels/cuda/lane_linear.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

// What a layer keeps of the forward pass, and scratch of the backward one.
struct Kept {
  DevicePtr<float> gates;      // [lanes][rows][length][gates * hidden], then their gradients
  DevicePtr<float> recurrent;  // GRU: likewise, the part of W_hh h
  DevicePtr<float> cells;      // LSTM: [lanes][rows][length][hidden]
  DevicePtr<float> before;     // [lanes][rows][length][hidden]: h of the place before
  DevicePtr<float> dh;         // [lanes][rows][hidden]
  DevicePtr<float> dc;         // LSTM: likewise
};

class LaneRecurrent final : public LaneLayer {
 public:
  LaneRecurrent(const model::RecurrentLayer& layer, const LaneContext& context, const Kept& kept)
      : layer_(layer),
        is_lstm_(layer.kind == model::RecurrentLayer::Kind::kLstm),
        width_(layer.gates() * layer.hidden),
        input_{.inputs = layer.inputs,
               .outputs = width_,
               .weight = context.Offset(layer.weight_ih),
               .bias = context.Offset(layer.bias),
               .has_bias = true},
        hidden_{
            .inputs = layer.hidden, .outputs = width_, .weight = context.Offset(layer.weight_hh)},
        bias_hn_(is_lstm_ ? 0 : context.Offset(layer.bias_hn)),
        kept_(kept) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    SKEP_TRY(input_.Forward(queue, pass, pass.rows * layer_.length, x.data, kept_.gates));
    for (std::uint32_t place = 0; place < layer_.length; ++place) {
      if (place > 0) SKEP_TRY(AddRecurrent(queue, pass, place, y.data));
      SKEP_TRY(is_lstm_ ? Lstm(queue, pass, place, y.data) : Gru(queue, pass, place, y.data));
    }
    return Ok();
  }

  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    const std::uint32_t places = pass.rows * layer_.length;
    for (std::uint32_t place = layer_.length; place-- > 0;) {
      SKEP_TRY(is_lstm_ ? LstmGradient(queue, pass, place, back)
                        : GruGradient(queue, pass, place, back));
      if (place > 0) SKEP_TRY(HiddenGradient(queue, pass, place));
    }
    if (!back.dx.data.IsNull()) {
      SKEP_TRY(input_.InputGradient(queue, pass, places, kept_.gates, back.dx.data));
      SKEP_TRY(RectifyInput(queue, back, std::uint64_t{pass.lanes} * places * layer_.inputs));
    }
    const std::uint64_t lane_rows = std::uint64_t{pass.lanes} * pass.rows;
    SKEP_TRY(queue.Launch<body::ShiftPlaces>(GridFor(lane_rows * layer_.length * layer_.hidden),
                                             {.h = back.y.data,
                                              .before = kept_.before,
                                              .lane_rows = lane_rows,
                                              .length = layer_.length,
                                              .hidden = layer_.hidden}));
    SKEP_TRY(input_.ParameterGradient(queue, pass, places, back.x.data, kept_.gates, sink));
    SKEP_TRY(hidden_.ParameterGradient(queue, pass, places, kept_.before, Recurrent(), sink));
    if (is_lstm_) return Ok();
    return queue.Launch<body::SumRows>(GridFor(layer_.hidden, pass.lanes),
                                       {.x = kept_.recurrent + std::uint64_t{2} * layer_.hidden,
                                        .to = sink.values + bias_hn_,
                                        .to_stride = sink.stride,
                                        .rows = places,
                                        .width = width_,
                                        .columns = layer_.hidden,
                                        .accumulate = sink.accumulate ? 1U : 0U,
                                        .scale = sink.scale});
  }

 private:
  // Where W_hh h goes, and its gradient comes from.
  [[nodiscard]] DevicePtr<float> Recurrent() const {
    return is_lstm_ ? kept_.gates : kept_.recurrent;
  }
  [[nodiscard]] body::CellShape ShapeAt(const LanePass& pass, std::uint32_t place) const {
    return {.lane_rows = std::uint64_t{pass.lanes} * pass.rows,
            .length = layer_.length,
            .hidden = layer_.hidden,
            .place = place};
  }
  [[nodiscard]] Grid GridOf(const LanePass& pass) const {
    return GridFor(std::uint64_t{pass.lanes} * pass.rows * layer_.hidden);
  }

  // [width, rows] of a place += W_hh h of the place before; the LSTM's gates hold W_ih x already.
  Status AddRecurrent(Queue& queue, const LanePass& pass, std::uint32_t place, DevicePtr<float> h) {
    const std::uint32_t length = layer_.length;
    const std::uint32_t hidden = layer_.hidden;
    return queue.Multiply({.transpose_a = true,
                           .m = width_,
                           .n = pass.rows,
                           .k = hidden,
                           .beta = is_lstm_ ? 1.0F : 0.0F,
                           .a = pass.params + hidden_.weight,
                           .lda = hidden,
                           .a_stride = pass.params_stride,
                           .b = h + std::uint64_t{place - 1} * hidden,
                           .ldb = length * hidden,
                           .b_stride = std::uint64_t{pass.rows} * length * hidden,
                           .c = Recurrent() + std::uint64_t{place} * width_,
                           .ldc = length * width_,
                           .c_stride = std::uint64_t{pass.rows} * length * width_,
                           .batch = pass.lanes});
  }

  // dh of the place before = gradients of the gates of this one times W_hh; the GRU's holds a part
  // already.
  Status HiddenGradient(Queue& queue, const LanePass& pass, std::uint32_t place) {
    return queue.Multiply({.m = layer_.hidden,
                           .n = pass.rows,
                           .k = width_,
                           .beta = is_lstm_ ? 0.0F : 1.0F,
                           .a = pass.params + hidden_.weight,
                           .lda = layer_.hidden,
                           .a_stride = pass.params_stride,
                           .b = Recurrent() + std::uint64_t{place} * width_,
                           .ldb = layer_.length * width_,
                           .b_stride = std::uint64_t{pass.rows} * layer_.length * width_,
                           .c = kept_.dh,
                           .ldc = layer_.hidden,
                           .c_stride = std::uint64_t{pass.rows} * layer_.hidden,
                           .batch = pass.lanes});
  }

  Status Lstm(Queue& queue, const LanePass& pass, std::uint32_t place, DevicePtr<float> h) {
    return queue.Launch<body::LstmCell>(
        GridOf(pass),
        {.gates = kept_.gates, .cells = kept_.cells, .h = h, .shape = ShapeAt(pass, place)});
  }
  Status LstmGradient(Queue& queue, const LanePass& pass, std::uint32_t place,
                      const LaneBackward& back) {
    const bool is_last = place + 1 == layer_.length;
    return queue.Launch<body::LstmCellGradient>(
        GridOf(pass), {.dy = back.dy.data,
                       .dh = is_last ? DevicePtr<const float>{} : DevicePtr<const float>(kept_.dh),
                       .dc = kept_.dc,
                       .gates = kept_.gates,
                       .cells = kept_.cells,
                       .shape = ShapeAt(pass, place)});
  }
  Status Gru(Queue& queue, const LanePass& pass, std::uint32_t place, DevicePtr<float> h) {
    return queue.Launch<body::GruCell>(GridOf(pass), {.gates = kept_.gates,
                                                      .recurrent = kept_.recurrent,
                                                      .bias_hn = pass.params + bias_hn_,
                                                      .stride = pass.params_stride,
                                                      .h = h,
                                                      .rows = pass.rows,
                                                      .shape = ShapeAt(pass, place)});
  }
  Status GruGradient(Queue& queue, const LanePass& pass, std::uint32_t place,
                     const LaneBackward& back) {
    return queue.Launch<body::GruCellGradient>(GridOf(pass),
                                               {.dy = back.dy.data,
                                                .dh = kept_.dh,
                                                .is_last = place + 1 == layer_.length ? 1U : 0U,
                                                .gates = kept_.gates,
                                                .recurrent = kept_.recurrent,
                                                .h = back.y.data,
                                                .shape = ShapeAt(pass, place)});
  }

  model::RecurrentLayer layer_;
  bool is_lstm_;
  std::uint32_t width_;
  LaneLinear input_;
  LaneLinear hidden_;
  std::uint64_t bias_hn_;
  Kept kept_;
};

}  // namespace

MadeLaneLayer MakeLaneRecurrent(const model::RecurrentLayer& layer, const LaneContext& context) {
  const char* what = "the states of a recurrent layer";
  const std::uint64_t rows = std::uint64_t{context.lanes} * context.rows;
  const std::uint64_t units = rows * layer.hidden;
  const std::uint64_t all = units * layer.length;
  Kept kept;
  SKEP_ASSIGN(kept.gates, context.arena.Make<float>(all * layer.gates(), what));
  SKEP_ASSIGN(kept.before, context.arena.Make<float>(all, what));
  SKEP_ASSIGN(kept.dh, context.arena.Make<float>(units, what));
  if (layer.kind == model::RecurrentLayer::Kind::kLstm) {
    SKEP_ASSIGN(kept.cells, context.arena.Make<float>(all, what));
    SKEP_ASSIGN(kept.dc, context.arena.Make<float>(units, what));
  } else {
    SKEP_ASSIGN(kept.recurrent, context.arena.Make<float>(all * layer.gates(), what));
  }
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneRecurrent>(layer, context, kept));
}

}  // namespace skep::kernels
