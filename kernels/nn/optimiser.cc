#include "kernels/nn/optimiser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/training_loops.h"
#include "kernels/vector_ops.h"
#include "shared/base/check.h"

namespace skep::kernels {

struct Optimiser::Update {
  float* params;
  const float* gradient;
  float scale;  // of the gradient: what clipping leaves of it
};

Optimiser::Optimiser(Isa isa, std::size_t parameters, std::vector<ParameterRange> trained)
    : loops_(TrainingLoopsFor(isa)), parameters_(parameters), trained_(std::move(trained)) {}

void Optimiser::BeginTask() {
  steps_ = 0;
  std::fill(first_.begin(), first_.end(), 0.0F);
  std::fill(second_.begin(), second_.end(), 0.0F);
}

void Optimiser::Step(std::span<float> params, std::span<const float> gradient,
                     const OptimiserStep& step) {
  SKEP_CHECK(params.size() == parameters_ && gradient.size() == parameters_);
  ++steps_;
  Update update{params.data(), gradient.data(), 1};
  if (step.gradient_clip > 0) {
    const double norm = MeasureUpdate(gradient).l2;
    if (norm > step.gradient_clip) update.scale = static_cast<float>(step.gradient_clip / norm);
  }
  if (step.rule == Rule::kSgd) {
    StepSgd(update, step);
  } else {
    StepAdam(update, step);
  }
}

void Optimiser::StepSgd(const Update& update, const OptimiserStep& step) {
  if (step.momentum != 0) first_.resize(parameters_);
  for (const ParameterRange& range : trained_) {
    loops_.sgd_update({.weights = update.params + range.begin,
                       .gradient = update.gradient + range.begin,
                       .velocity = step.momentum != 0 ? first_.data() + range.begin : nullptr,
                       .count = range.end - range.begin,
                       .learning_rate = step.learning_rate,
                       .gradient_scale = update.scale,
                       .weight_decay = step.weight_decay,
                       .momentum = step.momentum,
                       .nesterov = step.nesterov});
  }
}

void Optimiser::StepAdam(const Update& update, const OptimiserStep& step) {
  first_.resize(parameters_);
  second_.resize(parameters_);
  const auto steps = static_cast<double>(steps_);
  const double correction1 = 1 - std::pow(step.beta1, steps);
  const double correction2 = 1 - std::pow(step.beta2, steps);
  for (const ParameterRange& range : trained_) {
    loops_.adam_update(
        {.weights = update.params + range.begin,
         .gradient = update.gradient + range.begin,
         .first = first_.data() + range.begin,
         .second = second_.data() + range.begin,
         .count = range.end - range.begin,
         .step_size = static_cast<float>(static_cast<double>(step.learning_rate) / correction1),
         .gradient_scale = update.scale,
         .gradient_decay = step.rule == Rule::kAdam ? step.weight_decay : 0,
         .weight_factor =
             step.rule == Rule::kAdamW ? 1 - step.learning_rate * step.weight_decay : 1,
         .beta1 = static_cast<float>(step.beta1),
         .beta2 = static_cast<float>(step.beta2),
         .rest1 = static_cast<float>(1 - step.beta1),
         .rest2 = static_cast<float>(1 - step.beta2),
         .root_scale = static_cast<float>(1 / std::sqrt(correction2)),
         .epsilon = static_cast<float>(step.epsilon)});
  }
}

}  // namespace skep::kernels
