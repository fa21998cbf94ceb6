#include "kernels/nn/network.h"

#include <algorithm>

#include "kernels/training_loops.h"
#include "kernels/vector_ops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

// Rows of one piece of an evaluation; weights are read once a piece.
constexpr std::size_t kEvaluationRows = 96;
constexpr std::size_t kFloatsPerCacheLine = 16;

std::size_t WholeLines(std::size_t floats) {
  return (floats + kFloatsPerCacheLine - 1) / kFloatsPerCacheLine * kFloatsPerCacheLine;
}

}  // namespace

// Where the gradient of the weights goes: into a vector of its own, or times `scale` straight into
// the weights.
struct Network::Sink {
  std::span<float> values;
  bool accumulate;
  float scale;
};

Network::Network(const model::ModelSpec& spec, std::size_t max_batch, Isa isa)
    : loops_(TrainingLoopsFor(isa)),
      isa_(isa),
      max_batch_(max_batch),
      capacity_(std::max(max_batch, kEvaluationRows)),
      values_(static_cast<std::size_t>(spec.layout()->values())),
      inputs_(spec.input_values()) {
  SKEP_CHECK(max_batch >= 1);
  AddStages(spec);
  std::size_t floats = 0;
  std::size_t widest = 0;
  for (Stage& stage : stages_) {
    stage.activation = floats;
    floats += stage.stride * capacity_;
    widest = std::max(widest, stage.stride);
  }
  activations_.resize(floats);
  if (rectifies_input_) input_.resize(inputs_ * capacity_);
  if (stages_.size() > 1 || stages_.back().has_relu) {
    for (model::FloatVector& delta : deltas_) delta.resize(widest * max_batch_);
  }
}

void Network::AddStages(const model::ModelSpec& spec) {
  for (const model::Layer& layer : spec.layers()) {
    if (const auto* dense = std::get_if<model::DenseLayer>(&layer)) {
      stages_.push_back({.inputs = dense->inputs,
                         .outputs = dense->outputs,
                         .weights = static_cast<std::size_t>(spec.layout()->Offset(dense->weight)),
                         .bias = dense->has_bias
                                     ? static_cast<std::size_t>(spec.layout()->Offset(dense->bias))
                                     : 0,
                         .has_bias = dense->has_bias,
                         .has_relu = false,
                         .stride = WholeLines(dense->outputs),
                         .activation = 0});
    } else if (std::holds_alternative<model::ReluLayer>(layer)) {
      // A second ReLU changes nothing.
      (stages_.empty() ? rectifies_input_ : stages_.back().has_relu) = true;
    }
  }
  SKEP_CHECK(!stages_.empty());
}

bool Network::AreLabels(const std::int32_t* y, std::size_t rows) const {
  const auto classes = static_cast<std::int64_t>(stages_.back().outputs);
  return std::all_of(y, y + rows,
                     [classes](std::int32_t label) { return label >= 0 && label < classes; });
}

void Network::BeginTask() {
  std::fill(velocity_.begin(), velocity_.end(), 0.0F);
}

const float* Network::StageInput(std::size_t stage, const float* x) const {
  return stage == 0 ? x : activations_.data() + stages_[stage - 1].activation;
}

std::size_t Network::InputStride(std::size_t stage) const {
  return stage == 0 ? inputs_ : stages_[stage - 1].stride;
}

const float* Network::PrepareInput(const float* x, std::size_t rows) {
  if (!rectifies_input_) return x;
  std::transform(x, x + rows * inputs_, input_.begin(),
                 [](float value) { return value < 0 ? 0 : value; });
  return input_.data();
}

void Network::Forward(std::span<const float> params, const float* x, std::size_t rows) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    loops_.dense_forward({.x = StageInput(i, x),
                          .x_stride = InputStride(i),
                          .rows = rows,
                          .inputs = stage.inputs,
                          .outputs = stage.outputs,
                          .weights = params.data() + stage.weights,
                          .bias = stage.has_bias ? params.data() + stage.bias : nullptr,
                          .y = activations_.data() + stage.activation,
                          .y_stride = stage.stride,
                          .relu = stage.has_relu});
  }
}

// The mean loss; leaves its gradient in the place of the logits.
double Network::BatchLoss(const std::int32_t* y, std::size_t rows) {
  const Stage& last = stages_.back();
  float* logits = activations_.data() + last.activation;
  if (last.has_relu) std::copy_n(logits, rows * last.stride, deltas_[0].begin());
  const LossSum sum = loops_.softmax_loss({.logits = logits,
                                           .stride = last.stride,
                                           .rows = rows,
                                           .classes = last.outputs,
                                           .labels = y,
                                           .gradient = true});
  if (last.has_relu) {
    for (std::size_t i = 0; i < rows * last.stride; ++i)
      logits[i] = deltas_[0][i] > 0 ? logits[i] : 0;
  }
  return sum.loss / static_cast<double>(rows);
}

void Network::Backward(std::span<const float> params, const float* x, std::size_t rows,
                       const Sink& sink) {
  const float* dy = activations_.data() + stages_.back().activation;
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const Stage& stage = stages_[i];
    float* dx = i == 0 ? nullptr : deltas_[i % 2].data();
    // With the weights as they were, so before they change.
    if (i > 0) {
      const Stage& below = stages_[i - 1];
      loops_.dense_input_gradient({.dy = dy,
                                   .dy_stride = stage.stride,
                                   .rows = rows,
                                   .inputs = stage.inputs,
                                   .outputs = stage.outputs,
                                   .weights = params.data() + stage.weights,
                                   .active = below.has_relu ? StageInput(i, x) : nullptr,
                                   .dx = dx,
                                   .dx_stride = below.stride});
    }
    loops_.dense_weight_gradient(
        {.dy = dy,
         .dy_stride = stage.stride,
         .x = StageInput(i, x),
         .x_stride = InputStride(i),
         .rows = rows,
         .inputs = stage.inputs,
         .outputs = stage.outputs,
         .weights = sink.values.data() + stage.weights,
         .bias = stage.has_bias ? sink.values.data() + stage.bias : nullptr,
         .scale = sink.scale,
         .accumulate = sink.accumulate});
    dy = dx;
  }
}

double Network::Gradient(std::span<const float> params, const float* x, const std::int32_t* y,
                         std::size_t rows, std::span<float> gradient) {
  SKEP_CHECK(rows >= 1 && rows <= max_batch_ && params.size() == values_ &&
             gradient.size() == values_);
  SKEP_CHECK(AreLabels(y, rows));
  const float* input = PrepareInput(x, rows);
  Forward(params, input, rows);
  const double loss = BatchLoss(y, rows);
  Backward(params, input, rows, {.values = gradient, .accumulate = false, .scale = 1});
  return loss;
}

double Network::TrainStep(std::span<float> params, const float* x, const std::int32_t* y,
                          std::size_t rows, const SgdStep& step) {
  if (step.momentum == 0 && step.weight_decay == 0 && step.gradient_clip == 0) {
    SKEP_CHECK(rows >= 1 && rows <= max_batch_ && params.size() == values_);
    SKEP_CHECK(AreLabels(y, rows));
    const float* input = PrepareInput(x, rows);
    Forward(params, input, rows);
    const double loss = BatchLoss(y, rows);
    Backward(params, input, rows,
             {.values = params, .accumulate = true, .scale = -step.learning_rate});
    return loss;
  }
  gradient_.resize(values_);
  if (step.momentum != 0) velocity_.resize(values_);
  const double loss = Gradient(params, x, y, rows, gradient_);
  float scale = 1;
  if (step.gradient_clip > 0) {
    const double norm = MeasureUpdate(gradient_).l2;
    if (norm > step.gradient_clip) scale = static_cast<float>(step.gradient_clip / norm);
  }
  loops_.sgd_update({.weights = params.data(),
                     .gradient = gradient_.data(),
                     .velocity = step.momentum != 0 ? velocity_.data() : nullptr,
                     .count = values_,
                     .learning_rate = step.learning_rate,
                     .gradient_scale = scale,
                     .weight_decay = step.weight_decay,
                     .momentum = step.momentum,
                     .nesterov = step.nesterov});
  return loss;
}

Evaluation Network::Evaluate(std::span<const float> params, const float* x, const std::int32_t* y,
                             std::size_t rows) {
  SKEP_CHECK(params.size() == values_);
  SKEP_CHECK(AreLabels(y, rows));
  Evaluation result;
  const Stage& last = stages_.back();
  for (std::size_t first = 0; first < rows; first += kEvaluationRows) {
    const std::size_t count = std::min(kEvaluationRows, rows - first);
    Forward(params, PrepareInput(x + first * inputs_, count), count);
    const LossSum sum = loops_.softmax_loss({.logits = activations_.data() + last.activation,
                                             .stride = last.stride,
                                             .rows = count,
                                             .classes = last.outputs,
                                             .labels = y + first,
                                             .gradient = false});
    result.loss_sum += sum.loss;
    result.correct += sum.correct;
  }
  return result;
}

void Network::Outputs(std::span<const float> params, const float* x, std::size_t rows,
                      std::span<float> outputs) {
  const Stage& last = stages_.back();
  SKEP_CHECK(params.size() == values_ && rows <= max_batch_ &&
             outputs.size() == rows * last.outputs);
  Forward(params, PrepareInput(x, rows), rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = activations_.data() + last.activation + r * last.stride;
    std::copy_n(row, last.outputs, outputs.begin() + static_cast<std::ptrdiff_t>(r * last.outputs));
  }
}

}  // namespace skep::kernels
