// FreeMemory: what the system would still give this process, so that a model that does not fit is
// refused before it is made.
//
// Reads files of the kernel; any thread. Linux: /proc/meminfo, and the memory limits of the control
// groups that the process is in, of both versions.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace skep::model {

// A plan may take this share of what is free.
inline constexpr double kShareOfFreeMemory = 0.8;

// Bytes that may be taken without swapping: the least of what the machine has and what is left
// below the limit of each control group from the process's own up to the root. File pages that the
// kernel can drop count as free. 0: the system does not say (1: nothing is left). `root` stands
// before every path; tests put another tree there.
[[nodiscard]] std::uint64_t FreeMemory(const std::string& root = "");

// SKEP-1401: `bytes` are more than that share of `free`; 0 is taken as enough. `what` needs them:
// "the plan". `hint` says how to need less.
[[nodiscard]] Status CheckFits(std::uint64_t bytes, std::uint64_t free, const std::string& what,
                               const std::string& hint);

}  // namespace skep::model
