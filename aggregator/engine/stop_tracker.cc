#include "aggregator/engine/stop_tracker.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace skep::aggregator {

void StopTracker::Add(std::uint32_t round, const std::vector<Metric>& metrics) {
  if (reason_) return;
  const auto named = std::find_if(metrics.begin(), metrics.end(), [&](const Metric& metric) {
    return metric.name == rules_.metric && metric.clients == 0 && std::isfinite(metric.value);
  });
  // A model whose evaluation is not a number is never best: it counts as no improvement.
  const bool is_better =
      named != metrics.end() &&
      (!best_ || (rules_.maximise ? named->value > *best_ : named->value < *best_));
  if (is_better) best_ = named->value;
  without_improvement_ = is_better ? 0 : without_improvement_ + 1;

  if (rules_.stop_at_target && rules_.target && best_ &&
      (rules_.maximise ? *best_ >= *rules_.target : *best_ <= *rules_.target)) {
    reason_ = fmt::format("target reached after {} rounds", round);
  } else if (rules_.patience > 0 && without_improvement_ >= rules_.patience) {
    reason_ = fmt::format("no improvement of {} in {} evaluations", rules_.metric, rules_.patience);
  }
}

}  // namespace skep::aggregator
