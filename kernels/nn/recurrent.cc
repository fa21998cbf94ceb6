// LSTM and GRU over whole sequences, forward and backward through time.
//
// The recurrent product is made step by step against a matrix packed once a batch; what the input
// adds to the gates is one product over a few steps at a time, just before them. Backward, a step
// only makes the gradients of its gates and carries them back; gradients of weights and input are
// products over many steps at a time.
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
// Places, which are rows times steps, of one product of the input, and of one product of the
// gradients of weights; at least one step. Packed, the latter fill the second-level cache. Another
// number is another order of additions.
constexpr std::size_t kInputPlaces = 48;
constexpr std::size_t kGradientPlaces = 256;

std::size_t StepsOf(std::size_t places, std::size_t rows) {
  return std::max<std::size_t>(1, places / rows);
}

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
    PackTransposed(pass.params.data() + weight_ih_, inputs_, gates_, input_panels_.data());
    PackStateWeights(pass);
    for (std::size_t first = 0; first < pass.rows; first += rows_) {
      ForwardRows(pass, std::min(rows_, pass.rows - first), {x.data + first * x.stride, x.stride},
                  {y.data + first * y.stride, y.stride});
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    const std::size_t rows = pass.rows;
    Pack(pass.params.data() + weight_hh_, hidden_, state_panels_.data());
    if (back.dx.data != nullptr) {
      Pack(pass.params.data() + weight_ih_, inputs_, input_panels_.data());
    }
    std::fill_n(dstate_.begin(), rows * hidden_, 0.0F);
    std::fill_n(states_.begin(), rows * hidden_, 0.0F);
    std::fill_n(carried_.begin(), rows * hidden_, 0.0F);
    const std::size_t most = StepsOf(kGradientPlaces, rows);
    for (std::size_t end = length_; end > 0;) {
      const std::size_t steps = std::min(most, end);
      const Block block{rows, end - steps, steps, end == length_, end == steps};
      for (std::size_t t = end; t-- > block.begin;) BackwardStep(block, t, back);
      if (back.dx.data != nullptr) InputGradient(block, back.dx);
      WeightGradients(block, back, sink);
      end = block.begin;
    }
    if (back.dx.data != nullptr && back.x_is_rectified) {
      ApplyReluGradient(back.x, back.dx, rows, length_ * inputs_);
    }
  }

 private:
  // Steps whose gradients are made together, the last ones of a sequence first.
  struct Block {
    std::size_t rows;
    std::size_t begin;
    std::size_t steps;
    bool is_first;
    bool is_last;
    [[nodiscard]] std::size_t Places() const { return rows * steps; }
  };

  // Where the sums of the blocks before the last one wait.
  struct Partial {
    std::size_t weight_ih;
    std::size_t weight_hh;
    std::size_t bias;
    std::size_t bias_hn;
    std::size_t floats;
  };
  [[nodiscard]] Partial PartialOffsets() const {
    const std::size_t weight_hh = gates_ * inputs_;
    const std::size_t bias = weight_hh + gates_ * hidden_;
    return {0, weight_hh, bias, bias + gates_, bias + gates_ + hidden_};
  }

  void Allocate(std::size_t training_rows) {
    const std::size_t places = length_ * rows_;
    input_panels_.resize(std::max(PanelFloats(inputs_, gates_), PanelFloats(gates_, inputs_)));
    state_panels_.resize(
        std::max(PanelFloats(hidden_, 2 * hidden_) + PanelFloats(hidden_, gates_ - 2 * hidden_),
                 PanelFloats(gates_, hidden_)));
    gate_values_.resize(places * gates_row_);
    states_.resize(2 * rows_ * hidden_);
    if (is_lstm_) {
      cells_.resize((places + rows_) * hidden_);
    } else {
      recurrent_news_.resize(places * hidden_);
    }
    dstate_.resize(training_rows * hidden_);
    carried_.resize(training_rows * hidden_);
    const std::size_t all = length_ * training_rows;
    const std::size_t block = std::min(all, std::max(kGradientPlaces, training_rows));
    gradients_.resize(block * gates_row_);
    if (!is_lstm_) state_gradients_.resize(block * gates_row_);
    packed_rows_.resize(gates_ * block);
    packed_places_.resize(PanelFloats(block, std::max(inputs_, hidden_)));
    places_.resize(std::max(block, std::max(kInputPlaces, rows_)) * inputs_);
    if (block < all) partial_.resize(PartialOffsets().floats);
  }

  [[nodiscard]] Steps Gates(std::size_t rows) { return {gate_values_.data(), rows, gates_row_}; }
  // Before each step; only the last two are kept, y has them all.
  [[nodiscard]] float* State(std::size_t rows, std::size_t step) {
    return states_.data() + step % 2 * rows * hidden_;
  }
  [[nodiscard]] ConstRows StateBefore(ConstRows y, std::size_t step) {
    if (step == 0) return {states_.data(), hidden_};  // zeros in the backward pass
    return {y.data + (step - 1) * hidden_, y.stride};
  }
  [[nodiscard]] Steps Cells(std::size_t rows) { return {cells_.data(), rows, hidden_}; }
  [[nodiscard]] Steps RecurrentNews(std::size_t rows) {
    return {recurrent_news_.data(), rows, hidden_};
  }
  // Of the sums that gates are made of, at a step of a block.
  [[nodiscard]] float* Gradients(const Block& block, std::size_t step) {
    return gradients_.data() + (step - block.begin) * block.rows * gates_row_;
  }
  // Of the parts that the state before adds to them.
  [[nodiscard]] float* StateGradients(const Block& block, std::size_t step) {
    if (is_lstm_) return Gradients(block, step);
    return state_gradients_.data() + (step - block.begin) * block.rows * gates_row_;
  }

  void PackTransposed(const float* weights, std::size_t width, std::size_t outputs,
                      float* panels) const {
    loops_.pack_panels({.from = weights,
                        .depth_step = 1,
                        .column_step = width,
                        .depth = width,
                        .columns = outputs,
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

  // The new gate of a GRU is a matrix of its own.
  void PackStateWeights(const Pass& pass) {
    const float* weights = pass.params.data() + weight_hh_;
    const std::size_t added = is_lstm_ ? gates_ : 2 * hidden_;
    PackTransposed(weights, hidden_, added, state_panels_.data());
    if (!is_lstm_) {
      PackTransposed(weights + added * hidden_, hidden_, hidden_, NewGatePanels());
    }
  }
  [[nodiscard]] float* NewGatePanels() {
    return state_panels_.data() + PanelFloats(hidden_, 2 * hidden_);
  }

  void ForwardRows(const Pass& pass, std::size_t rows, ConstRows x, Rows y) {
    std::fill_n(states_.begin(), rows * hidden_, 0.0F);
    if (is_lstm_) std::fill_n(cells_.begin(), rows * hidden_, 0.0F);
    const std::size_t ahead = StepsOf(kInputPlaces, rows);
    for (std::size_t t = 0; t < length_; ++t) {
      if (t % ahead == 0) InputProduct(pass, rows, t, std::min(ahead, length_ - t), x);
      RecurrentProduct(pass, rows, t);
      const Rows out{y.data + t * hidden_, y.stride};
      if (is_lstm_) {
        LstmForward(rows, t, out);
      } else {
        GruForward(rows, t, out);
      }
    }
  }

  void InputProduct(const Pass& pass, std::size_t rows, std::size_t begin, std::size_t steps,
                    ConstRows x) {
    for (std::size_t t = 0; t < steps; ++t) {
      for (std::size_t r = 0; r < rows; ++r) {
        std::copy_n(x.data + r * x.stride + (begin + t) * inputs_, inputs_,
                    places_.data() + (t * rows + r) * inputs_);
      }
    }
    loops_.panel_product({.a = places_.data(),
                          .a_row = inputs_,
                          .rows = rows * steps,
                          .panels = input_panels_.data(),
                          .panel_depth = inputs_,
                          .panel_columns = gates_,
                          .depth = inputs_,
                          .columns = gates_,
                          .bias = pass.params.data() + bias_,
                          .result = Gates(rows).At(begin),
                          .result_row = gates_row_,
                          .adds = false});
  }

  void RecurrentProduct(const Pass& pass, std::size_t rows, std::size_t step) {
    PanelProduct product{.a = State(rows, step),
                         .a_row = hidden_,
                         .rows = rows,
                         .panels = state_panels_.data(),
                         .panel_depth = hidden_,
                         .panel_columns = is_lstm_ ? gates_ : 2 * hidden_,
                         .depth = hidden_,
                         .columns = is_lstm_ ? gates_ : 2 * hidden_,
                         .bias = nullptr,
                         .result = Gates(rows).At(step),
                         .result_row = gates_row_,
                         .adds = true};
    loops_.panel_product(product);
    if (is_lstm_) return;
    product.panels = NewGatePanels();
    product.panel_columns = hidden_;
    product.columns = hidden_;
    product.bias = pass.params.data() + bias_hn_;
    product.result = RecurrentNews(rows).At(step);
    product.result_row = hidden_;
    product.adds = false;
    loops_.panel_product(product);
  }

  void LstmForward(std::size_t rows, std::size_t t, Rows y) {
    loops_.lstm_step({.rows = rows,
                      .hidden = hidden_,
                      .gates = Gates(rows).At(t),
                      .gates_row = gates_row_,
                      .cell_before = Cells(rows).At(t),
                      .cell = Cells(rows).At(t + 1),
                      .state = State(rows, t + 1),
                      .y = y.data,
                      .y_row = y.stride});
  }

  void GruForward(std::size_t rows, std::size_t t, Rows y) {
    loops_.gru_step({.rows = rows,
                     .hidden = hidden_,
                     .gates = Gates(rows).At(t),
                     .gates_row = gates_row_,
                     .recurrent_new = RecurrentNews(rows).At(t),
                     .state_before = State(rows, t),
                     .state = State(rows, t + 1),
                     .y = y.data,
                     .y_row = y.stride});
  }

  void BackwardStep(const Block& block, std::size_t t, const BackwardPass& back) {
    const ConstRows dy{back.dy.data + t * hidden_, back.dy.stride};
    if (is_lstm_) {
      LstmBackward(block, t, dy);
    } else {
      GruBackward(block, t, dy, StateBefore(back.y, t));
    }
    if (t == 0) return;
    loops_.panel_product({.a = StateGradients(block, t),
                          .a_row = gates_row_,
                          .rows = block.rows,
                          .panels = state_panels_.data(),
                          .panel_depth = gates_,
                          .panel_columns = hidden_,
                          .depth = gates_,
                          .columns = hidden_,
                          .bias = nullptr,
                          .result = dstate_.data(),
                          .result_row = hidden_,
                          .adds = false});
  }

  void LstmBackward(const Block& block, std::size_t t, ConstRows dy) {
    loops_.lstm_step_gradient({.rows = block.rows,
                               .hidden = hidden_,
                               .gates = Gates(block.rows).At(t),
                               .gates_row = gates_row_,
                               .gradients = Gradients(block, t),
                               .gradients_row = gates_row_,
                               .cell_before = Cells(block.rows).At(t),
                               .cell = Cells(block.rows).At(t + 1),
                               .dy = dy.data,
                               .dy_row = dy.stride,
                               .dstate = dstate_.data(),
                               .dcell = carried_.data()});
  }

  void GruBackward(const Block& block, std::size_t t, ConstRows dy, ConstRows state_before) {
    loops_.gru_step_gradient({.rows = block.rows,
                              .hidden = hidden_,
                              .gates = Gates(block.rows).At(t),
                              .gates_row = gates_row_,
                              .gradients = Gradients(block, t),
                              .recurrent_gradients = StateGradients(block, t),
                              .gradients_row = gates_row_,
                              .recurrent_new = RecurrentNews(block.rows).At(t),
                              .state_before = state_before.data,
                              .state_before_row = state_before.stride,
                              .dy = dy.data,
                              .dy_row = dy.stride,
                              .dstate = dstate_.data(),
                              .direct = carried_.data()});
  }

  void InputGradient(const Block& block, Rows dx) {
    loops_.panel_product({.a = gradients_.data(),
                          .a_row = gates_row_,
                          .rows = block.Places(),
                          .panels = input_panels_.data(),
                          .panel_depth = gates_,
                          .panel_columns = inputs_,
                          .depth = gates_,
                          .columns = inputs_,
                          .bias = nullptr,
                          .result = places_.data(),
                          .result_row = inputs_,
                          .adds = false});
    for (std::size_t t = 0; t < block.steps; ++t) {
      for (std::size_t r = 0; r < block.rows; ++r) {
        std::copy_n(places_.data() + (t * block.rows + r) * inputs_, inputs_,
                    dx.data + r * dx.stride + (block.begin + t) * inputs_);
      }
    }
  }

  void WeightGradients(const Block& block, const BackwardPass& back, const Sink& sink) {
    const Partial partial = PartialOffsets();
    PackGradients(block, gradients_.data());
    for (std::size_t t = 0; t < block.steps; ++t) {
      PackPlaces(block, t, {back.x.data + (block.begin + t) * inputs_, back.x.stride}, inputs_);
    }
    WeightGradient(block, inputs_, weight_ih_, partial.weight_ih, sink);
    SumGates(block, gradients_.data(), gates_, bias_, partial.bias, sink);
    if (!is_lstm_) {
      PackGradients(block, state_gradients_.data());
      SumGates(block, state_gradients_.data() + 2 * hidden_, hidden_, bias_hn_, partial.bias_hn,
               sink);
    }
    for (std::size_t t = 0; t < block.steps; ++t) {
      PackPlaces(block, t, StateBefore(back.y, block.begin + t), hidden_);
    }
    WeightGradient(block, hidden_, weight_hh_, partial.weight_hh, sink);
  }

  // The values of one step, of all rows.
  void PackPlaces(const Block& block, std::size_t step, ConstRows from, std::size_t width) {
    loops_.pack_panels({.from = from.data,
                        .depth_step = from.stride,
                        .column_step = 1,
                        .depth = block.rows,
                        .columns = width,
                        .panels = packed_places_.data(),
                        .first = step * block.rows,
                        .panel_depth = block.Places()});
  }

  void PackGradients(const Block& block, const float* gradients) {
    loops_.pack_rows({.from = gradients,
                      .depth_step = gates_row_,
                      .rows = gates_,
                      .depth = block.Places(),
                      .to = packed_rows_.data()});
  }

  void WeightGradient(const Block& block, std::size_t width, std::size_t weight,
                      std::size_t partial, const Sink& sink) {
    loops_.panel_gradient(
        {.a = packed_rows_.data(),
         .rows = gates_,
         .panels = packed_places_.data(),
         .depth = block.Places(),
         .columns = width,
         .before = block.is_first ? nullptr : partial_.data() + partial,
         .result = block.is_last ? sink.values.data() + weight : partial_.data() + partial,
         .result_row = width,
         .scale = sink.scale,
         .accumulate = block.is_last && sink.accumulate});
  }

  void SumGates(const Block& block, const float* gradients, std::size_t width, std::size_t bias,
                std::size_t partial, const Sink& sink) {
    loops_.column_sums(
        {.x = gradients,
         .x_row = gates_row_,
         .rows = block.Places(),
         .columns = width,
         .before = block.is_first ? nullptr : partial_.data() + partial,
         .result = block.is_last ? sink.values.data() + bias : partial_.data() + partial,
         .scale = sink.scale,
         .accumulate = block.is_last && sink.accumulate});
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
  model::FloatVector gate_values_;
  model::FloatVector states_;
  model::FloatVector cells_;
  model::FloatVector recurrent_news_;
  model::FloatVector gradients_;  // of one block
  model::FloatVector state_gradients_;
  model::FloatVector dstate_;
  model::FloatVector carried_;        // gradient of the cells, or what a GRU's state lets pass by
  model::FloatVector places_;         // inputs of some steps, or their gradients
  model::FloatVector packed_rows_;    // gradients of the gates
  model::FloatVector packed_places_;  // inputs or states
  model::FloatVector partial_;        // sums of gradients; empty where one block does
};

}  // namespace

std::unique_ptr<Layer> MakeRecurrent(const model::RecurrentLayer& layer,
                                     const LayerContext& context) {
  return std::make_unique<Recurrent>(layer, context);
}

}  // namespace skep::kernels
