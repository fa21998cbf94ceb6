// Amounts: spans of time and numbers of bytes as a person wants to read them.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/clock.h"

namespace skep {

// "14 m", "8 s", "350 ms": rounded.
[[nodiscard]] std::string SpanText(Nanoseconds span);
// "21 KB", "2.1 MB".
[[nodiscard]] std::string AmountText(std::uint64_t bytes);

}  // namespace skep
