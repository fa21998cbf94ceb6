// A plain network in double precision, for comparison: one loop a formula, no blocking, no reuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/nn/network.h"
#include "shared/base/rng.h"
#include "shared/model/model_spec.h"

namespace skep::kernels::test {

using Sizes = std::initializer_list<std::size_t>;

// Values in [-scale, scale), the same for the same seed.
std::vector<float> RandomFloats(std::size_t count, std::uint64_t seed, float scale = 1);
std::vector<std::int32_t> RandomLabels(std::size_t count, std::uint32_t classes,
                                       std::uint64_t seed);

// A vector that starts one float past its allocation's start and ends at its allocation's end:
// unaligned, and the sanitizer sees the first value read or written beyond it.
class Unaligned {
 public:
  explicit Unaligned(const std::vector<float>& values);
  [[nodiscard]] float* data() { return storage_.data() + 1; }
  [[nodiscard]] std::span<float> values() { return {data(), storage_.size() - 1}; }

 private:
  std::vector<float> storage_;
};

struct ReferenceStep {
  double loss;
  std::vector<double> gradient;
};

class ReferenceNetwork {
 public:
  explicit ReferenceNetwork(const model::ModelSpec& spec) : spec_(spec) {}

  [[nodiscard]] std::vector<double> Outputs(const std::vector<double>& params,
                                            const float* row) const;
  [[nodiscard]] double Loss(const std::vector<double>& params, const float* x,
                            const std::int32_t* y, std::size_t rows) const;
  [[nodiscard]] ReferenceStep Gradient(const std::vector<double>& params, const float* x,
                                       const std::int32_t* y, std::size_t rows) const;
  // torch.optim.SGD, with clipping before the decay.
  void Update(std::vector<double>& params, std::vector<double> gradient,
              std::vector<double>& velocity, const OptimiserStep& step) const;

 private:
  // The values after every layer, the input first.
  [[nodiscard]] std::vector<std::vector<double>> Activations(const std::vector<double>& params,
                                                             const float* row) const;
  void AddGradient(const std::vector<double>& params, const float* row, std::int32_t label,
                   double weight, std::vector<double>& gradient) const;

  const model::ModelSpec& spec_;
};

}  // namespace skep::kernels::test
