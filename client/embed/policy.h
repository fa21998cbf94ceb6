// Policy: the least that a device insists on, whatever the aggregator asks for.
//
// Pure functions; any thread. Source: Skep client library, section 7; docs/reference/client.md
// ([privacy], [secure_aggregation]).
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/base/result.h"

namespace skep::embed {

// What it asks for and a plan does not give makes the device decline the task.
struct Policy {
  bool wants_privacy = false;
  bool wants_secure_aggregation = false;
  std::uint32_t max_weight = 0;  // of a task; 0: any
};

// Of policy_json; "": nothing is asked for. SKEP-7001 names what is wrong in it.
[[nodiscard]] Result<Policy> ReadPolicy(std::string_view text);

}  // namespace skep::embed
