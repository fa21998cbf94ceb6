#include "aggregator/strategy/fed_avg.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace skep::aggregator {
namespace {

constexpr int kNotPublished = 2202;

bool IsAveraged(const model::TensorSpec& tensor) {
  return tensor.role == model::Role::kAveraged;
}

std::size_t AveragedValues(const model::Layout& layout) {
  std::size_t values = 0;
  for (const model::TensorSpec& tensor : layout.tensors()) {
    if (IsAveraged(tensor)) values += static_cast<std::size_t>(tensor.Count());
  }
  return values;
}

// The averaged tensors one after another, as an update holds them.
std::vector<float> Averaged(const model::Params& params) {
  std::vector<float> values;
  const auto& tensors = params.layout()->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!IsAveraged(tensors[i])) continue;
    values.insert(values.end(), params.Tensor(i).begin(), params.Tensor(i).end());
  }
  return values;
}

void SetAveraged(std::span<const float> values, model::Params& params) {
  const auto& tensors = params.layout()->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!IsAveraged(tensors[i])) continue;
    const std::span<float> tensor = params.Tensor(i);
    std::copy_n(values.begin(), tensor.size(), tensor.begin());
    values = values.subspan(tensor.size());
  }
}

std::vector<std::size_t> VariancesOf(const model::ModelSpec& spec) {
  std::vector<std::size_t> variances;
  for (const model::Layer& layer : spec.layers()) {
    const auto* norm = std::get_if<model::NormLayer>(&layer);
    if (norm != nullptr && norm->kind == model::NormLayer::Kind::kBatch) {
      variances.push_back(norm->running_var);
    }
  }
  return variances;
}

// "dense1.weight" (12 of 156,800): the first tensor that holds NaN or infinity.
std::optional<std::string> FirstNotFinite(const model::Params& params) {
  const auto& tensors = params.layout()->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const float> values = params.Tensor(i);
    std::size_t count = 0;
    for (const float value : values) count += std::isfinite(value) ? 0U : 1U;
    if (count > 0) {
      return fmt::format("\"{}\" ({} of {} values)", tensors[i].name, count, values.size());
    }
  }
  return std::nullopt;
}

}  // namespace

FedAvg::FedAvg(const RunSpec& spec)
    : layout_(spec.model.layout()),
      variances_(VariancesOf(spec.model)),
      scale_(spec.scale),
      rate_(spec.training.server_learning_rate),
      sum_(AveragedValues(*layout_), scale_) {}

void FedAvg::Begin() {
  sum_ = kernels::ExactSum(AveragedValues(*layout_), scale_);
  updates_ = 0;
}

void FedAvg::Accumulate(std::span<const float> update, double weight) {
  sum_.Add(update, weight);
  ++updates_;
}

void FedAvg::Merge(Strategy& other) {
  auto& part = static_cast<FedAvg&>(other);
  sum_.Merge(part.sum_);
  updates_ += part.updates_;
}

Result<model::Params> FedAvg::Finish(const model::Params& global) {
  if (updates_ == 0) return Error{kNotPublished, "no update was added", ""};
  model::Params next = global;
  if (sum_.values().size() == next.values().size()) {
    sum_.Step(global.values(), rate_, next.values());
  } else {
    // Tensors that are not averaged stand between the others.
    std::vector<float> averaged = Averaged(global);
    sum_.Step(averaged, rate_, averaged);
    SetAveraged(averaged, next);
  }
  for (const std::size_t tensor : variances_) {
    for (float& value : next.Tensor(tensor)) {
      if (value < 0) value = 0;
    }
  }
  if (const auto bad = FirstNotFinite(next)) {
    return Error{kNotPublished, "the new model is not finite in " + *bad,
                 "lower server_optimizer.learning_rate or client.learning_rate"};
  }
  return next;
}

std::unique_ptr<Strategy> MakeStrategy(const RunSpec& spec) {
  return std::make_unique<FedAvg>(spec);
}

}  // namespace skep::aggregator
