// FedAvg: the next model is the old one plus the weighted mean of the updates.
//
// new = old + server_learning_rate x sum(w update) / sum(w), on the exact sum; a running variance
// that falls below 0 by a rate above 1 becomes 0. One thread; partial
// ones are merged. Source: McMahan et al. 2017, algorithm 1; Skep protocol 1.0, section 9.3.
#pragma once

#include <vector>

#include "aggregator/strategy/strategy.h"
#include "kernels/fixed_point.h"

namespace skep::aggregator {

class FedAvg final : public Strategy {
 public:
  explicit FedAvg(const RunSpec& spec);

  void Begin() override;
  void Accumulate(std::span<const float> update, double weight) override;
  // Precondition: `other` is a FedAvg.
  void Merge(Strategy& other) override;
  [[nodiscard]] std::uint64_t updates() const override { return updates_; }
  [[nodiscard]] Result<model::Params> Finish(const model::Params& global) override;

 private:
  model::LayoutPtr layout_;
  std::vector<std::size_t> variances_;  // of batch norm, by tensor
  int scale_;
  double rate_;
  kernels::ExactSum sum_;
  std::uint64_t updates_ = 0;
};

}  // namespace skep::aggregator
