#include "kernels/nn/network_plan.h"

#include <algorithm>
#include <variant>

#include "shared/base/check.h"

namespace skep::kernels {
namespace {

bool IsRelu(const model::Layer& layer) {
  const auto* activation = std::get_if<model::ActivationLayer>(&layer);
  return activation != nullptr && activation->kind == model::Activation::kRelu;
}

// Layers that can do the ReLU behind them as they write.
bool EndsWithRelu(const model::Layer& layer) {
  return std::holds_alternative<model::DenseLayer>(layer) ||
         std::holds_alternative<model::ConvLayer>(layer) ||
         std::holds_alternative<model::NormLayer>(layer) ||
         std::holds_alternative<model::AddLayer>(layer);
}

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

bool HasParameters(const model::Layer& layer) {
  return !std::holds_alternative<model::ActivationLayer>(layer) &&
         !std::holds_alternative<model::TransposeLayer>(layer) &&
         !std::holds_alternative<model::PoolLayer>(layer) &&
         !std::holds_alternative<model::DropoutLayer>(layer) &&
         !std::holds_alternative<model::ResidualLayer>(layer) &&
         !std::holds_alternative<model::AddLayer>(layer);
}

class Planner {
 public:
  explicit Planner(const model::ModelSpec& spec) : spec_(spec) {
    plan_.values.push_back({.shape = {.channels = spec.input_values()}});
  }

  NetworkPlan Run() {
    const std::vector<model::Layer>& layers = spec_.layers();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      PlannedStage stage;
      stage.layer = i;
      stage.input = value_;
      if (const auto* residual = std::get_if<model::ResidualLayer>(&layers[i])) {
        Keep(*residual, stage);
      } else {
        if (const auto* add = std::get_if<model::AddLayer>(&layers[i])) Add(*add, stage);
        stage.rectify = EndsWithRelu(layers[i]) && i + 1 < layers.size() && IsRelu(layers[i + 1]);
        plan_.values.push_back(
            {.shape = spec_.shapes()[i], .is_rectified = stage.rectify || IsRelu(layers[i])});
        value_ = plan_.values.size() - 1;
        if (stage.rectify) ++i;
      }
      stage.output = value_;
      plan_.stages.push_back(stage);
    }
    SKEP_CHECK(!plan_.stages.empty());
    plan_.trained = TrainedRanges(spec_);
    while (!HasParameters(layers[plan_.stages[plan_.lowest_trained].layer])) ++plan_.lowest_trained;
    return std::move(plan_);
  }

 private:
  void Keep(const model::ResidualLayer& residual, PlannedStage& stage) {
    stage.kind = PlannedStage::Kind::kKeep;
    stage.slot = residual.slot;
    kept_.push_back(value_);
    plan_.slots.resize(std::max(plan_.slots.size(), residual.slot + 1));
    plan_.slots[residual.slot] =
        std::max<std::size_t>(plan_.slots[residual.slot], residual.shape.Values());
  }
  void Add(const model::AddLayer& add, PlannedStage& stage) {
    stage.kind = PlannedStage::Kind::kAdd;
    stage.add = add;
    stage.slot = add.slot;
    stage.kept = kept_.back();
    kept_.pop_back();
  }

  const model::ModelSpec& spec_;
  NetworkPlan plan_;
  std::vector<std::size_t> kept_;  // values of open shortcuts
  std::size_t value_ = 0;
};

}  // namespace

NetworkPlan PlanNetwork(const model::ModelSpec& spec) {
  return Planner(spec).Run();
}

// Places of an example follow each other without gaps, so that they can be rows of one product.
std::size_t StrideOf(const model::Shape& shape) {
  constexpr std::size_t kFloatsPerCacheLine = 16;
  if (shape.kind != model::Shape::Kind::kValues) return shape.Values();
  return (shape.channels + kFloatsPerCacheLine - 1) / kFloatsPerCacheLine * kFloatsPerCacheLine;
}

// The parameters are read once a piece, so it has as many rows as these, and as these activations
// hold.
std::size_t EvaluationRows(const NetworkPlan& plan) {
  constexpr std::size_t kRows = 96;
  constexpr std::size_t kFloats = std::size_t{1} << 22U;
  std::size_t floats = 0;
  for (std::size_t i = 1; i < plan.values.size(); ++i) floats += StrideOf(plan.values[i].shape);
  return std::clamp<std::size_t>(kFloats / floats, 1, kRows);
}

}  // namespace skep::kernels
