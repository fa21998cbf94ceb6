// Layers without products in double precision, for comparison, and the slopes of a loss by finite
// differences: one loop a formula, forward only, a whole batch at a time.
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
model::ModelSpec LayerSpec(std::vector<std::uint32_t> input, std::vector<std::string> lines);

// Distance in units of the last place of the exact value, which is taken as no smaller than
// `floor`.
double Units(float value, double exact, double floor = 0x1p-126);

double GeluReference(double x);
double GeluSlopeReference(double x);

// A batch with labels.
struct LabelledBatch {
  std::vector<float> x;
  std::vector<std::int32_t> labels;
  std::size_t rows;
  [[nodiscard]] Batch View() const { return {x.data(), labels.data(), rows}; }
};
// Random; symbols where the model starts with an embedding.
LabelledBatch BatchFor(const model::ModelSpec& spec, std::size_t rows, std::uint64_t seed);

class PointReference {
 public:
  struct Mode {
    bool is_training = true;
    std::uint64_t step_key = 0;
    LossKind loss = LossKind::kSoftmaxCrossEntropy;
  };
  explicit PointReference(const model::ModelSpec& spec) : spec_(spec) {}

  // One vector an example.
  [[nodiscard]] std::vector<std::vector<double>> Outputs(const std::vector<double>& params,
                                                         const LabelledBatch& batch,
                                                         const Mode& mode) const;
  // Mean over the rows that count.
  [[nodiscard]] double Loss(const std::vector<double>& params, const LabelledBatch& batch,
                            const Mode& mode) const;
  // The derivative of the loss by every parameter, to about 1e-9.
  [[nodiscard]] std::vector<double> Slopes(std::span<const float> params,
                                           const LabelledBatch& batch, const Mode& mode) const;

 private:
  const model::ModelSpec& spec_;
};

// Loss, gradient, and training outputs of the network against the reference, on every set.
void CheckAgainstReference(const model::ModelSpec& spec, std::span<const float> params,
                           const LabelledBatch& batch, const PointReference::Mode& mode = {});

// A step with the gradient added straight into the parameters equals one with a gradient of its
// own, on every set.
void CheckSinks(const model::ModelSpec& spec, std::span<const float> params,
                const LabelledBatch& batch);

}  // namespace skep::kernels::test
