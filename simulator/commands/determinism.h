// Determinism: do the first rounds give the same models with one worker and with several.
//
// One thread. Source: docs/experiments.md (reproducibility).
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"
#include "simulator/plan.h"

namespace skep::simulator {

struct DeterminismVerdict {
  bool is_identical = true;
  std::string text;  // "identical: 5 rounds, 1 and 2 jobs", or where the two differ
};
// Fails if a run does.
[[nodiscard]] Result<DeterminismVerdict> CompareJobs(const Plan& plan, std::uint32_t rounds);

}  // namespace skep::simulator
