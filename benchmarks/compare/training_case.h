// A training step that this project and its peers are timed on: model, data, order of batches and
// initial weights, made here and read by the peers from a folder of plain arrays.
//
// The data are random: only the amount of work matters, and that both sides see the same values.
// Called by compare_worker. Source: docs/performance.md, "The same step by PyTorch and JAX".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/model_spec.h"
#include "shared/model/params.h"

namespace skep::bench {

struct TrainingCase {
  std::string name;
  std::size_t batch = 0;
  model::ModelSpec spec;
  float learning_rate = 0;
  std::vector<float> x;              // examples in the order of the data: images channel-major
  std::vector<std::int32_t> labels;  // positions of each example
  std::vector<std::uint32_t> order;  // `batch` examples a step; after the last step from the start
  model::Params initial;

  [[nodiscard]] std::size_t Steps() const { return order.size() / batch; }
};

// softmax, 2nn, fedavg-cnn, char-lstm, resnet8; a batch of 1..600. SKEP-1102: another name.
[[nodiscard]] Result<TrainingCase> MakeTrainingCase(const std::string& name, std::size_t batch);

// case.json (shapes), x.f32, labels.i32, order.i32 and weights.f32 (tensors in layout order, in
// PyTorch's shapes), little-endian. The folder exists. SKEP-4001.
[[nodiscard]] Status WriteTrainingCase(const TrainingCase& training, const std::string& folder);

// Counted, not measured, of one step. Operations: a multiply and an add for each weight at each
// place, forward, for the gradient of the weights and, above the first layer with parameters, for
// the gradient of the input. Bytes: weights read forward, read and written by the update, read for
// the gradient of the input.
struct StepWork {
  double flops = 0;
  double weight_bytes = 0;
};
[[nodiscard]] StepWork CountStep(const model::ModelSpec& spec, std::size_t batch);

}  // namespace skep::bench
