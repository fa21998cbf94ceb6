#include "kernels/nn/loss.h"

#include <algorithm>

#include "kernels/point_loops.h"
#include "kernels/training_loops.h"

namespace skep::kernels {
namespace {

std::size_t Counted(const std::int32_t* labels, std::size_t rows) {
  return static_cast<std::size_t>(
      std::count_if(labels, labels + rows, [](std::int32_t label) { return label >= 0; }));
}

// NaN is never right.
bool IsRight(const float* outputs, std::size_t width, std::int32_t label) {
  if (label < 0) return false;
  if (width == 1) return outputs[0] == outputs[0] && (outputs[0] > 0) == (label == 1);
  const float* end = outputs + width;
  if (std::any_of(outputs, end, [](float value) { return value != value; })) return false;
  return std::max_element(outputs, end) - outputs == label;
}

}  // namespace

Loss::Loss(LossKind kind, Isa isa)
    : kind_(kind), loops_(TrainingLoopsFor(isa)), point_loops_(PointLoopsFor(isa)) {}

double Loss::SumOfOutputs(const PointLoss& loss) const {
  const double sum = kind_ == LossKind::kSigmoidCrossEntropy ? point_loops_.sigmoid_loss(loss)
                                                             : point_loops_.squared_loss(loss);
  return sum / static_cast<double>(loss.columns);
}

LossResult Loss::Evaluate(float* outputs, std::size_t stride, std::size_t rows, std::size_t width,
                          const std::int32_t* labels) const {
  LossResult result{.sum = 0, .counted = Counted(labels, rows), .correct = 0};
  if (kind_ == LossKind::kSoftmaxCrossEntropy) {
    const LossSum sum = loops_.softmax_loss({.logits = outputs,
                                             .stride = stride,
                                             .rows = rows,
                                             .classes = width,
                                             .labels = labels,
                                             .gradient = false,
                                             .scale = 0});
    result.sum = sum.loss;
    result.correct = sum.correct;
    return result;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    if (IsRight(outputs + r * stride, width, labels[r])) ++result.correct;
  }
  result.sum = SumOfOutputs({.outputs = outputs,
                             .stride = stride,
                             .rows = rows,
                             .columns = width,
                             .labels = labels,
                             .gradient = false,
                             .scale = 0});
  return result;
}

LossResult Loss::Gradient(float* outputs, std::size_t stride, std::size_t rows, std::size_t width,
                          const std::int32_t* labels) const {
  LossResult result{.sum = 0, .counted = Counted(labels, rows), .correct = 0};
  const double per_row = result.counted == 0 ? 0 : 1 / static_cast<double>(result.counted);
  if (kind_ == LossKind::kSoftmaxCrossEntropy) {
    result.sum = loops_
                     .softmax_loss({.logits = outputs,
                                    .stride = stride,
                                    .rows = rows,
                                    .classes = width,
                                    .labels = labels,
                                    .gradient = true,
                                    .scale = static_cast<float>(per_row)})
                     .loss;
    return result;
  }
  result.sum = SumOfOutputs({.outputs = outputs,
                             .stride = stride,
                             .rows = rows,
                             .columns = width,
                             .labels = labels,
                             .gradient = true,
                             .scale = static_cast<float>(per_row / static_cast<double>(width))});
  return result;
}

}  // namespace skep::kernels
