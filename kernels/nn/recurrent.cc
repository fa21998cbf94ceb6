// LSTM and GRU over whole sequences, forward and backward through time.
//
// The parts that the input adds to the gates are one product over all places before the first step;
// the recurrent product is made step by step against a matrix packed once a batch. Backward, the
// steps only carry the gradients of the gates back: the gradients of weights and input are one
// product each over all places at the end.
#include <algorithm>

#include "kernels/nn/layers.h"
#include "kernels/sequence_loops.h"
#include "shared/base/check.h"
#include "shared/model/params.h"

namespace skep::kernels {
namespace {

// An evaluation is done in pieces of as many rows as a step of training has, or as these: the
// buffers of a layer hold every step of every row.
constexpr std::size_t kFewestRows = 10;
// Rows of gates of 2^n floats would meet in few sets of the first-level cache.
constexpr std::size_t kGatesPadding = 16;

// Values of all steps: step t of row r at (t * rows + r) * row.
struct Steps {
  float* data;
  std::size_t rows;
  std::size_t row;
  [[nodiscard]] float* At(std::size_t step) const { return data + step * rows * row; }
};

class Recurrent final : public Layer {
 public:
  Recurrent(const model::RecurrentLayer& layer, const LayerContext& context)
      : loops_(SequenceLoopsFor(context.isa)),
        is_lstm_(layer.kind == model::RecurrentLayer::Kind::kLstm),
        length_(layer.length),
        inputs_(layer.inputs),
        hidden_(layer.hidden),
        gates_(std::size_t{layer.gates()} * layer.hidden),
        gates_row_(gates_ + kGatesPadding),
        weight_ih_(context.Offset(layer.weight_ih)),
        weight_hh_(context.Offset(layer.weight_hh)),
        bias_(context.Offset(layer.bias)),
        bias_hn_(is_lstm_ ? 0 : context.Offset(layer.bias_hn)),
        rows_(std::max(context.training_rows, std::min(context.capacity, kFewestRows))) {
    Allocate(context.training_rows);
  }

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    SKEP_CHECK(!pass.is_training || pass.rows <= rows_);
    SKEP_CHECK(x.stride == length_ * inputs_ && y.stride == length_ * hidden_);
    PackTransposed(pass.params.data() + weight_ih_, inputs_, input_panels_.data());
    PackTransposed(pass.params.data() + weight_hh_, hidden_, state_panels_.data());
    for (std::size_t first = 0; first < pass.rows; first += rows_) {
      ForwardRows(pass, std::min(rows_, pass.rows - first), {x.data + first * x.stride, x.stride},
                  {y.data + first * y.stride, y.stride});
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    BackwardSteps(pass, back.dy);
    if (back.dx.data != nullptr) {
      InputGradient(pass, back.dx);
      if (back.x_is_rectified) {
        ApplyReluGradient(back.x, back.dx, pass.rows, length_ * inputs_);
      }
    }
    WeightGradients(pass.rows, back.x, sink);
  }

 private:
  void Allocate(std::size_t training_rows) {
    const std::size_t places = length_ * rows_;
    input_panels_.resize(std::max(PanelFloats(inputs_, gates_), PanelFloats(gates_, inputs_)));
    state_panels_.resize(std::max(PanelFloats(hidden_, gates_), PanelFloats(gates_, hidden_)));
    gate_values_.resize(places * gates_row_);
    states_.resize((places + rows_) * hidden_);
    if (is_lstm_) {
      cells_.resize((places + rows_) * hidden_);
      cell_tanhs_.resize(places * hidden_);
    } else {
      recurrent_news_.resize(places * hidden_);
      state_gradients_.resize(length_ * training_rows * gates_row_);
    }
    recurrent_.resize(rows_ * gates_);
    dstate_.resize(training_rows * hidden_);
    carried_.resize(training_rows * hidden_);
    const std::size_t training_places = length_ * training_rows;
    packed_rows_.resize(training_places * gates_);
    packed_places_.resize(PanelFloats(training_places, std::max(inputs_, hidden_)));
  }

  [[nodiscard]] Steps Gates(std::size_t rows) { return {gate_values_.data(), rows, gates_row_}; }
  // Those of the state before each step; with one more at the end.
  [[nodiscard]] Steps States(std::size_t rows) { return {states_.data(), rows, hidden_}; }
  [[nodiscard]] Steps Cells(std::size_t rows) { return {cells_.data(), rows, hidden_}; }
  [[nodiscard]] Steps CellTanhs(std::size_t rows) { return {cell_tanhs_.data(), rows, hidden_}; }
  [[nodiscard]] Steps RecurrentNews(std::size_t rows) {
    return {recurrent_news_.data(), rows, hidden_};
  }
  // Of the parts that the state before adds to the gates; an LSTM's are those of the gates.
  [[nodiscard]] Steps StateGradients(std::size_t rows) {
    return {is_lstm_ ? gate_values_.data() : state_gradients_.data(), rows, gates_row_};
  }

  void PackTransposed(const float* weights, std::size_t width, float* panels) const {
    loops_.pack_panels({.from = weights,
                        .depth_step = 1,
                        .column_step = width,
                        .depth = width,
                        .columns = gates_,
                        .panels = panels,
                        .first = 0,
                        .panel_depth = width});
  }
  void Pack(const float* weights, std::size_t width, float* panels) const {
    loops_.pack_panels({.from = weights,
                        .depth_step = width,
                        .column_step = 1,
                        .depth = gates_,
                        .columns = width,
                        .panels = panels,
                        .first = 0,
                        .panel_depth = gates_});
  }

  void ForwardRows(const Pass& pass, std::size_t rows, ConstRows x, Rows y) {
    const Steps gates = Gates(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      loops_.panel_product({.a = x.data + r * x.stride,
                            .a_row = inputs_,
                            .rows = length_,
                            .panels = input_panels_.data(),
                            .panel_depth = inputs_,
                            .depth = inputs_,
                            .columns = gates_,
                            .bias = pass.params.data() + bias_,
                            .result = gates.data + r * gates_row_,
                            .result_row = rows * gates_row_});
    }
    std::fill_n(states_.begin(), rows * hidden_, 0.0F);
    if (is_lstm_) std::fill_n(cells_.begin(), rows * hidden_, 0.0F);
    std::fill_n(recurrent_.begin(), rows * gates_, 0.0F);
    for (std::size_t t = 0; t < length_; ++t) {
      if (t > 0) RecurrentProduct(rows, t);
      const Rows out{y.data + t * hidden_, y.stride};
      if (is_lstm_) {
        LstmForward(rows, t, out);
      } else {
        GruForward(pass, rows, t, out);
      }
    }
  }

  void RecurrentProduct(std::size_t rows, std::size_t step) {
    loops_.panel_product({.a = States(rows).At(step),
                          .a_row = hidden_,
                          .rows = rows,
                          .panels = state_panels_.data(),
                          .panel_depth = hidden_,
                          .depth = hidden_,
                          .columns = gates_,
                          .bias = nullptr,
                          .result = recurrent_.data(),
                          .result_row = gates_});
  }

  void LstmForward(std::size_t rows, std::size_t t, Rows y) {
    loops_.lstm_step({.rows = rows,
                      .hidden = hidden_,
                      .gates = Gates(rows).At(t),
                      .gates_row = gates_row_,
                      .recurrent = recurrent_.data(),
                      .cell_before = Cells(rows).At(t),
                      .cell = Cells(rows).At(t + 1),
                      .cell_tanh = CellTanhs(rows).At(t),
                      .state = States(rows).At(t + 1),
                      .y = y.data,
                      .y_row = y.stride});
  }

  void GruForward(const Pass& pass, std::size_t rows, std::size_t t, Rows y) {
    loops_.gru_step({.rows = rows,
                     .hidden = hidden_,
                     .gates = Gates(rows).At(t),
                     .gates_row = gates_row_,
                     .recurrent = recurrent_.data(),
                     .bias_new = pass.params.data() + bias_hn_,
                     .recurrent_new = RecurrentNews(rows).At(t),
                     .state_before = States(rows).At(t),
                     .state = States(rows).At(t + 1),
                     .y = y.data,
                     .y_row = y.stride});
  }

  void BackwardSteps(const Pass& pass, ConstRows dy) {
    const std::size_t rows = pass.rows;
    Pack(pass.params.data() + weight_hh_, hidden_, state_panels_.data());
    std::fill_n(dstate_.begin(), rows * hidden_, 0.0F);
    std::fill_n(carried_.begin(), rows * hidden_, 0.0F);
    for (std::size_t t = length_; t-- > 0;) {
      const ConstRows out{dy.data + t * hidden_, dy.stride};
      if (is_lstm_) {
        LstmBackward(rows, t, out);
      } else {
        GruBackward(rows, t, out);
      }
      if (t == 0) break;
      loops_.panel_product({.a = StateGradients(rows).At(t),
                            .a_row = gates_row_,
                            .rows = rows,
                            .panels = state_panels_.data(),
                            .panel_depth = gates_,
                            .depth = gates_,
                            .columns = hidden_,
                            .bias = nullptr,
                            .result = dstate_.data(),
                            .result_row = hidden_});
    }
  }

  void LstmBackward(std::size_t rows, std::size_t t, ConstRows dy) {
    loops_.lstm_step_gradient({.rows = rows,
                               .hidden = hidden_,
                               .gates = Gates(rows).At(t),
                               .gates_row = gates_row_,
                               .cell_before = Cells(rows).At(t),
                               .cell_tanh = CellTanhs(rows).At(t),
                               .dy = dy.data,
                               .dy_row = dy.stride,
                               .dstate = dstate_.data(),
                               .dcell = carried_.data()});
  }

  void GruBackward(std::size_t rows, std::size_t t, ConstRows dy) {
    loops_.gru_step_gradient({.rows = rows,
                              .hidden = hidden_,
                              .gates = Gates(rows).At(t),
                              .gates_row = gates_row_,
                              .recurrent = StateGradients(rows).At(t),
                              .recurrent_row = gates_row_,
                              .recurrent_new = RecurrentNews(rows).At(t),
                              .state_before = States(rows).At(t),
                              .dy = dy.data,
                              .dy_row = dy.stride,
                              .dstate = dstate_.data(),
                              .direct = carried_.data()});
  }

  void InputGradient(const Pass& pass, Rows dx) {
    Pack(pass.params.data() + weight_ih_, inputs_, input_panels_.data());
    for (std::size_t r = 0; r < pass.rows; ++r) {
      loops_.panel_product({.a = gate_values_.data() + r * gates_row_,
                            .a_row = pass.rows * gates_row_,
                            .rows = length_,
                            .panels = input_panels_.data(),
                            .panel_depth = gates_,
                            .depth = gates_,
                            .columns = inputs_,
                            .bias = nullptr,
                            .result = dx.data + r * dx.stride,
                            .result_row = inputs_});
    }
  }

  void WeightGradients(std::size_t rows, ConstRows x, const Sink& sink) {
    for (std::size_t t = 0; t < length_; ++t) {
      PackPlaces({x.data + t * inputs_, x.stride}, inputs_, rows, t);
    }
    PackGradients(gate_values_.data(), rows);
    WeightGradient(rows, inputs_, weight_ih_, sink);
    SumGates(gate_values_.data(), rows, gates_, bias_, sink);
    for (std::size_t t = 0; t < length_; ++t) {
      PackPlaces({States(rows).At(t), hidden_}, hidden_, rows, t);
    }
    if (!is_lstm_) {
      PackGradients(state_gradients_.data(), rows);
      SumGates(state_gradients_.data() + 2 * hidden_, rows, hidden_, bias_hn_, sink);
    }
    WeightGradient(rows, hidden_, weight_hh_, sink);
  }

  // The values of one step, of all rows.
  void PackPlaces(ConstRows from, std::size_t width, std::size_t rows, std::size_t step) {
    loops_.pack_panels({.from = from.data,
                        .depth_step = from.stride,
                        .column_step = 1,
                        .depth = rows,
                        .columns = width,
                        .panels = packed_places_.data(),
                        .first = step * rows,
                        .panel_depth = length_ * rows});
  }

  void PackGradients(const float* gradients, std::size_t rows) {
    loops_.pack_rows({.from = gradients,
                      .depth_step = gates_row_,
                      .rows = gates_,
                      .depth = length_ * rows,
                      .to = packed_rows_.data()});
  }

  void WeightGradient(std::size_t rows, std::size_t width, std::size_t weight, const Sink& sink) {
    loops_.panel_gradient({.a = packed_rows_.data(),
                           .rows = gates_,
                           .panels = packed_places_.data(),
                           .depth = length_ * rows,
                           .columns = width,
                           .result = sink.values.data() + weight,
                           .result_row = width,
                           .scale = sink.scale,
                           .accumulate = sink.accumulate});
  }

  void SumGates(const float* gradients, std::size_t rows, std::size_t width, std::size_t bias,
                const Sink& sink) {
    loops_.column_sums({.x = gradients,
                        .x_row = gates_row_,
                        .rows = length_ * rows,
                        .columns = width,
                        .result = sink.values.data() + bias,
                        .scale = sink.scale,
                        .accumulate = sink.accumulate});
  }

  const SequenceLoops& loops_;
  bool is_lstm_;
  std::size_t length_;
  std::size_t inputs_;
  std::size_t hidden_;
  std::size_t gates_;  // times hidden
  std::size_t gates_row_;
  std::size_t weight_ih_;
  std::size_t weight_hh_;
  std::size_t bias_;
  std::size_t bias_hn_;
  std::size_t rows_;                 // that the buffers of steps hold
  model::FloatVector input_panels_;  // weights, packed for the pass that goes on
  model::FloatVector state_panels_;
  model::FloatVector gate_values_;  // after the backward steps: gradients of the input's parts
  model::FloatVector states_;
  model::FloatVector cells_;
  model::FloatVector cell_tanhs_;
  model::FloatVector recurrent_news_;
  model::FloatVector state_gradients_;
  model::FloatVector recurrent_;  // of one step
  model::FloatVector dstate_;
  model::FloatVector carried_;        // gradient of the cells, or what a GRU's state lets pass by
  model::FloatVector packed_rows_;    // gradients of the gates
  model::FloatVector packed_places_;  // inputs or states
};

}  // namespace

std::unique_ptr<Layer> MakeRecurrent(const model::RecurrentLayer& layer,
                                     const LayerContext& context) {
  return std::make_unique<Recurrent>(layer, context);
}

}  // namespace skep::kernels
