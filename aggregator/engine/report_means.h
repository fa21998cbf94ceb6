// Means over the reports of an attempt: training loss, a client evaluation's metrics.
//
// Metrics are not part of the exact sum. They are added in ascending client number in a fixed tree,
// so that no arrival order changes a bit. Pure. Source: docs/experiments.md (reproducibility, items
// 6 and 11).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "aggregator/store/store.h"

namespace skep::aggregator {

// sum over [a, b) = sum over [a, m) + sum over [m, b) with m = a + floor((b - a) / 2), in double.
[[nodiscard]] double TreeSum(std::span<const double> values);

// The mean of each named metric by reported weight over the reports that have it, and over how many
// clients that is. A metric that nobody reports is left out. `reports` in ascending client number.
[[nodiscard]] std::vector<Metric> WeightedMeans(std::span<const UpdateRow* const> reports,
                                                const std::vector<std::string>& names);

}  // namespace skep::aggregator
