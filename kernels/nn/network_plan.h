// NetworkPlan: a model's layers as stages between numbered values, the same for every processor.
//
// Says which ReLU is done by the layer before it, what a shortcut keeps, and which parameters
// training moves. Pure; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "shared/model/model_spec.h"

namespace skep::kernels {

// What flows between two layers.
struct PlannedValue {
  model::Shape shape;
  bool is_rectified = false;  // the output of a ReLU
};

// A layer, or one end of a shortcut.
struct PlannedStage {
  enum class Kind { kLayer, kKeep, kAdd } kind = Kind::kLayer;
  std::size_t layer = 0;   // its index in the model
  bool rectify = false;    // kLayer, kAdd: it does the ReLU behind it, too
  model::AddLayer add;     // kAdd
  std::size_t slot = 0;    // kKeep, kAdd
  std::size_t input = 0;   // values
  std::size_t output = 0;  // kKeep: the input itself
  std::size_t kept = 0;    // kAdd: the value that it adds
};

// Neighbouring parameters [begin, end) of the flat vector.
struct ParameterRange {
  std::size_t begin;
  std::size_t end;
};

struct NetworkPlan {
  std::vector<PlannedValue> values;     // the input first
  std::vector<PlannedStage> stages;     // at least one
  std::vector<std::size_t> slots;       // values of each shortcut's gradient, at most
  std::vector<ParameterRange> trained;  // all but running statistics
  std::size_t lowest_trained = 0;       // stage; what is below has no parameters, so no gradient
};

[[nodiscard]] NetworkPlan PlanNetwork(const model::ModelSpec& spec);

// Floats from one example of a value to the next, on a CPU.
[[nodiscard]] std::size_t StrideOf(const model::Shape& shape);
// Rows of one piece of an evaluation, on a CPU.
[[nodiscard]] std::size_t EvaluationRows(const NetworkPlan& plan);

}  // namespace skep::kernels
