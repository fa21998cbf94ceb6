// The loops of dense layers, the softmax loss and optimisers, one table an instruction set.
//
// Matrices are row-major; `*_stride` is the distance of two rows in floats. Weights are [outputs,
// inputs] as in the flat parameter vector, at any address. Each loop is one thread's work,
// allocates nothing, and adds in an order that depends on shapes alone: a row of a result does not
// depend on how many other rows there are, except where rows are summed (gradients, losses), which
// goes in row order. Sets may differ in last bits. NaN and infinity travel through. Plain types and
// pointers only, as in sum_loops.h. Called by kernels/nn. Thread-safe: constants.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skep::kernels {

// y = x W^T + b, then max(0, y) if `relu`.
struct DenseForward {
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t inputs;
  std::size_t outputs;
  const float* weights;
  const float* bias;  // null: none
  float* y;
  std::size_t y_stride;
  bool relu;
};

// dx = dy W, and 0 where `active` is not above 0 (the derivative of the ReLU below; null: no ReLU
// there).
struct DenseInputGradient {
  const float* dy;
  std::size_t dy_stride;
  std::size_t rows;
  std::size_t inputs;
  std::size_t outputs;
  const float* weights;
  const float* active;
  float* dx;
  std::size_t dx_stride;  // of `active`, too
};

// With G = dy^T x and g = the sum of dy over the rows: weights = fma(scale, G, weights), bias
// likewise if `accumulate`; else weights = G, bias = g.
struct DenseWeightGradient {
  const float* dy;
  std::size_t dy_stride;
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t inputs;
  std::size_t outputs;
  float* weights;
  float* bias;  // null: none
  float scale;
  bool accumulate;
};

// Softmax cross-entropy of each row. Labels are below `classes`; below 0: the row does not count.
struct SoftmaxLoss {
  float* logits;  // replaced by the gradient of `scale` times the sum if `gradient`
  std::size_t stride;
  std::size_t rows;
  std::size_t classes;
  const std::int32_t* labels;
  bool gradient;
  float scale;
};
struct LossSum {
  double loss;          // sum over rows, in row order
  std::size_t correct;  // rows whose first largest logit is the label's, NaN never; 0 if `gradient`
};

// torch.optim.SGD: g = gradient_scale * gradient + weight_decay * w; with momentum v = momentum * v
// + g, and g becomes v, or g + momentum * v with `nesterov`; w -= learning_rate * g.
struct SgdUpdate {
  float* weights;
  const float* gradient;
  float* velocity;  // null: no momentum
  std::size_t count;
  float learning_rate;
  float gradient_scale;
  float weight_decay;
  float momentum;
  bool nesterov;
};

// torch.optim.Adam and AdamW: g = gradient_scale * gradient + gradient_decay * w; w *=
// weight_factor; m = beta1 * m + rest1 * g; v = beta2 * v + rest2 * g^2; w -= step_size * m /
// (root_scale * sqrt(v) + epsilon).
struct AdamUpdate {
  float* weights;
  const float* gradient;
  float* first;   // m
  float* second;  // v
  std::size_t count;
  float step_size;  // learning rate / (1 - beta1^t)
  float gradient_scale;
  float gradient_decay;
  float weight_factor;
  float beta1;
  float beta2;
  float rest1;  // 1 - beta1, not of its float: 1 - 0.999F is off by 1e-5
  float rest2;
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

struct TrainingLoops {
  void (*dense_forward)(const DenseForward&);
  void (*dense_input_gradient)(const DenseInputGradient&);
  void (*dense_weight_gradient)(const DenseWeightGradient&);
  // Both of one layer, bit for bit, with one pass over weights that are larger than a cache. The
  // gradient of the input is that of the weights as they were.
  void (*dense_gradients)(const DenseInputGradient&, const DenseWeightGradient&);
  LossSum (*softmax_loss)(const SoftmaxLoss&);
  void (*sgd_update)(const SgdUpdate&);
  void (*adam_update)(const AdamUpdate&);
};

extern const TrainingLoops kTrainingLoopsPortable;
extern const TrainingLoops kTrainingLoopsAvx2;
extern const TrainingLoops kTrainingLoopsAvx512;

}  // namespace skep::kernels
