// The loops of convolutions and pooling, one table an instruction set.
//
// Images are channel last; `*_row` and `*_column` are distances in floats, so that a loop runs over
// an image, a part of its channels, or every second place of it alike. A convolution is a
// correlation over an image that already has its zeros around it; the gradient of its input is
// another one, over the gradient of its output. Weights are packed for a step and their gradients
// unpacked at its end. Each loop is one thread's work on one image, allocates nothing, and adds in
// an order that depends on shapes alone. Sets may differ in last bits. NaN and infinity travel
// through. Plain types and pointers only, as in sum_loops.h. Called by kernels/nn. Thread-safe:
// constants.
#pragma once

#include <cstddef>

namespace skep::kernels {

// What lies under a place of the result: tap_rows x tap_columns runs of `depth` floats, run (i, j)
// at the place's first float + i * tap_row + j * tap_column.
struct ConvTaps {
  std::size_t tap_rows;
  std::size_t tap_columns;
  std::size_t tap_row;
  std::size_t tap_column;
  std::size_t depth;
};

// Where in a layer's tensor the weights of ConvTaps lie: tap (i, j), input c of `inputs` and output
// o at i * row + j * column + c * input + o * output. A run is `inputs`, or of one row of taps all.
struct ConvWeightPlaces {
  std::size_t rows;
  std::size_t columns;
  std::size_t inputs;
  std::size_t outputs;
  std::ptrdiff_t row;
  std::ptrdiff_t column;
  std::ptrdiff_t input;
  std::ptrdiff_t output;
};

// packed = the weights in the order in which a Correlation reads them: by panels of `panel`
// registers of outputs, then by taps and inputs. Lanes without an output are 0.
struct ConvPack {
  const float* weights;
  ConvWeightPlaces places;
  std::size_t panel;
  float* packed;
};

// With G = sums, as ConvSums leaves them: weights = fma(scale, G, weights) if `accumulate`, else
// weights = G.
struct ConvUnpack {
  const float* sums;
  ConvWeightPlaces places;
  float* weights;
  float scale;
  bool accumulate;
};

// y = the sum of x * weights over the taps, + bias; then max(0, y) if `relu`; then 0 where `gate`
// is not above 0.
struct Correlation {
  const float* x;  // the first place's first float
  std::size_t x_row;
  std::size_t x_column;
  ConvTaps taps;
  const float* weights;  // packed
  std::size_t panel;     // as they were packed
  const float* bias;     // null: none
  float* y;
  std::size_t y_row;
  std::size_t y_column;
  std::size_t rows;
  std::size_t columns;
  std::size_t outputs;
  bool relu;
  const float* gate;  // with the strides of y; null: none
};

// sums[tap, k][o] (+)= the sum over all places of x under tap and k times dy at o; rows of `sums`
// are `outputs` rounded up to registers.
struct ConvSums {
  const float* x;
  std::size_t x_row;
  std::size_t x_column;
  ConvTaps taps;
  const float* dy;
  std::size_t dy_row;
  std::size_t dy_column;
  std::size_t rows;
  std::size_t columns;
  std::size_t outputs;
  float* sums;
  bool is_first;  // sums = instead of +=
};

// sums[o] (+)= the sum of dy over all places.
struct ConvBiasSums {
  const float* dy;
  std::size_t places;
  std::size_t outputs;
  float* sums;  // rounded up to registers
  bool is_first;
};

// Windows without overlap over one image whose rows lie one after the other.
struct PoolWindows {
  std::size_t in_rows;
  std::size_t in_columns;
  std::size_t channels;
  std::size_t window_rows;
  std::size_t window_columns;
  std::size_t rows;  // of the result
  std::size_t columns;
};
struct PoolForward {
  PoolWindows windows;
  const float* x;
  float* y;
};
struct PoolGradient {
  PoolWindows windows;
  const float* x;
  const float* y;
  const float* dy;
  float* dx;
  bool gate;  // dx = 0 where x is not above 0
};

struct ConvLoops {
  std::size_t lanes;  // floats of a register
  // The panel to pack with, for results of so many columns and outputs.
  std::size_t (*panel)(std::size_t columns, std::size_t outputs);
  void (*pack)(const ConvPack&);
  void (*unpack)(const ConvUnpack&);
  void (*correlate)(const Correlation&);
  void (*sums)(const ConvSums&);
  // Each output has its own channel of x, at the same distance from the first; depth is 1; packed
  // with a panel of all outputs.
  void (*correlate_depthwise)(const Correlation&);
  void (*sums_depthwise)(const ConvSums&);
  void (*bias_sums)(const ConvBiasSums&);
  // The largest value; NaN if there is one.
  void (*pool_maximum)(const PoolForward&);
  void (*pool_average)(const PoolForward&);
  // All of it to the first largest value by rows.
  void (*pool_maximum_gradient)(const PoolGradient&);
  void (*pool_average_gradient)(const PoolGradient&);
};

extern const ConvLoops kConvLoopsPortable;
extern const ConvLoops kConvLoopsAvx2;
extern const ConvLoops kConvLoopsAvx512;

}  // namespace skep::kernels
