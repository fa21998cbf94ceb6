// StopTracker: does a run end before its last round?
//
// Fed with the central evaluation of each evaluated round, also on recovery, so that a restarted
// run decides as an undisturbed one. A value. Source: docs/experiments.md (rounds to target).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/engine/run_spec.h"
#include "aggregator/store/store.h"

namespace skep::aggregator {

class StopTracker {
 public:
  explicit StopTracker(const StopRules& rules) : rules_(rules) {}

  // `metrics` of a central evaluation, possibly without the one that the rules name.
  void Add(std::uint32_t round, const std::vector<Metric>& metrics);
  // Why the run ends now; nothing while it goes on.
  [[nodiscard]] const std::optional<std::string>& reason() const { return reason_; }

 private:
  StopRules rules_;
  std::optional<double> best_;
  std::uint32_t without_improvement_ = 0;
  std::optional<std::string> reason_;
};

}  // namespace skep::aggregator
