// Dense layers, written once over `Vector` and compiled once an instruction set: include after
// base_body.h.
//
// Two register tiles carry everything. A dot tile holds rows x outputs sums of products along the
// inputs: x and W are both contiguous there, so W is read where it lies, in order. An outer tile
// holds rows x vectors of a sum of outer products: the gradient of W (over the batch's rows), added
// into the weights without a buffer, and the gradient of x (over the outputs). Every value of a
// result is one chain of additions whose order depends on shapes alone, never on the tile it fell
// into. Source: the measurements in docs/performance.md.
#pragma once

#include "kernels/training_loops.h"

namespace skep::kernels {
namespace {

constexpr std::size_t kDotOutputs = 4;

// Inputs of one pass of dot tiles: both operands of a tile stay in the first-level cache. Another
// number is another order of additions: it changes the last bits of wide layers.
constexpr std::size_t kInputBlock = 1024;
// Rows that share a pass over weights that are too large for the second-level cache, and stay there
// instead.
constexpr std::size_t kRowBlock = 48;
// Bytes of x that stay in the first-level cache while all outputs pass over them.
constexpr std::size_t kOuterBytes = 24 * 1024;
// Bytes of weights that are still in the second-level cache when they are passed over again.
constexpr std::size_t kWeightBytes = 640 * 1024;

struct DotTileRange {
  std::size_t row;
  std::size_t output;
  std::size_t begin;  // inputs
  std::size_t end;
};

// Where the four sums of a row go: over what an earlier pass left there, or over the bias.
struct DotEnd {
  const float* before;  // null: nothing
  float* y;
  bool rectify;
};

template <std::size_t C>
[[gnu::always_inline]] inline void FinishRow(const DotEnd& end, Vector::Quad sums) {
  if constexpr (C == 4) {
    if (end.before != nullptr) sums = Vector::QuadAdd(sums, Vector::QuadLoad(end.before));
    // Not a plain maximum: NaN stays NaN, so that a diverged model is seen.
    if (end.rectify) sums = Vector::QuadRelu(sums);
    Vector::QuadStore(end.y, sums);
  } else {
    float value[4];
    Vector::QuadStore(value, sums);
    for (std::size_t c = 0; c < C; ++c) {
      if (end.before != nullptr) value[c] += end.before[c];
      if (end.rectify && value[c] < 0) value[c] = 0;
      end.y[c] = value[c];
    }
  }
}

template <std::size_t R, std::size_t C>
[[gnu::always_inline]] inline void FinishDots(const DenseForward& op, const DotTileRange& at,
                                              const Reg (&sum)[R][C]) {
  const float* bias = op.bias == nullptr ? nullptr : op.bias + at.output;
  const bool rectify = op.relu && at.end == op.inputs;
  float* y = op.y + at.row * op.y_stride + at.output;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r, y += op.y_stride) {
    const Vector::Quad sums = Vector::Sums(sum[r][0], C > 1 ? sum[r][1 % C] : Vector::Zero(),
                                           C > 2 ? sum[r][2 % C] : Vector::Zero(),
                                           C > 3 ? sum[r][3 % C] : Vector::Zero());
    FinishRow<C>({at.begin == 0 ? bias : y, y, rectify}, sums);
  }
}

template <std::size_t R, std::size_t C>
void DotTile(const DenseForward& op, const DotTileRange& at) {
  const float* x = op.x + at.row * op.x_stride;
  const float* w = op.weights + at.output * op.inputs;
  Reg sum[R][C];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (std::size_t c = 0; c < C; ++c) sum[r][c] = Vector::Zero();
  }
  const auto step = [&](const auto& load) {
    Reg values[R];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) values[r] = load(x + r * op.x_stride);
#pragma GCC unroll 8
    for (std::size_t c = 0; c < C; ++c) {
      const Reg weight = load(w + c * op.inputs);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) sum[r][c] = Vector::Fma(values[r], weight, sum[r][c]);
    }
  };
  std::size_t k = at.begin;
  for (; k + kLanes <= at.end; k += kLanes) {
    step([k](const float* row) { return Vector::Load(row + k); });
  }
  if (k < at.end) {
    const Mask rest = Vector::FirstLanes(at.end - k);
    step([k, rest](const float* row) { return Vector::Load(row + k, rest); });
  }
  FinishDots<R, C>(op, at, sum);
}

using DotTileFunction = void (*)(const DenseForward&, const DotTileRange&);

template <std::size_t R>
DotTileFunction DotTileOf(std::size_t rows, std::size_t outputs) {
  if constexpr (R > 1) {
    if (rows < R) return DotTileOf<R - 1>(rows, outputs);
  }
  switch (outputs) {
    case 1:
      return DotTile<R, 1>;
    case 2:
      return DotTile<R, 2>;
    case 3:
      return DotTile<R, 3>;
    default:
      return DotTile<R, 4>;
  }
}

void ForwardRows(const DenseForward& op, std::size_t first_row, std::size_t rows, std::size_t begin,
                 std::size_t end) {
  const Pieces outputs(op.outputs, kDotOutputs);
  const Pieces row_pieces(rows, Vector::kDotRows);
  std::size_t output = 0;
  for (std::size_t i = 0; i < outputs.count; ++i) {
    std::size_t row = first_row;
    for (std::size_t j = 0; j < row_pieces.count; ++j) {
      DotTileOf<Vector::kDotRows>(row_pieces.Size(j), outputs.Size(i))(op,
                                                                       {row, output, begin, end});
      row += row_pieces.Size(j);
    }
    output += outputs.Size(i);
  }
}

void Forward(const DenseForward& op) {
  for (std::size_t begin = 0; begin < op.inputs; begin += kInputBlock) {
    const std::size_t end = Least(begin + kInputBlock, op.inputs);
    const bool are_weights_near = (end - begin) * op.outputs * sizeof(float) <= kWeightBytes;
    const Pieces blocks(op.rows, are_weights_near ? Vector::kDotRows : kRowBlock);
    std::size_t row = 0;
    for (std::size_t i = 0; i < blocks.count; ++i) {
      ForwardRows(op, row, blocks.Size(i), begin, end);
      row += blocks.Size(i);
    }
  }
}

// result[i][j] = the sum over t of a[i, t] * b[t, j], t ascending.
struct OuterSum {
  const float* a;
  std::size_t a_row;   // from i to i + 1
  std::size_t a_step;  // from t to t + 1
  const float* b;
  std::size_t b_step;
  std::size_t depth;
  std::size_t rows;
  std::size_t columns;
  enum class Finish { kStore, kAddScaled, kGate } finish;
  float* result;
  std::size_t result_row;
  float scale;        // kAddScaled: result = fma(scale, sum, result)
  const float* gate;  // kGate: 0 where not above 0
};

struct OuterTileRange {
  std::size_t row;
  std::size_t column;
  Mask last;  // lanes of the last vector
};

template <std::size_t R, std::size_t V>
[[gnu::always_inline]] inline void FinishOuter(const OuterSum& op, const OuterTileRange& at,
                                               const Reg (&sum)[R][V]) {
  const Mask all = Vector::FirstLanes(kLanes);
  const Reg scale = Vector::Set(op.scale);
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
    const std::size_t start = (at.row + r) * op.result_row + at.column;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < V; ++v) {
      const Mask lanes = v + 1 < V ? all : at.last;
      float* to = op.result + start + v * kLanes;
      Reg value = sum[r][v];
      if (op.finish == OuterSum::Finish::kAddScaled) {
        value = Vector::Fma(scale, value, Vector::Load(to, lanes));
      } else if (op.finish == OuterSum::Finish::kGate) {
        value = Vector::WherePositive(Vector::Load(op.gate + start + v * kLanes, lanes), value);
      }
      Vector::Store(to, value, lanes);
    }
  }
}

template <std::size_t R, std::size_t V>
void OuterTile(const OuterSum& op, const OuterTileRange& at) {
  const float* a = op.a + at.row * op.a_row;
  const float* b = op.b + at.column;
  Reg sum[R][V];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < V; ++v) sum[r][v] = Vector::Zero();
  }
  for (std::size_t t = 0; t < op.depth; ++t, a += op.a_step, b += op.b_step) {
    Reg values[V];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < V; ++v) {
      values[v] = v + 1 < V ? Vector::Load(b + v * kLanes) : Vector::Load(b + v * kLanes, at.last);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
      const Reg factor = Vector::Set(a[r * op.a_row]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < V; ++v) sum[r][v] = Vector::Fma(factor, values[v], sum[r][v]);
    }
  }
  FinishOuter<R, V>(op, at, sum);
}

using OuterTileFunction = void (*)(const OuterSum&, const OuterTileRange&);

template <std::size_t R, std::size_t V>
OuterTileFunction OuterTileOf(std::size_t rows, std::size_t vectors) {
  if constexpr (R > 1) {
    if (rows < R) return OuterTileOf<R - 1, V>(rows, vectors);
  }
  if constexpr (V > 1) {
    if (vectors < V) return OuterTileOf<R, V - 1>(rows, vectors);
  }
  return OuterTile<R, V>;
}

// Columns [begin, end) of the result; `begin` is a whole number of vectors.
void SumOuterColumns(const OuterSum& op, std::size_t begin, std::size_t end) {
  const Pieces rows(op.rows, Vector::kOuterRows);
  const Pieces vectors((end - begin + kLanes - 1) / kLanes, Vector::kOuterVectors);
  std::size_t row = 0;
  for (std::size_t i = 0; i < rows.count; ++i) {
    std::size_t column = begin;
    for (std::size_t j = 0; j < vectors.count; ++j) {
      const std::size_t next = Least(column + vectors.Size(j) * kLanes, end);
      const std::size_t last = next - column - (vectors.Size(j) - 1) * kLanes;
      OuterTileOf<Vector::kOuterRows, Vector::kOuterVectors>(rows.Size(i), vectors.Size(j))(
          op, {row, column, Vector::FirstLanes(last)});
      column = next;
    }
    row += rows.Size(i);
  }
}

// Likewise, of any number of columns.
void SumOuter(const OuterSum& op, std::size_t first, std::size_t last) {
  if (op.depth == 0) return;
  const std::size_t tile = Vector::kOuterVectors * kLanes;
  const std::size_t tiles =
      Least(kOuterBytes / (op.depth * tile * sizeof(float)), op.columns / tile) + 1;
  for (std::size_t begin = first; begin < last; begin += tiles * tile) {
    SumOuterColumns(op, begin, Least(begin + tiles * tile, last));
  }
}

OuterSum InputSum(const DenseInputGradient& op) {
  return {.a = op.dy,
          .a_row = op.dy_stride,
          .a_step = 1,
          .b = op.weights,
          .b_step = op.inputs,
          .depth = op.outputs,
          .rows = op.rows,
          .columns = op.inputs,
          .finish = op.active == nullptr ? OuterSum::Finish::kStore : OuterSum::Finish::kGate,
          .result = op.dx,
          .result_row = op.dx_stride,
          .scale = 1,
          .gate = op.active};
}

void BiasGradient(const DenseWeightGradient& op) {
  for (std::size_t o = 0; o < op.outputs; o += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, op.outputs - o));
    Reg sum = Vector::Zero();
    for (std::size_t r = 0; r < op.rows; ++r) {
      sum = Vector::Add(sum, Vector::Load(op.dy + r * op.dy_stride + o, lanes));
    }
    if (op.accumulate)
      sum = Vector::Fma(Vector::Set(op.scale), sum, Vector::Load(op.bias + o, lanes));
    Vector::Store(op.bias + o, sum, lanes);
  }
}

OuterSum WeightSum(const DenseWeightGradient& op) {
  return {.a = op.dy,
          .a_row = 1,
          .a_step = op.dy_stride,
          .b = op.x,
          .b_step = op.x_stride,
          .depth = op.rows,
          .rows = op.outputs,
          .columns = op.inputs,
          .finish = op.accumulate ? OuterSum::Finish::kAddScaled : OuterSum::Finish::kStore,
          .result = op.weights,
          .result_row = op.inputs,
          .scale = op.scale,
          .gate = nullptr};
}

void InputGradient(const DenseInputGradient& op) {
  SumOuter(InputSum(op), 0, op.inputs);
}

void WeightGradient(const DenseWeightGradient& op) {
  SumOuter(WeightSum(op), 0, op.inputs);
  if (op.bias != nullptr) BiasGradient(op);
}

// A block of columns of the weights is read for the one and, while it is near, changed by the
// other.
void Gradients(const DenseInputGradient& input, const DenseWeightGradient& weight) {
  const OuterSum input_sum = InputSum(input);
  const OuterSum weight_sum = WeightSum(weight);
  const std::size_t tile = Vector::kOuterVectors * kLanes;
  const std::size_t tiles = kWeightBytes / (input.outputs * tile * sizeof(float));
  const std::size_t block = (tiles == 0 ? 1 : tiles) * tile;
  for (std::size_t begin = 0; begin < input.inputs; begin += block) {
    const std::size_t end = Least(begin + block, input.inputs);
    SumOuter(input_sum, begin, end);
    SumOuter(weight_sum, begin, end);
  }
  if (weight.bias != nullptr) BiasGradient(weight);
}

}  // namespace
}  // namespace skep::kernels
