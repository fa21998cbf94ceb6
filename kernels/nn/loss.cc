#include "kernels/nn/loss.h"

#include <algorithm>

#include "kernels/training_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

std::size_t Counted(const std::int32_t* labels, std::size_t rows) {
  return static_cast<std::size_t>(
      std::count_if(labels, labels + rows, [](std::int32_t label) { return label >= 0; }));
}

}  // namespace

Loss::Loss(LossKind kind, Isa isa) : kind_(kind), loops_(TrainingLoopsFor(isa)) {
  SKEP_CHECK(kind_ == LossKind::kSoftmaxCrossEntropy);
}

LossResult Loss::Evaluate(float* outputs, std::size_t stride, std::size_t rows, std::size_t width,
                          const std::int32_t* labels) const {
  const LossSum sum = loops_.softmax_loss({.logits = outputs,
                                           .stride = stride,
                                           .rows = rows,
                                           .classes = width,
                                           .labels = labels,
                                           .gradient = false,
                                           .scale = 0});
  return {.sum = sum.loss, .counted = Counted(labels, rows), .correct = sum.correct};
}

LossResult Loss::Gradient(float* outputs, std::size_t stride, std::size_t rows, std::size_t width,
                          const std::int32_t* labels) const {
  const std::size_t counted = Counted(labels, rows);
  const LossSum sum =
      loops_.softmax_loss({.logits = outputs,
                           .stride = stride,
                           .rows = rows,
                           .classes = width,
                           .labels = labels,
                           .gradient = true,
                           .scale = counted == 0 ? 0 : 1.0F / static_cast<float>(counted)});
  return {.sum = sum.loss, .counted = counted, .correct = 0};
}

}  // namespace skep::kernels
