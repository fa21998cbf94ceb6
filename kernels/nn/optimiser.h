// Optimiser: from one gradient of the whole model to its next parameters.
//
// Keeps the state of one task (velocity, moments), allocated at the first step that needs it.
// Plain SGD has a faster way that needs no gradient (Network). Called by Network; one thread.
// Source: torch.optim.SGD and Adam, PyTorch 2.x (without dampening and amsgrad); Kingma and Ba
// 2015, algorithm 1; Loshchilov and Hutter 2019, algorithm 2 (AdamW).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/nn/network_plan.h"
#include "shared/model/params.h"

namespace skep::kernels {

enum class Rule { kSgd, kAdam, kAdamW };

struct OptimiserStep {
  float learning_rate = 0;
  Rule rule = Rule::kSgd;
  float momentum = 0;      // kSgd: 0 <= momentum < 1
  bool nesterov = false;   // needs momentum
  float weight_decay = 0;  // >= 0; kSgd, kAdam: added to the gradient after clipping; kAdamW: apart
  double gradient_clip = 0;  // largest L2 norm of a batch's gradient; 0: none
  double beta1 = 0.9;        // kAdam, kAdamW
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

class Optimiser {
 public:
  // `trained`: what training moves; the rest (running statistics) stays.
  Optimiser(Isa isa, std::size_t parameters, std::vector<ParameterRange> trained);

  // A task starts at rest.
  void BeginTask();
  // Both of the model's size.
  void Step(std::span<float> params, std::span<const float> gradient, const OptimiserStep& step);

 private:
  struct Update;
  void StepSgd(const Update& update, const OptimiserStep& step);
  void StepAdam(const Update& update, const OptimiserStep& step);

  const struct TrainingLoops& loops_;
  std::size_t parameters_;
  std::vector<ParameterRange> trained_;
  std::uint64_t steps_ = 0;    // of this task
  model::FloatVector first_;   // velocity, or mean of gradients; empty until needed
  model::FloatVector second_;  // mean of squared gradients; empty until needed
};

}  // namespace skep::kernels
