// The exact sum: weighted updates accumulated in 64-bit fixed point.
//
// Integer addition is associative, so the result depends only on *which* updates were added: not on
// their order, on the number of threads, or on whether relays summed parts of them first. Training
// loss, metrics and anything else that may be approximate does not belong here.
//
// Called by strategies (aggregator/) and relays. Not thread-safe: one accumulator per thread, then
// `Merge`. Source: Skep protocol 1.0, section 9.3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/result.h"

namespace skep::kernels {

// What a run promises about every update. The scale follows from these limits alone, so that no sum
// can overflow.
struct SumLimits {
  double max_norm;            // L2 norm of one update, > 0
  double max_weight;          // largest weight a client may report, > 0
  std::uint32_t max_reports;  // updates in one sum, >= 1
  double max_factor = 1;      // largest factor that the strategy puts on a weight, > 0
};

// The largest S <= 200 with P 2^S <= 2^50 and P max_reports 2^S <= 2^61, where P = max_norm
// max_weight max_factor. SKEP-5304 if S would be below 20, or the sum of weights could pass 2^41:
// the message names the limits to lower.
[[nodiscard]] Result<int> ScaleFor(const SumLimits& limits);

class ExactSum {
 public:
  // `dimension` values per update. Memory: 8 bytes per value.
  ExactSum(std::size_t dimension, int scale);

  // Adds weight * update. Preconditions, checked at admission: update.size() == dimension, every
  // value finite, norm and weight within the limits the scale was made for.
  void Add(std::span<const float> update, double weight);

  // Adds what `other` holds. Equal to having added its updates here. Same dimension and scale.
  void Merge(const ExactSum& other);

  // old + rate * (weighted mean of the updates), rounded once per value; new_model may be
  // old_model. Precondition: the sum of weights is not 0.
  void Step(std::span<const float> old_model, double rate, std::span<float> new_model) const;

  // The parts that relays and the store carry: the sums, and the sum of weights scaled by 2^20.
  [[nodiscard]] std::span<const std::int64_t> values() const { return sum_; }
  [[nodiscard]] std::int64_t weight() const { return weight_; }
  [[nodiscard]] int scale() const { return scale_; }

 private:
  std::vector<std::int64_t> sum_;
  std::int64_t weight_ = 0;
  int scale_;
};

}  // namespace skep::kernels
