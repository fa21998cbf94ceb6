#include "aggregator/engine/report_means.h"

#include <algorithm>

namespace skep::aggregator {

double TreeSum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values.front();
  const std::size_t middle = values.size() / 2;
  return TreeSum(values.first(middle)) + TreeSum(values.subspan(middle));
}

std::vector<Metric> WeightedMeans(std::span<const UpdateRow* const> reports,
                                  const std::vector<std::string>& names) {
  std::vector<Metric> means;
  std::vector<double> products;
  std::vector<double> weights;
  for (const std::string& name : names) {
    products.clear();
    weights.clear();
    for (const UpdateRow* report : reports) {
      const auto metric = std::find_if(report->metrics.begin(), report->metrics.end(),
                                       [&](const Metric& m) { return m.name == name; });
      if (metric == report->metrics.end()) continue;
      products.push_back(report->weight * metric->value);
      weights.push_back(report->weight);
    }
    if (products.empty()) continue;
    means.push_back(
        {name, TreeSum(products) / TreeSum(weights), static_cast<std::uint32_t>(products.size())});
  }
  return means;
}

}  // namespace skep::aggregator
