// Network: one worker's workspace to train and evaluate a model, over the flat parameter vector.
//
// The layers of a ModelSpec with explicit forward and backward passes, softmax cross-entropy at the
// end, and SGD. The parameters belong to the caller, in layout order; the workspace holds
// activations and, where an optimiser needs them, one gradient and one velocity. No randomness, no
// batching, no shuffling: the trainer does that. Not for custom trainers.
//
// Called by the client's trainer and by evaluators; many clients may use one workspace one after
// the other. Not thread-safe: one workspace a worker. No threads inside, so results do not depend
// on the number of workers; they may differ in last bits between instruction sets. Allocates when
// constructed, and once more at the first step that needs a gradient or a velocity. Source: McMahan
// et al. 2017 (FedAvg's local SGD); docs/performance.md for the loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "shared/model/model_spec.h"
#include "shared/model/params.h"

namespace skep::kernels {

// One SGD step, with the meanings of torch.optim.SGD without dampening. Plain (all but the rate 0)
// is the fast path: the gradient is added into the weights without a buffer.
struct SgdStep {
  float learning_rate;
  float momentum = 0;        // 0 <= momentum < 1
  bool nesterov = false;     // needs momentum
  float weight_decay = 0;    // >= 0; added to the gradient after clipping
  double gradient_clip = 0;  // largest L2 norm of a batch's gradient; 0: none
};

struct Evaluation {
  double loss_sum = 0;      // cross-entropy, summed in row order
  std::size_t correct = 0;  // rows whose first largest output is the label's
};

class Network {
 public:
  // `max_batch` >= 1 rows at most in one step. Precondition: `isa` is available.
  Network(const model::ModelSpec& spec, std::size_t max_batch, Isa isa);

  // Forgets the velocity: a task starts at rest.
  void BeginTask();

  // One step on the mean loss of the batch; returns that loss, as it was before the step. `x`: rows
  // x inputs, row-major; `y`: labels, each in [0, outputs). 1 <= rows <= max_batch; params has the
  // layout's values. A model that diverges yields NaN or infinity, in the loss and in the
  // parameters.
  double TrainStep(std::span<float> params, const float* x, const std::int32_t* y, std::size_t rows,
                   const SgdStep& step);

  // The gradient of the mean loss of the batch, in layout order; returns the loss. Limits as for
  // TrainStep.
  double Gradient(std::span<const float> params, const float* x, const std::int32_t* y,
                  std::size_t rows, std::span<float> gradient);

  // Any number of rows. What a row contributes does not depend on the rows beside it, so pieces may
  // be evaluated apart; their sums of losses are then to be added in a fixed order.
  Evaluation Evaluate(std::span<const float> params, const float* x, const std::int32_t* y,
                      std::size_t rows);

  // The outputs of the last layer (logits) of up to max_batch rows, rows x outputs, row-major.
  void Outputs(std::span<const float> params, const float* x, std::size_t rows,
               std::span<float> outputs);

  [[nodiscard]] std::size_t max_batch() const { return max_batch_; }
  [[nodiscard]] Isa isa() const { return isa_; }

 private:
  // A dense layer, with the ReLU behind it if there is one.
  struct Stage {
    std::size_t inputs;
    std::size_t outputs;
    std::size_t weights;  // offset in the flat vector
    std::size_t bias;     // likewise
    bool has_bias;
    bool has_relu;
    std::size_t stride;      // of a row of activations, a whole number of cache lines
    std::size_t activation;  // offset of the first row in activations_
  };
  struct Sink;

  void AddStages(const model::ModelSpec& spec);
  [[nodiscard]] bool AreLabels(const std::int32_t* y, std::size_t rows) const;
  [[nodiscard]] const float* StageInput(std::size_t stage, const float* x) const;
  [[nodiscard]] std::size_t InputStride(std::size_t stage) const;
  const float* PrepareInput(const float* x, std::size_t rows);
  void Forward(std::span<const float> params, const float* x, std::size_t rows);
  double BatchLoss(const std::int32_t* y, std::size_t rows);
  void Backward(std::span<const float> params, const float* x, std::size_t rows, const Sink& sink);

  const TrainingLoops& loops_;
  Isa isa_;
  std::size_t max_batch_;
  std::size_t capacity_;  // rows of the buffers
  std::size_t values_;    // parameters
  std::size_t inputs_;
  bool rectifies_input_ = false;  // the model starts with a ReLU
  std::vector<Stage> stages_;
  model::FloatVector activations_;
  model::FloatVector input_;      // the rectified batch, or empty
  model::FloatVector deltas_[2];  // gradients of activations, in turns
  model::FloatVector gradient_;   // empty until needed
  model::FloatVector velocity_;   // empty until needed
};

}  // namespace skep::kernels
