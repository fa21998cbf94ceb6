#include "aggregator/engine/admission.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

#include "shared/base/sha256.h"

namespace skep::aggregator {
namespace {

using Verdict = std::optional<Refusal>;

constexpr std::uint64_t kFloatBytes = 4;

Verdict CheckAssigned(const UploadFacts& facts) {
  if (facts.is_assigned) return std::nullopt;
  return Refusal{2211, "this device has no live assignment to that task"};
}

Verdict CheckStanding(const UploadFacts& facts) {
  switch (facts.standing) {
    case Standing::kOpen:
      return std::nullopt;
    case Standing::kClosing:
      return Refusal{2109, "the attempt takes no more reports"};
    case Standing::kEndedEarlier:
      return Refusal{2212, "a later attempt of the run has been opened"};
    case Standing::kRunOver:
      return Refusal{2213, "the run is over"};
  }
  return std::nullopt;
}

Verdict CheckDevice(const UploadFacts& facts) {
  if (!facts.is_separated) return Refusal{2115, "training.min_separation has not passed"};
  if (facts.is_quarantined) return Refusal{2117, "the device is quarantined"};
  return std::nullopt;
}

Verdict CheckEncoding(const wire::UploadBegin& begin, const UploadTerms& terms) {
  const bool is_listed = terms.kind == TaskKind::kEvaluate
                             ? begin.encoding == wire::Encoding::kNone
                             : std::find(terms.encodings.begin(), terms.encodings.end(),
                                         begin.encoding) != terms.encodings.end();
  if (is_listed) return std::nullopt;
  return Refusal{2112, fmt::format("encoding {} is not in the manifest",
                                   static_cast<std::uint32_t>(begin.encoding))};
}

Verdict CheckBase(const wire::UploadBegin& begin, const UploadTerms& terms) {
  if (begin.layout_sha256 != terms.layout) {
    return Refusal{2106, "the update is for another tensor layout"};
  }
  if (begin.model_sha256 != terms.model) {
    return Refusal{2106, "the update was trained from another model"};
  }
  return std::nullopt;
}

Verdict CheckSize(const wire::UploadBegin& begin, const UploadTerms& terms) {
  const std::uint64_t expected =
      terms.kind == TaskKind::kEvaluate ? 0 : terms.update_values * kFloatBytes;
  if (begin.size != expected) {
    return Refusal{2101,
                   fmt::format("update of {} bytes, the layout needs {}", begin.size, expected)};
  }
  if (begin.size > terms.max_update_bytes) {
    return Refusal{2103, fmt::format("update of {} bytes, limits.max_update_bytes is {}",
                                     begin.size, terms.max_update_bytes)};
  }
  return std::nullopt;
}

// A report without a body has the hash of nothing.
Verdict CheckEmptyBody(const wire::UploadBegin& begin, const UploadTerms& terms) {
  static const Hash32 kHashOfNothing = Sha256::Of({});
  if (terms.kind != TaskKind::kEvaluate || begin.sha256 == kHashOfNothing) return std::nullopt;
  return Refusal{2110, "an evaluation report has no body, and its hash is not that of nothing"};
}

Verdict CheckWeight(const wire::UploadBegin& begin, const UploadTerms& terms) {
  if (begin.weight >= 1 && begin.weight <= terms.max_weight) return std::nullopt;
  return Refusal{2107, fmt::format("weight {} is outside 1 to {}", begin.weight, terms.max_weight)};
}

Verdict CheckMetrics(const wire::UploadBegin& begin, const UploadTerms& terms) {
  std::unordered_set<std::uint32_t> seen;
  for (const wire::MetricValue& metric : begin.metrics) {
    if (metric.id == 0 || metric.id > terms.metric_names) {
      return Refusal{2114, fmt::format("metric {} is not in the plan", metric.id)};
    }
    if (!seen.insert(metric.id).second) {
      return Refusal{2114, fmt::format("metric {} is reported twice", metric.id)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> Judge(const wire::UploadBegin& begin, const UploadFacts& facts,
                             const UploadTerms& terms) {
  Verdict verdict = CheckAssigned(facts);
  if (!verdict) verdict = CheckStanding(facts);
  if (!verdict) verdict = CheckDevice(facts);
  if (!verdict) verdict = CheckEncoding(begin, terms);
  if (!verdict) verdict = CheckBase(begin, terms);
  if (!verdict) verdict = CheckSize(begin, terms);
  if (!verdict) verdict = CheckEmptyBody(begin, terms);
  if (!verdict) verdict = CheckWeight(begin, terms);
  if (!verdict) verdict = CheckMetrics(begin, terms);
  return verdict;
}

std::vector<Metric> FiniteMetrics(const wire::UploadBegin& begin,
                                  const std::vector<std::string>& names) {
  std::vector<Metric> finite;
  finite.reserve(begin.metrics.size());
  for (const wire::MetricValue& metric : begin.metrics) {
    if (metric.id == 0 || metric.id > names.size() || !std::isfinite(metric.value)) continue;
    finite.push_back({names[metric.id - 1], metric.value, 1});
  }
  return finite;
}

bool IsFinalRefusal(int code) {
  switch (code) {
    case 2101:
    case 2103:
    case 2104:
    case 2105:
    case 2106:
    case 2107:
    case 2111:
    case 2112:
    case 2113:
    case 2114:
      return true;
    default:
      return false;
  }
}

bool IsStrike(int code) {
  return code == 2104 || code == 2105 || code == 2110 || code == 2113;
}

}  // namespace skep::aggregator
