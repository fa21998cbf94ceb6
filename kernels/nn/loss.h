// Loss: how far a model's outputs are from the labels of a batch, and the gradient of that.
//
// Called by Network; one thread; no state but references to its loops. Sums in double, in row
// order. Source: torch.nn.CrossEntropyLoss, BCEWithLogitsLoss and MSELoss with their mean
// reduction, which for the last two is over rows and outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"

namespace skep::kernels {

enum class LossKind {
  kSoftmaxCrossEntropy,
  // Over all outputs; the target of an output is 1 for the label's and 0 for the others, or the
  // label itself (0 or 1) of a model with one output.
  kSigmoidCrossEntropy,
  kMeanSquaredError,  // likewise
};

// A row with this label does not count.
inline constexpr std::int32_t kNoLabel = -1;

struct LossResult {
  double sum = 0;           // over the rows that count: times `counted` of the mean
  std::size_t counted = 0;  // rows with a label
  std::size_t correct = 0;  // rows whose first largest output (of one output: whether it is above
                            // 0) is the label's; 0 with a gradient
};

class Loss {
 public:
  Loss(LossKind kind, Isa isa);

  // Labels of a model with so many outputs are below this.
  [[nodiscard]] std::int64_t Classes(std::size_t outputs) const {
    const bool is_binary = kind_ != LossKind::kSoftmaxCrossEntropy && outputs == 1;
    return is_binary ? 2 : static_cast<std::int64_t>(outputs);
  }

  // Each label in [0, outputs), for one output in [0, 1]; or kNoLabel.
  [[nodiscard]] LossResult Evaluate(float* outputs, std::size_t stride, std::size_t rows,
                                    std::size_t width, const std::int32_t* labels) const;
  // Replaces the outputs by the gradient of the mean over the rows that count; all zeros if none
  // does.
  [[nodiscard]] LossResult Gradient(float* outputs, std::size_t stride, std::size_t rows,
                                    std::size_t width, const std::int32_t* labels) const;

 private:
  // Of the losses that treat each output by itself.
  [[nodiscard]] double SumOfOutputs(const struct PointLoss& loss) const;

  LossKind kind_;
  const struct TrainingLoops& loops_;
  const struct PointLoops& point_loops_;
};

}  // namespace skep::kernels
