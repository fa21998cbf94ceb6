// Admission: may this upload begin? The checks A1 to A8 as pure functions over what is known.
//
// What needs a store (A0), memory or a slot (A9) or the body (B1 to B4) is judged elsewhere. Called
// by the engine for each UploadBegin; every check precedes any sum. Source: Skep protocol 1.0,
// section 9.2.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aggregator/store/store.h"
#include "shared/base/ids.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

// Where the attempt that an upload names stands.
enum class Standing {
  kOpen,
  kClosing,       // or ended, and still the run's latest: 2109
  kEndedEarlier,  // a later attempt exists: 2212
  kRunOver,       // the run is stopped, halted or finished: 2213
};

// What the attempt's manifest and the run's limits allow.
struct UploadTerms {
  TaskKind kind = TaskKind::kTrain;
  std::vector<wire::Encoding> encodings;
  Hash32 layout;
  Hash32 model;
  std::uint64_t update_values = 0;
  std::uint64_t max_update_bytes = 0;
  std::uint32_t max_weight = 0;
  std::size_t metric_names = 0;
};

struct UploadFacts {
  bool is_assigned = false;  // a live assignment of this device to the task
  Standing standing = Standing::kOpen;
  bool is_separated = true;  // its last contribution is long enough ago
  bool is_quarantined = false;
};

struct Refusal {
  int code = 0;
  std::string detail;  // for the operator; never a peer's bytes
};

// The first check that fails, in the order A1 to A8.
[[nodiscard]] std::optional<Refusal> Judge(const wire::UploadBegin& begin, const UploadFacts& facts,
                                           const UploadTerms& terms);

// The finite ones of the metrics, by name; those that are not finite are dropped (A8).
[[nodiscard]] std::vector<Metric> FiniteMetrics(const wire::UploadBegin& begin,
                                                const std::vector<std::string>& names);

// True if a refusal with this number ends the task for good (retry class 1).
[[nodiscard]] bool IsFinalRefusal(int code);
// True if it counts against the device (section 9.2: 2104, 2105, 2110, 2113).
[[nodiscard]] bool IsStrike(int code);

}  // namespace skep::aggregator
