// Numbers, times and tables as people read them.
//
// For commands' output only: configuration files have their own forms (shared/config/value.h). Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/clock.h"

namespace skep::aggregator {

// "12 s", "3 m 10 s", "5 h 2 m", "364 d": at most two units, days alone and
// rounded.
[[nodiscard]] std::string SpanText(std::int64_t milliseconds);
// "512 B", "38 KiB", "41 GiB".
[[nodiscard]] std::string BytesText(std::uint64_t bytes);
// "2026-11-30".
[[nodiscard]] std::string DayText(WallMs wall);
// The first 8 digits of an id: enough to tell it apart, and accepted wherever an id is asked for.
[[nodiscard]] std::string ShortId(std::string_view hex);
// Columns two blanks apart; the first row is the heading.
[[nodiscard]] std::string TableText(const std::vector<std::vector<std::string>>& rows);

}  // namespace skep::aggregator
