// Layers over sequences in double precision, for comparison, and the slopes of a loss by finite
// differences: one loop a formula, one example at a time, forward only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/nn/network.h"
#include "shared/model/model_spec.h"

namespace skep::kernels::test {

// Spec from its input and lines; the test fails where they do not fit.
model::ModelSpec SequenceSpec(std::vector<std::uint32_t> input, std::vector<std::string> lines);

struct SequenceBatch {
  std::vector<float> x;
  std::vector<std::int32_t> labels;  // one a place of the output
  std::size_t rows;
  [[nodiscard]] Batch View() const { return {x.data(), labels.data(), rows}; }
};
SequenceBatch RandomSequences(const model::ModelSpec& spec, std::size_t rows, std::uint64_t seed);

// Knows dense, relu, recurrent and attention layers.
class SequenceReference {
 public:
  explicit SequenceReference(const model::ModelSpec& spec) : spec_(spec) {}

  // Of one example: place by place.
  [[nodiscard]] std::vector<double> Outputs(const std::vector<double>& params,
                                            const float* row) const;
  // Mean softmax cross-entropy over all places.
  [[nodiscard]] double Loss(const std::vector<double>& params, const SequenceBatch& batch) const;
  // The derivative of the loss by one parameter, to about 1e-9.
  [[nodiscard]] double Slope(std::span<const float> params, std::size_t index,
                             const SequenceBatch& batch) const;

 private:
  const model::ModelSpec& spec_;
};

// The network's outputs, loss and gradient (of every `stride`-th parameter) against the reference,
// on every set.
struct SequenceCheck {
  std::size_t stride = 1;
  float scale = 0.7F;  // of the parameters
  double tolerance = 2e-5;
};
void CheckAgainstReference(const model::ModelSpec& spec, std::size_t rows,
                           const SequenceCheck& check);

}  // namespace skep::kernels::test
