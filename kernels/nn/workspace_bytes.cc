#include "kernels/nn/workspace_bytes.h"

#include <algorithm>
#include <variant>

#include "kernels/nn/network_plan.h"

namespace skep::kernels {
namespace {

constexpr std::uint64_t kFloat = sizeof(float);
constexpr std::uint64_t kLanes = 16;            // of the widest vectors
constexpr std::uint64_t kSequenceRows = 10;     // rows that a layer of sequences takes at once
constexpr std::uint64_t kGradientPlaces = 256;  // places whose gradients it makes together

std::uint64_t RoundUp(std::uint64_t floats) {
  return (floats + kLanes - 1) / kLanes * kLanes;
}

// What a layer keeps beside the values that flow through it.
class LayerBytes {
 public:
  LayerBytes(std::uint64_t training_rows, std::uint64_t capacity)
      : training_rows_(training_rows),
        capacity_(capacity),
        sequence_rows_(std::max(training_rows, std::min(capacity, kSequenceRows))) {}

  std::uint64_t operator()(const model::ConvLayer& layer) const {
    const bool is_depthwise = layer.groups > 1 && layer.groups == layer.in.channels;
    const std::uint64_t repeats = is_depthwise ? layer.out.channels / layer.in.channels : 1;
    const std::uint64_t channels = layer.in.channels * repeats;
    const std::uint64_t image = std::uint64_t{layer.in.height + 2 * layer.pad_height} *
                                (layer.in.width + 2 * layer.pad_width) * channels;
    // The gradient of the output with zeros around it, for every tap of the window.
    const std::uint64_t gradient = (std::uint64_t{layer.out.height} + 2 * layer.kernel_height) *
                                   (layer.out.width + 2 * layer.kernel_width) * layer.out.channels;
    const std::uint64_t groups = is_depthwise ? 1 : layer.groups;
    const std::uint64_t window = std::uint64_t{layer.kernel_height} * layer.kernel_width;
    const std::uint64_t inputs = is_depthwise ? 1 : layer.in.channels / groups;
    const std::uint64_t outputs = layer.out.channels / groups;
    const std::uint64_t forward = groups * window * inputs * RoundUp(outputs);
    const std::uint64_t backward =
        groups * window * (is_depthwise ? 1 : outputs) * RoundUp(is_depthwise ? channels : inputs);
    const bool is_copied = repeats > 1 || layer.pad_height + layer.pad_width > 0;
    const std::uint64_t repeated = repeats > 1 ? layer.in.Pixels() * channels : 0;
    return kFloat * ((is_copied ? image : 0) + gradient + forward + std::max(forward, backward) +
                     RoundUp(layer.out.channels) + repeated);
  }
  std::uint64_t operator()(const model::NormLayer& layer) const {
    constexpr std::uint64_t kBytesOfAMean = 24;
    const std::uint64_t means = layer.kind == model::NormLayer::Kind::kLayer ? layer.shape.Pixels()
                                : layer.kind == model::NormLayer::Kind::kGroup ? layer.groups
                                                                               : 0;
    constexpr std::uint64_t kColumns = 12;
    return capacity_ * means * kBytesOfAMean +
           kColumns * sizeof(double) * RoundUp(layer.shape.channels);
  }
  std::uint64_t operator()(const model::EmbeddingLayer& layer) const {
    return kFloat * ((capacity_ + training_rows_) * layer.length + layer.symbols);
  }
  std::uint64_t operator()(const model::PositionsLayer& layer) const {
    return sizeof(double) * layer.length * layer.features;
  }
  std::uint64_t operator()(const model::RecurrentLayer& layer) const {
    const std::uint64_t hidden = layer.hidden;
    const std::uint64_t gates = layer.gates() * hidden;
    const std::uint64_t row = gates + kLanes;
    const std::uint64_t places = layer.length * sequence_rows_;
    const std::uint64_t all = layer.length * training_rows_;
    const std::uint64_t block = std::min(all, std::max(kGradientPlaces, training_rows_));
    const bool is_lstm = layer.kind == model::RecurrentLayer::Kind::kLstm;
    const std::uint64_t weights = gates * (layer.inputs + hidden);
    std::uint64_t floats = weights + gates * 2 * kLanes;  // packed
    floats += places * (row + hidden) + 3 * sequence_rows_ * hidden;
    floats += 2 * training_rows_ * hidden;
    floats += block * (row + gates) * (is_lstm ? 1 : 2) +
              RoundUp(std::max(layer.inputs, layer.hidden)) * block;
    floats += std::max(block, sequence_rows_) * layer.inputs;
    if (block < all) floats += weights + gates + hidden;
    return kFloat * floats;
  }
  std::uint64_t operator()(const model::AttentionLayer& layer) const {
    const std::uint64_t features = layer.features;
    const std::uint64_t places = sequence_rows_ * layer.length;
    const std::uint64_t training = training_rows_ * layer.length;
    const std::uint64_t scores = layer.length * RoundUp(layer.length);
    const std::uint64_t block = std::min(training, kGradientPlaces);
    const std::uint64_t width = features / layer.heads;
    std::uint64_t floats = (places + training) * 4 * features;
    floats += (sequence_rows_ * layer.heads + 1) * scores;
    floats += std::max({features * RoundUp(3 * features), 3 * features * RoundUp(features),
                        block * RoundUp(features)});
    floats += std::max(width * RoundUp(layer.length), layer.length * RoundUp(width));
    floats += std::max(std::uint64_t{layer.length} * layer.length, block * 3 * features);
    if (block < training) floats += 3 * features * (features + 1);
    return kFloat * floats;
  }
  template <class Other>
  std::uint64_t operator()(const Other&) const {
    return 0;
  }

 private:
  std::uint64_t training_rows_;
  std::uint64_t capacity_;
  std::uint64_t sequence_rows_;
};

}  // namespace

std::size_t OptimiserVectors(const OptimiserStep& step) {
  if (step.rule != Rule::kSgd) return 3;
  if (step.momentum != 0) return 2;
  return step.weight_decay != 0 || step.gradient_clip != 0 ? 1 : 0;
}

std::uint64_t WorkspaceBytes(const model::ModelSpec& spec, std::size_t training_rows,
                             const OptimiserStep& step) {
  const NetworkPlan plan = PlanNetwork(spec);
  const std::uint64_t capacity = std::max(training_rows, EvaluationRows(plan));
  std::uint64_t floats = 0;
  std::uint64_t widest = 0;
  for (std::size_t i = 1; i < plan.values.size(); ++i) {
    const std::uint64_t stride = StrideOf(plan.values[i].shape);
    floats += stride * capacity;
    widest = std::max(widest, stride);
  }
  std::uint64_t row = 2 * widest;
  for (const std::size_t values : plan.slots) row += values;
  floats += row * training_rows + spec.layout()->values() * OptimiserVectors(step);
  std::uint64_t bytes = kFloat * floats;
  for (const PlannedStage& stage : plan.stages) {
    if (stage.kind != PlannedStage::Kind::kLayer) continue;
    bytes += std::visit(LayerBytes(training_rows, capacity), spec.layers()[stage.layer]);
  }
  return bytes;
}

}  // namespace skep::kernels
