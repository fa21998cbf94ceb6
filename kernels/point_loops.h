// The loops of layers without products: activations, dropout, norms, embeddings, losses of single
// outputs. One table an instruction set.
//
// As in training_loops.h: one thread, no allocation, any address, an order of additions that
// depends on shapes alone, NaN and infinity travel through, plain types only. Sums are taken in
// double. A block of values is `rows` rows of `columns` floats, `*_stride` floats apart. Called by
// kernels/nn. Thread-safe: constants.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skep::kernels {

// Arrays of one double a column are rounded up to a multiple of this.
inline constexpr std::size_t kColumnPad = 16;

// y = f(x).
struct PointForward {
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  float* y;
  std::size_t y_stride;
};

// dx = dy f'(x), and 0 where x is not above 0 if `gate`.
struct PointGradient {
  const float* dy;
  std::size_t dy_stride;
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  float* dx;
  std::size_t dx_stride;
  bool gate;
};

// Value c of row r is number r * columns + c. y = scale * x where the word of its number in Philox
// blocks [i, layer, 0, 5] has (word >> 8) >= threshold, else 0 * x; and 0 where `active` is not
// above 0 (null: not asked).
struct Dropout {
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  const float* active;
  std::size_t active_stride;
  float* y;
  std::size_t y_stride;
  std::uint64_t key;
  std::uint32_t layer;
  std::uint32_t threshold;  // at most 2^24
  float scale;
};

// Sums of columns. A mean stands as two floats, so that x - mean is good where x is far from 0.
struct NormSums {
  const float* x;
  std::size_t x_stride;
  const float* dy;  // column_products
  std::size_t dy_stride;
  std::size_t rows;
  std::size_t columns;
  const float* mean_high;  // not column_sums
  const float* mean_low;
  double* first;   // sums of x; column_products: of dy
  double* second;  // sums of (x - mean)^2; column_products: of dy (x - mean)
};

// y = (x - mean) * scale + bias, then max(0, y) if `relu`.
struct ColumnNorm {
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  const float* mean_high;
  const float* mean_low;
  const float* scale;
  const float* bias;
  float* y;
  std::size_t y_stride;
  bool relu;
};

// dx = dy * scale + (x - mean) * slope + shift, and 0 where x is not above 0 if `gate`.
struct ColumnNormGradient {
  const float* dy;
  std::size_t dy_stride;
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  const float* mean_high;
  const float* mean_low;
  const float* scale;
  const float* slope;
  const float* shift;
  float* dx;
  std::size_t dx_stride;
  bool gate;
};

// Of one row of a norm over rows.
struct Moments {
  float mean_high;
  float mean_low;
  float inverse;  // 1 / sqrt(variance + epsilon)
};

// y = (x - mean) * inverse * weight + bias with the mean and variance of the row.
struct RowNorm {
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  const float* weight;
  const float* bias;
  double epsilon;
  Moments* moments;  // results, one a row
  float* y;
  std::size_t y_stride;
  bool relu;
};

// The gradient of a norm over rows by its x, and by its weight and bias as sums over the rows.
struct RowNormGradient {
  const float* dy;
  std::size_t dy_stride;
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  const float* weight;
  const Moments* moments;
  float* dx;  // null: nobody asks for it
  std::size_t dx_stride;
  bool gate;            // dx is 0 where x is not above 0
  double* weight_sums;  // results, one a column
  double* bias_sums;
};

// values = fma(scale, sums, values) if `accumulate`, else values = sums.
struct SumsToGradient {
  const double* sums;
  std::size_t count;
  float* values;
  float scale;
  bool accumulate;
};

// y = x + the row of `vectors`: one for all rows.
struct AddVector {
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t columns;
  const float* vector;
  float* y;
  std::size_t y_stride;
};

// Row r of y = the vector of symbol symbols[r].
struct EmbeddingForward {
  const std::uint32_t* symbols;
  std::size_t rows;
  std::size_t columns;
  const float* vectors;
  float* y;  // without gaps
};

// The gradient of each symbol's vector: the sum of its rows of dy in ascending order, added or
// stored as in SumsToGradient.
struct EmbeddingGradient {
  const float* dy;            // without gaps
  const std::uint32_t* head;  // of each symbol: its first row, or kNoRow
  const std::uint32_t* next;  // of each row: the next one of its symbol, or kNoRow
  std::size_t symbols;
  std::size_t columns;
  float* vectors;
  float scale;
  bool accumulate;
};
inline constexpr std::uint32_t kNoRow = 0xFFFFFFFFU;

// Losses that treat each output by itself. The target of output c is 1 for the row's label, else 0;
// of a single output the label itself. Labels below 0: the row does not count.
struct PointLoss {
  float* outputs;  // replaced by the gradient of `scale` times the sum if `gradient`
  std::size_t stride;
  std::size_t rows;
  std::size_t columns;
  const std::int32_t* labels;
  bool gradient;
  float scale;
};

struct PointLoops {
  void (*relu)(const PointForward&);
  void (*tanh)(const PointForward&);
  void (*sigmoid)(const PointForward&);
  void (*gelu)(const PointForward&);
  void (*tanh_gradient)(const PointGradient&);
  void (*sigmoid_gradient)(const PointGradient&);
  void (*gelu_gradient)(const PointGradient&);
  void (*dropout)(const Dropout&);
  void (*column_sums)(const NormSums&);
  void (*column_squares)(const NormSums&);
  void (*column_products)(const NormSums&);
  void (*column_norm)(const ColumnNorm&);
  void (*column_norm_gradient)(const ColumnNormGradient&);
  void (*row_norm)(const RowNorm&);
  void (*row_norm_gradient)(const RowNormGradient&);
  void (*sums_to_gradient)(const SumsToGradient&);
  void (*add_vector)(const AddVector&);
  void (*embedding_forward)(const EmbeddingForward&);
  void (*embedding_gradient)(const EmbeddingGradient&);
  double (*sigmoid_loss)(const PointLoss&);  // sum over the outputs of rows that count
  double (*squared_loss)(const PointLoss&);
};

extern const PointLoops kPointLoopsPortable;
extern const PointLoops kPointLoopsAvx2;
extern const PointLoops kPointLoopsAvx512;

}  // namespace skep::kernels
