// The loops of layers over sequences, recurrent ones and attention: products with matrices packed
// in panels, gates and the softmax of scores; one table an instruction set.
//
// A product here is used at many places or many times a step, so it pays to pack its right side
// once: panels of a few vectors of columns, one behind the other, each in the order in which a tile
// of the product reads it. Dense layers, which use their weights once a pass, read them where they
// lie (training_loops.h). Every value of a result is one chain of additions in ascending depth,
// whatever the rows beside it. Rules and types as in training_loops.h. Called by kernels/nn.
// Thread-safe: constants.
#pragma once

#include <cstddef>

namespace skep::kernels {

// Floats that a packed matrix takes with any instruction set.
constexpr std::size_t PanelFloats(std::size_t depth, std::size_t columns) {
  return depth * ((columns + 15) / 16 * 16);
}

// Packs values (k, n), k < depth, n < columns, from `from` + k * depth_step + n * column_step, as
// the rows `first` and following of a matrix of `panel_depth` rows. One of the steps is 1.
struct PanelPack {
  const float* from;
  std::size_t depth_step;
  std::size_t column_step;
  std::size_t depth;
  std::size_t columns;
  float* panels;
  std::size_t first;
  std::size_t panel_depth;
};

// result[i][n] = the sum over k < depth of a[i][k] * panels(k, n), plus bias[n] or, if `adds`, plus
// what result held.
struct PanelProduct {
  const float* a;
  std::size_t a_row;  // from i to i + 1
  std::size_t rows;
  const float* panels;
  std::size_t panel_depth;    // rows of the packed matrix, of which the first `depth` count
  std::size_t panel_columns;  // its columns, of which the first `columns` are made
  std::size_t depth;
  std::size_t columns;
  const float* bias;  // null: none
  float* result;
  std::size_t result_row;
  bool adds;  // then no bias
};

// Packs values (i, k), i < rows, k < depth, from `from` + k * depth_step + i: the left side of a
// PanelGradient. `to` has rows * depth floats.
struct RowPack {
  const float* from;
  std::size_t depth_step;
  std::size_t rows;
  std::size_t depth;
  float* to;
};

// With G[i][n] = the sum over k of a(i, k) * panels(k, n), and before[i][n] added: result =
// fma(scale, G, result) if `accumulate`, else result = G. `a` as RowPack leaves it.
struct PanelGradient {
  const float* a;
  std::size_t rows;
  const float* panels;
  std::size_t depth;
  std::size_t columns;
  const float* before;  // null: nothing; rows as those of result, which it may be
  float* result;
  std::size_t result_row;
  float scale;
  bool accumulate;
};

// With g[n] = before[n] + the sum over the rows of x: result = fma(scale, g, result) if
// `accumulate`, else result = g.
struct ColumnSums {
  const float* x;
  std::size_t x_row;
  std::size_t rows;
  std::size_t columns;
  const float* before;  // null: nothing; may be result
  float* result;
  float scale;
  bool accumulate;
};

// One step of an LSTM. States of a step are rows x hidden without gaps.
struct LstmStep {
  std::size_t rows;
  std::size_t hidden;
  float* gates;  // their sums; replaced by input, forget, cell, output gate
  std::size_t gates_row;
  const float* cell_before;
  float* cell;
  float* state;
  float* y;  // the state again
  std::size_t y_row;
};
struct LstmStepGradient {
  std::size_t rows;
  std::size_t hidden;
  const float* gates;
  std::size_t gates_row;
  float* gradients;  // receives those of the sums that the gates are made of
  std::size_t gradients_row;
  const float* cell_before;
  const float* cell;
  const float* dy;
  std::size_t dy_row;
  const float* dstate;  // from the step behind; it adds to dy
  float* dcell;         // from the step behind; replaced by that for the step before
};

// One step of a GRU.
struct GruStep {
  std::size_t rows;
  std::size_t hidden;
  float* gates;  // sums of reset and update gate and the input's part of the new one; replaced by
                 // the gates
  std::size_t gates_row;
  const float* recurrent_new;  // the part of the state before in the new gate, with its bias
  const float* state_before;
  float* state;
  float* y;
  std::size_t y_row;
};
struct GruStepGradient {
  std::size_t rows;
  std::size_t hidden;
  const float* gates;
  std::size_t gates_row;
  float* gradients;            // receives those of the parts of the input
  float* recurrent_gradients;  // and of the parts of the state before
  std::size_t gradients_row;   // of both
  const float* recurrent_new;
  const float* state_before;
  std::size_t state_before_row;
  const float* dy;
  std::size_t dy_row;
  const float* dstate;  // through the recurrent product of the step behind; it adds to dy
  float* direct;        // what the step behind let pass by; replaced by what this one does
};

// Rows of scores become their softmax: row i over the first `visible` + i columns at most, or all
// if `visible` is 0; the others become 0.
struct ScoreSoftmax {
  float* scores;
  std::size_t row;  // from one to the next
  std::size_t rows;
  std::size_t columns;
  std::size_t visible;
  float scale;  // of the scores
};
// dscores[i] = scale * p[i] * (dscores[i] - the sum over n of dscores[i][n] * p[i][n]).
struct ScoreSoftmaxGradient {
  const float* probabilities;
  float* dscores;
  std::size_t row;
  std::size_t rows;
  std::size_t columns;
  std::size_t visible;
  float scale;
};

struct SequenceLoops {
  void (*pack_panels)(const PanelPack&);
  void (*panel_product)(const PanelProduct&);
  void (*pack_rows)(const RowPack&);
  void (*panel_gradient)(const PanelGradient&);
  void (*column_sums)(const ColumnSums&);
  void (*lstm_step)(const LstmStep&);
  void (*lstm_step_gradient)(const LstmStepGradient&);
  void (*gru_step)(const GruStep&);
  void (*gru_step_gradient)(const GruStepGradient&);
  void (*score_softmax)(const ScoreSoftmax&);
  void (*score_softmax_gradient)(const ScoreSoftmaxGradient&);
};

extern const SequenceLoops kSequenceLoopsPortable;
extern const SequenceLoops kSequenceLoopsAvx2;
extern const SequenceLoops kSequenceLoopsAvx512;

}  // namespace skep::kernels
