#include "kernels/fixed_point.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/backend.h"
#include "kernels/sum_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

constexpr int kSmallestScale = 20;
constexpr int kLargestScale = 200;
constexpr int kWeightBits = 20;

// The sum of weights, scaled by 2^20, then stays within 2^61.
constexpr double kLargestTotalWeight = 0x1p41;

// Every set gives the same integers, so the widest serves all runs, whatever `isa` they pin.
const SumLoops& Loops() {
  static const SumLoops& loops = SumLoopsFor(DetectIsa());
  return loops;
}

std::string Product(const SumLimits& limits) {
  std::string text = fmt::format("max_norm {} x max_weight {}", limits.max_norm, limits.max_weight);
  if (limits.max_factor != 1) text += fmt::format(" x strategy factor {}", limits.max_factor);
  return text + fmt::format(" x {} reports", limits.max_reports);
}

}  // namespace

Result<int> ScaleFor(const SumLimits& limits) {
  // Doubling is exact; a logarithm could be off by one at a power of two, and two builds would then
  // disagree.
  double one = limits.max_norm * limits.max_weight * limits.max_factor;
  double all = one * limits.max_reports;
  int scale = 0;
  while (scale < kLargestScale && one * 2 <= 0x1p50 && all * 2 <= 0x1p61) {
    one *= 2;
    all *= 2;
    ++scale;
  }
  if (scale < kSmallestScale) {
    return Error{5304,
                 fmt::format("fixed-point range: {} leaves {} bits; at least {}", Product(limits),
                             scale, kSmallestScale),
                 "lower one of them"};
  }
  if (limits.max_weight * limits.max_factor * limits.max_reports > kLargestTotalWeight) {
    return Error{5304,
                 fmt::format("fixed-point range: the weights of {} could sum to more than 2^41",
                             Product(limits)),
                 "lower max_weight or the number of reports"};
  }
  return scale;
}

ExactSum::ExactSum(std::size_t dimension, int scale) : sum_(dimension), scale_(scale) {}

void ExactSum::Add(std::span<const float> update, double weight) {
  SKEP_CHECK(update.size() == sum_.size());
  Loops().accumulate(sum_.data(), update.data(), sum_.size(), std::ldexp(weight, scale_));
  weight_ += std::llrint(std::ldexp(weight, kWeightBits));
}

void ExactSum::Merge(const ExactSum& other) {
  SKEP_CHECK(other.sum_.size() == sum_.size() && other.scale_ == scale_);
  Loops().merge(sum_.data(), other.sum_.data(), sum_.size());
  weight_ += other.weight_;
}

void ExactSum::Step(std::span<const float> old_model, double rate,
                    std::span<float> new_model) const {
  SKEP_CHECK(old_model.size() == sum_.size() && new_model.size() == sum_.size() && weight_ != 0);
  const double total = std::ldexp(static_cast<double>(weight_), -kWeightBits);
  Loops().step(sum_.data(), old_model.data(), new_model.data(), sum_.size(),
               std::ldexp(1.0, -scale_), total, rate);
}

}  // namespace skep::kernels
