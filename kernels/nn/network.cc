#include "kernels/nn/network.h"

#include <algorithm>
#include <utility>

#include "kernels/nn/shortcut.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

// Rows of one piece of an evaluation, whose parameters are read once a piece: as many as these, and
// as these activations hold.
constexpr std::size_t kEvaluationRows = 96;
constexpr std::size_t kEvaluationFloats = std::size_t{1} << 22U;
constexpr std::size_t kFloatsPerCacheLine = 16;

// Places of an example follow each other without gaps, so that they can be rows of one product.
std::size_t StrideOf(const model::Shape& shape) {
  if (shape.kind != model::Shape::Kind::kValues) return shape.Values();
  return (shape.channels + kFloatsPerCacheLine - 1) / kFloatsPerCacheLine * kFloatsPerCacheLine;
}

model::Shape FlatShape(std::uint32_t values) {
  return {.kind = model::Shape::Kind::kValues, .channels = values};
}

// All parameters but running statistics.
std::vector<ParameterRange> TrainedRanges(const model::ModelSpec& spec) {
  const model::Layout& layout = *spec.layout();
  std::vector<bool> is_trained(layout.tensors().size(), true);
  for (const model::Layer& layer : spec.layers()) {
    const auto* norm = std::get_if<model::NormLayer>(&layer);
    if (norm == nullptr || norm->kind != model::NormLayer::Kind::kBatch) continue;
    is_trained[norm->running_mean] = false;
    is_trained[norm->running_var] = false;
  }
  std::vector<ParameterRange> ranges;
  for (std::size_t i = 0; i < is_trained.size(); ++i) {
    if (!is_trained[i]) continue;
    const auto begin = static_cast<std::size_t>(layout.Offset(i));
    const std::size_t end = begin + static_cast<std::size_t>(layout.tensors()[i].Count());
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  }
  return ranges;
}

bool IsRelu(const model::Layer& layer) {
  const auto* activation = std::get_if<model::ActivationLayer>(&layer);
  return activation != nullptr && activation->kind == model::Activation::kRelu;
}

}  // namespace

Network::Network(const model::ModelSpec& spec, std::size_t training_rows, Isa isa, LossKind loss)
    : isa_(isa),
      training_rows_(training_rows),
      parameters_(static_cast<std::size_t>(spec.layout()->values())),
      positions_(spec.positions()),
      outputs_(spec.outputs()),
      loss_(loss, isa),
      optimiser_(isa, parameters_, TrainedRanges(spec)) {
  SKEP_CHECK(training_rows >= 1);
  AddStages(spec);
  PlaceValues();
  MakeLayers(spec);
}

std::size_t Network::AddValue(const model::Shape& shape, bool is_rectified) {
  values_.push_back(
      {.shape = shape, .stride = StrideOf(shape), .offset = 0, .is_rectified = is_rectified});
  return values_.size() - 1;
}

// First the values, then the layers: a layer is told how many rows a piece of an evaluation has,
// and that follows from all values.
void Network::AddStages(const model::ModelSpec& spec) {
  const std::vector<model::Layer>& layers = spec.layers();
  values_.push_back({.shape = FlatShape(spec.input_values()), .stride = spec.input_values()});
  std::vector<std::size_t> kept;  // values of open shortcuts
  std::size_t value = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Stage stage;
    stage.from = i;
    stage.input = value;
    if (const auto* residual = std::get_if<model::ResidualLayer>(&layers[i])) {
      stage.kind = Stage::Kind::kKeep;
      stage.slot = residual->slot;
      stage.output = value;
      kept.push_back(value);
      slot_values_.resize(std::max(slot_values_.size(), residual->slot + 1));
      slot_values_[residual->slot] =
          std::max<std::size_t>(slot_values_[residual->slot], residual->shape.Values());
    } else {
      if (const auto* add = std::get_if<model::AddLayer>(&layers[i])) {
        stage.kind = Stage::Kind::kAdd;
        stage.add = *add;
        stage.slot = add->slot;
        stage.kept = kept.back();
        kept.pop_back();
      }
      const bool joins_relu =
          EndsWithRelu(layers[i]) && i + 1 < layers.size() && IsRelu(layers[i + 1]);
      value = AddValue(spec.shapes()[i], joins_relu || IsRelu(layers[i]));
      stage.output = value;
      if (joins_relu) ++i;
    }
    stages_.push_back(std::move(stage));
  }
  SKEP_CHECK(!stages_.empty());
}

void Network::MakeLayers(const model::ModelSpec& spec) {
  for (Stage& stage : stages_) {
    if (stage.kind != Stage::Kind::kLayer) continue;
    const model::Layer& layer = spec.layers()[stage.from];
    stage.layer =
        MakeLayer(layer, {.isa = isa_,
                          .layout = *spec.layout(),
                          .training_rows = training_rows_,
                          .capacity = std::max(training_rows_, evaluation_rows_),
                          .rectify = EndsWithRelu(layer) && values_[stage.output].is_rectified});
  }
}

void Network::PlaceValues() {
  std::size_t floats = 0;
  std::size_t widest = 0;
  for (std::size_t i = 1; i < values_.size(); ++i) {
    floats += values_[i].stride;
    widest = std::max(widest, values_[i].stride);
  }
  evaluation_rows_ = std::clamp<std::size_t>(kEvaluationFloats / floats, 1, kEvaluationRows);
  const std::size_t capacity = std::max(training_rows_, evaluation_rows_);
  std::size_t offset = 0;
  for (std::size_t i = 1; i < values_.size(); ++i) {
    values_[i].offset = offset;
    offset += values_[i].stride * capacity;
  }
  activations_.resize(offset);
  for (model::FloatVector& delta : deltas_) delta.resize(widest * training_rows_);
  std::size_t waiting = 0;
  for (const std::size_t values : slot_values_) {
    slot_offsets_.push_back(waiting);
    waiting += values * training_rows_;
  }
  shortcuts_.resize(waiting);
}

Rows Network::ValueRows(std::size_t value) {
  return {activations_.data() + values_[value].offset, values_[value].stride};
}

ConstRows Network::InputRows(std::size_t value, const float* x) {
  if (value == 0) return {x, values_[0].stride};
  return ValueRows(value);
}

Rows Network::SlotRows(const Stage& stage) {
  return {shortcuts_.data() + slot_offsets_[stage.slot], slot_values_[stage.slot]};
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
  for (const Stage& stage : stages_) {
    const ConstRows in = InputRows(stage.input, x);
    if (stage.kind == Stage::Kind::kLayer) {
      stage.layer->Forward(pass, in, ValueRows(stage.output));
    } else if (stage.kind == Stage::Kind::kAdd) {
      AddShortcut(stage.add, pass.rows, InputRows(stage.kept, x), in, ValueRows(stage.output));
    }
  }
}

// The gradient of the mean loss by the last value goes to `dy`.
LossResult Network::LossGradient(const Batch& batch, Rows dy) {
  const Value& last = values_[stages_.back().output];
  const ConstRows y = ValueRows(stages_.back().output);
  std::copy_n(y.data, batch.rows * last.stride, dy.data);
  // Places of a sequence are rows of the loss.
  const std::size_t stride = positions_ == 1 ? last.stride : outputs_;
  const LossResult result =
      loss_.Gradient(dy.data, stride, batch.rows * positions_, outputs_, batch.labels);
  if (last.is_rectified) ApplyReluGradient(y, dy, batch.rows, last.shape.Values());
  return result;
}

void Network::Backward(const Pass& pass, const float* x, const Sink& sink) {
  std::size_t turn = 0;
  Rows dy{deltas_[0].data(), values_[stages_.back().output].stride};
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const Stage& stage = stages_[i];
    const Value& in = values_[stage.input];
    if (stage.kind == Stage::Kind::kAdd) {
      KeepShortcutGradient(stage.add, pass.rows, dy, SlotRows(stage));
      continue;  // the gradient of what it adds to is the same
    }
    if (stage.kind == Stage::Kind::kKeep) {
      if (stage.input == 0) continue;
      AddShortcutGradient(pass.rows, in.shape.Values(), SlotRows(stage), dy);
      if (in.is_rectified) {
        ApplyReluGradient(InputRows(stage.input, x), dy, pass.rows, in.shape.Values());
      }
      continue;
    }
    const bool is_first = stage.input == 0;
    // Where a shortcut starts, its gradient comes first, then the ReLU.
    const bool starts_shortcut = i > 0 && stages_[i - 1].kind == Stage::Kind::kKeep;
    turn = 1 - turn;
    const Rows dx{is_first ? nullptr : deltas_[turn].data(), in.stride};
    stage.layer->Backward(pass,
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
  const LossResult loss =
      LossGradient(batch, {deltas_[0].data(), values_[stages_.back().output].stride});
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
  for (const Stage& stage : stages_) {
    if (stage.layer != nullptr) stage.layer->EndStep(params);
  }
  return loss;
}

Evaluation Network::Evaluate(std::span<const float> params, const Batch& batch) {
  SKEP_CHECK(params.size() == parameters_);
  SKEP_CHECK(AreLabels(batch));
  Evaluation result;
  const std::size_t last = stages_.back().output;
  for (std::size_t first = 0; first < batch.rows; first += evaluation_rows_) {
    const std::size_t rows = std::min(evaluation_rows_, batch.rows - first);
    Forward({.params = params, .rows = rows, .is_training = false, .step_key = 0},
            batch.x + first * values_[0].stride);
    const LossResult sum =
        loss_.Evaluate(ValueRows(last).data, positions_ == 1 ? values_[last].stride : outputs_,
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
  const Rows y = ValueRows(stages_.back().output);
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy_n(y.data + r * y.stride, width,
                outputs.begin() + static_cast<std::ptrdiff_t>(r * width));
  }
}

}  // namespace skep::kernels
