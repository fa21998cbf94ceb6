// Network: one worker's workspace to train and evaluate a model on the CPU, over the flat parameter
// vector.
//
// The layers of a ModelSpec with explicit forward and backward passes, a loss at the end, and an
// optimiser. The parameters belong to the caller, in layout order; the workspace holds activations
// and, where an optimiser needs them, one gradient and its state. No batching, no shuffling: the
// trainer does that. Not for custom trainers.
//
// Called by the client's trainer and by evaluators; many clients may use one workspace one after
// the other. Not thread-safe: one workspace a worker. No threads inside, so results do not depend
// on the number of workers; they may differ in last bits between instruction sets. Allocates when
// constructed, and once more at the first step that needs a gradient or a state. Source: McMahan
// et al. 2017 (FedAvg's local SGD); docs/performance.md for the loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/nn/layer.h"
#include "kernels/nn/loss.h"
#include "kernels/nn/network_plan.h"
#include "kernels/nn/optimiser.h"
#include "shared/model/model_spec.h"
#include "shared/model/params.h"

namespace skep::kernels {

// Examples: rows x inputs, row-major in the order of the data (images channel-major), and rows x
// positions labels, each in [0, outputs) or kNoLabel.
struct Batch {
  const float* x;
  const std::int32_t* labels;
  std::size_t rows;
};

struct Evaluation {
  double loss_sum = 0;      // of the labels that count, summed in row order
  std::size_t counted = 0;  // labels that are not kNoLabel
  std::size_t correct = 0;  // of them, those that the first largest output names
};

class Network {
 public:
  // `training_rows` >= 1 rows at most in one step; 1 if it only evaluates. Precondition: `isa` is
  // available.
  Network(const model::ModelSpec& spec, std::size_t training_rows, Isa isa,
          LossKind loss = LossKind::kSoftmaxCrossEntropy);

  // Forgets the optimiser's state: a task starts at rest.
  void BeginTask();

  // One step on the mean loss of the batch; returns that loss, as it was before the step (0 if no
  // label counts). 1 <= rows <= training_rows; params has the layout's values. `step_key` keys what
  // the step draws: StepKey of shared/base/rng.h. A model that diverges yields NaN or infinity, in
  // the loss and in the parameters.
  double TrainStep(std::span<float> params, const Batch& batch, const OptimiserStep& step,
                   std::uint64_t step_key = 0);

  // The gradient of the mean loss of the batch, in layout order, 0 where training moves nothing;
  // returns the loss. Limits as for TrainStep.
  double Gradient(std::span<const float> params, const Batch& batch, std::span<float> gradient,
                  std::uint64_t step_key = 0);

  // Any number of rows. What a row contributes does not depend on the rows beside it, so pieces may
  // be evaluated apart; their sums of losses are then to be added in a fixed order.
  Evaluation Evaluate(std::span<const float> params, const Batch& batch);

  // The outputs (logits) of up to evaluation_rows() rows, rows x positions x outputs.
  void Outputs(std::span<const float> params, const float* x, std::size_t rows,
               std::span<float> outputs);

  [[nodiscard]] std::size_t training_rows() const { return training_rows_; }
  [[nodiscard]] std::size_t evaluation_rows() const { return evaluation_rows_; }
  [[nodiscard]] Isa isa() const { return isa_; }

 private:
  // Where a value's examples lie in activations_; not those of the input.
  struct Place {
    std::size_t stride = 0;
    std::size_t offset = 0;
  };

  void PlaceValues();
  [[nodiscard]] std::size_t Last() const { return plan_.stages.back().output; }
  [[nodiscard]] bool AreLabels(const Batch& batch) const;
  [[nodiscard]] Rows ValueRows(std::size_t value);
  [[nodiscard]] ConstRows InputRows(std::size_t value, const float* x);
  [[nodiscard]] Rows SlotRows(const PlannedStage& stage);
  void Forward(const Pass& pass, const float* x);
  LossResult LossGradient(const Batch& batch, Rows dy);
  void Backward(const Pass& pass, const float* x, const Sink& sink);
  double ForwardAndBackward(const Pass& pass, const Batch& batch, const Sink& sink);

  Isa isa_;
  std::size_t training_rows_;
  std::size_t evaluation_rows_ = 0;
  std::size_t parameters_;
  std::size_t positions_;
  std::size_t outputs_;
  NetworkPlan plan_;
  std::vector<std::unique_ptr<Layer>> layers_;  // one a stage; null: an end of a shortcut
  std::vector<Place> places_;                   // one a value
  std::vector<std::size_t> slot_offsets_;       // of it in shortcuts_
  model::FloatVector activations_;
  model::FloatVector deltas_[2];  // gradients of values, in turns
  model::FloatVector shortcuts_;  // gradients that wait for the start of their shortcut
  model::FloatVector gradient_;   // of the parameters; empty until needed
  Loss loss_;
  Optimiser optimiser_;
};

}  // namespace skep::kernels
