// Figures for people: numbers, sizes and times as displays and reports print them.
//
// Independent of the locale. Pure functions; any thread. Source: docs/formats.md (report).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shared/config/value.h"

namespace skep::simulator {

inline constexpr const char* kMissing =
    "\xE2\x80\x93";  // an en dash: never 0 for what is not there

[[nodiscard]] std::string Significant(double value, int digits = 3);  // "0.804", "12.3", "1.20e-05"
[[nodiscard]] std::string Significant(const std::optional<double>& value, int digits = 3);
using config::Grouped;                                          // "199,210"
[[nodiscard]] std::string ByteText(std::uint64_t bytes);        // "223 MB", "7.97 MB", "312 B"
[[nodiscard]] std::string BinaryByteText(std::uint64_t bytes);  // "64 MiB", "1.5 GiB"
[[nodiscard]] std::string DurationText(double seconds);         // "6.7 s", "3 m 20 s", "2 h 05 m"
[[nodiscard]] std::string Plural(std::uint64_t count, const std::string& noun);  // "1 round"

}  // namespace skep::simulator
