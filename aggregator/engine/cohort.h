// CohortDraw: the order in which clients of one attempt are invited.
//
// The purpose-3 (training) or purpose-15 (evaluation) shuffle of the eligible client numbers, one
// place at a time: the cohort takes the first ones, a place that is freed later goes on from there.
// A value; one thread. Source: Skep protocol 1.0, section 7.1; docs/experiments.md
// (reproducibility, item 4).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "aggregator/store/store.h"
#include "shared/base/ids.h"
#include "shared/base/rng.h"

namespace skep::aggregator {

class CohortDraw {
 public:
  // `eligible` in ascending order.
  CohortDraw(std::uint64_t run_seed, const AttemptKey& key, std::vector<ClientNumber> eligible);

  // The next client of the order; nothing when all have been drawn.
  [[nodiscard]] std::optional<ClientNumber> Next();
  [[nodiscard]] std::size_t size() const { return clients_.size(); }

 private:
  std::vector<ClientNumber> clients_;
  RandomStream stream_;
  std::size_t drawn_ = 0;
};

}  // namespace skep::aggregator
