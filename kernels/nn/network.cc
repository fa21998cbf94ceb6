#include "kernels/nn/network.h"

#include <algorithm>
#include <utility>

#include "kernels/nn/shortcut.h"
#include "shared/base/check.h"

namespace skep::kernels {

Network::Network(const model::ModelSpec& spec, std::size_t training_rows, Isa isa, LossKind loss)
    : isa_(isa),
      training_rows_(training_rows),
      parameters_(static_cast<std::size_t>(spec.layout()->values())),
      positions_(spec.positions()),
      outputs_(spec.outputs()),
      plan_(PlanNetwork(spec)),
      loss_(loss, isa),
      optimiser_(isa, parameters_, plan_.trained) {
  SKEP_CHECK(training_rows >= 1);
  PlaceValues();
  for (const PlannedStage& stage : plan_.stages) {
    const bool is_layer = stage.kind == PlannedStage::Kind::kLayer;
    const LayerContext context{.isa = isa,
                               .layout = *spec.layout(),
                               .training_rows = training_rows_,
                               .capacity = std::max(training_rows_, evaluation_rows_),
                               .rectify = stage.rectify};
    layers_.push_back(is_layer ? MakeLayer(spec.layers()[stage.layer], context) : nullptr);
  }
}

void Network::PlaceValues() {
  std::size_t floats = 0;
  std::size_t widest = 0;
  places_.push_back({.stride = plan_.values[0].shape.Values(), .offset = 0});
  for (std::size_t i = 1; i < plan_.values.size(); ++i) {
    places_.push_back({.stride = StrideOf(plan_.values[i].shape), .offset = floats});
    floats += places_[i].stride;
    widest = std::max(widest, places_[i].stride);
  }
  evaluation_rows_ = EvaluationRows(plan_);
  const std::size_t capacity = std::max(training_rows_, evaluation_rows_);
  for (Place& place : places_) place.offset *= capacity;
  activations_.resize(floats * capacity);
  for (model::FloatVector& delta : deltas_) delta.resize(widest * training_rows_);
  std::size_t waiting = 0;
  for (const std::size_t values : plan_.slots) {
    slot_offsets_.push_back(waiting);
    waiting += values * training_rows_;
  }
  shortcuts_.resize(waiting);
}

Rows Network::ValueRows(std::size_t value) {
  return {activations_.data() + places_[value].offset, places_[value].stride};
}

ConstRows Network::InputRows(std::size_t value, const float* x) {
  if (value == 0) return {x, places_[0].stride};
  return ValueRows(value);
}

Rows Network::SlotRows(const PlannedStage& stage) {
  return {shortcuts_.data() + slot_offsets_[stage.slot], plan_.slots[stage.slot]};
}

bool Network::AreLabels(const Batch& batch) const {
  return std::all_of(batch.labels, batch.labels + batch.rows * positions_,
                     [classes = loss_.Classes(outputs_)](std::int32_t label) {
                       return label >= kNoLabel && label < classes;
                     });
}

void Network::BeginTask() {
  optimiser_.BeginTask();
}

void Network::Forward(const Pass& pass, const float* x) {
  for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
    const PlannedStage& stage = plan_.stages[i];
    const ConstRows in = InputRows(stage.input, x);
    if (stage.kind == PlannedStage::Kind::kLayer) {
      layers_[i]->Forward(pass, in, ValueRows(stage.output));
    } else if (stage.kind == PlannedStage::Kind::kAdd) {
      AddShortcut(stage.add, stage.rectify, pass.rows, InputRows(stage.kept, x), in,
                  ValueRows(stage.output));
    }
  }
}

// The gradient of the mean loss by the last value goes to `dy`.
LossResult Network::LossGradient(const Batch& batch, Rows dy) {
  const PlannedValue& last = plan_.values[Last()];
  const ConstRows y = ValueRows(Last());
  std::copy_n(y.data, batch.rows * y.stride, dy.data);
  // Places of a sequence are rows of the loss.
  const std::size_t stride = positions_ == 1 ? y.stride : outputs_;
  const LossResult result =
      loss_.Gradient(dy.data, stride, batch.rows * positions_, outputs_, batch.labels);
  if (last.is_rectified) ApplyReluGradient(y, dy, batch.rows, last.shape.Values());
  return result;
}

void Network::Backward(const Pass& pass, const float* x, const Sink& sink) {
  std::size_t turn = 0;
  Rows dy{deltas_[0].data(), places_[Last()].stride};
  for (std::size_t i = plan_.stages.size(); i-- > plan_.lowest_trained;) {
    const PlannedStage& stage = plan_.stages[i];
    const PlannedValue& in = plan_.values[stage.input];
    if (stage.kind == PlannedStage::Kind::kAdd) {
      KeepShortcutGradient(stage.add, pass.rows, dy, SlotRows(stage));
      // The gradient of what it adds to is the same, but for a ReLU there.
      if (in.is_rectified) {
        ApplyReluGradient(InputRows(stage.input, x), dy, pass.rows, in.shape.Values());
      }
      continue;
    }
    if (stage.kind == PlannedStage::Kind::kKeep) {
      if (stage.input == 0) continue;
      const ConstRows gate = in.is_rectified ? InputRows(stage.input, x) : ConstRows{};
      AddShortcutGradient(pass.rows, in.shape.Values(), SlotRows(stage), gate, dy);
      continue;
    }
    const bool is_last = i == plan_.lowest_trained;
    // Where a shortcut starts, its gradient comes first, then the ReLU.
    const bool starts_shortcut = i > 0 && plan_.stages[i - 1].kind == PlannedStage::Kind::kKeep;
    turn = 1 - turn;
    const Rows dx{is_last ? nullptr : deltas_[turn].data(), places_[stage.input].stride};
    layers_[i]->Backward(pass,
                         {.x = InputRows(stage.input, x),
                          .y = ValueRows(stage.output),
                          .dy = dy,
                          .dx = dx,
                          .x_is_rectified = in.is_rectified && !starts_shortcut},
                         sink);
    dy = dx;
  }
}

double Network::ForwardAndBackward(const Pass& pass, const Batch& batch, const Sink& sink) {
  SKEP_CHECK(batch.rows >= 1 && batch.rows <= training_rows_);
  SKEP_CHECK(pass.params.size() == parameters_ && sink.values.size() == parameters_);
  SKEP_CHECK(AreLabels(batch));
  Forward(pass, batch.x);
  const LossResult loss = LossGradient(batch, {deltas_[0].data(), places_[Last()].stride});
  Backward(pass, batch.x, sink);
  return loss.counted == 0 ? 0 : loss.sum / static_cast<double>(loss.counted);
}

double Network::Gradient(std::span<const float> params, const Batch& batch,
                         std::span<float> gradient, std::uint64_t step_key) {
  const Pass pass{.params = params, .rows = batch.rows, .is_training = true, .step_key = step_key};
  return ForwardAndBackward(pass, batch, {.values = gradient, .accumulate = false, .scale = 1});
}

double Network::TrainStep(std::span<float> params, const Batch& batch, const OptimiserStep& step,
                          std::uint64_t step_key) {
  const Pass pass{.params = params, .rows = batch.rows, .is_training = true, .step_key = step_key};
  double loss = 0;
  if (step.rule == Rule::kSgd && step.momentum == 0 && step.weight_decay == 0 &&
      step.gradient_clip == 0) {
    loss = ForwardAndBackward(pass, batch,
                              {.values = params, .accumulate = true, .scale = -step.learning_rate});
  } else {
    gradient_.resize(parameters_);
    loss = ForwardAndBackward(pass, batch, {.values = gradient_, .accumulate = false, .scale = 1});
    optimiser_.Step(params, gradient_, step);
  }
  for (const std::unique_ptr<Layer>& layer : layers_) {
    if (layer != nullptr) layer->EndStep(params);
  }
  return loss;
}

Evaluation Network::Evaluate(std::span<const float> params, const Batch& batch) {
  SKEP_CHECK(params.size() == parameters_);
  SKEP_CHECK(AreLabels(batch));
  Evaluation result;
  const std::size_t last = Last();
  for (std::size_t first = 0; first < batch.rows; first += evaluation_rows_) {
    const std::size_t rows = std::min(evaluation_rows_, batch.rows - first);
    Forward({.params = params, .rows = rows, .is_training = false, .step_key = 0},
            batch.x + first * places_[0].stride);
    const LossResult sum =
        loss_.Evaluate(ValueRows(last).data, positions_ == 1 ? places_[last].stride : outputs_,
                       rows * positions_, outputs_, batch.labels + first * positions_);
    result.loss_sum += sum.sum;
    result.counted += sum.counted;
    result.correct += sum.correct;
  }
  return result;
}

void Network::Outputs(std::span<const float> params, const float* x, std::size_t rows,
                      std::span<float> outputs) {
  const std::size_t width = positions_ * outputs_;
  SKEP_CHECK(params.size() == parameters_ && rows <= evaluation_rows_ &&
             outputs.size() == rows * width);
  Forward({.params = params, .rows = rows, .is_training = false, .step_key = 0}, x);
  const Rows y = ValueRows(Last());
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy_n(y.data + r * y.stride, width,
                outputs.begin() + static_cast<std::ptrdiff_t>(r * width));
  }
}

}  // namespace skep::kernels
