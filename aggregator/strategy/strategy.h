// Strategy: how the updates of one round become the next model. Streaming and mergeable.
//
// The job runner calls Begin once, Accumulate for each accepted update in any order, Merge for
// partial sums, Finish once. Not thread-safe; partial strategies on several threads are merged.
// Whatever the order and grouping, the result has the same bits. Source: McMahan et al. 2017,
// algorithm 1; Skep protocol 1.0, section 9.3.
#pragma once

#include <memory>
#include <span>

#include "aggregator/engine/run_spec.h"
#include "shared/base/result.h"
#include "shared/model/params.h"

namespace skep::aggregator {

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Forgets everything accumulated so far.
  virtual void Begin() = 0;
  // `update`: the decoded difference trained - received, layout().update_values() values, admitted.
  // `weight`: 1 with uniform weighting, else the reported number of examples.
  virtual void Accumulate(std::span<const float> update, double weight) = 0;
  // Same run, same round. `other` is left unspecified.
  virtual void Merge(Strategy& other) = 0;
  [[nodiscard]] virtual std::uint64_t updates() const = 0;
  // The next model. SKEP-2202 names the tensor that is not finite, or says that nothing was
  // accumulated.
  [[nodiscard]] virtual Result<model::Params> Finish(const model::Params& global) = 0;
};

// The strategy of a run (fedavg).
[[nodiscard]] std::unique_ptr<Strategy> MakeStrategy(const RunSpec& spec);

}  // namespace skep::aggregator
