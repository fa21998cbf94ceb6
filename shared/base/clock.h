// Time as values. Cores are told the time; only drivers read a clock, and only through this file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace skep {

using Nanoseconds = std::chrono::nanoseconds;
using Milliseconds = std::chrono::milliseconds;

// Monotonic, from an arbitrary origin: for deadlines. In the simulator: virtual time from 0.
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, Nanoseconds>;

// Milliseconds since the Unix epoch: to stamp records and to judge certificates, never for
// deadlines.
using WallMs = std::uint64_t;

struct Now {
  SteadyTime steady{};
  WallMs wall = 0;
};

// The machine's clocks.
[[nodiscard]] Now ReadClock();

// CPU time of the calling thread, and of the whole process.
[[nodiscard]] Nanoseconds ThreadCpuTime();
[[nodiscard]] Nanoseconds ProcessCpuTime();

// "2026-04-12T10:15:00.123Z" and "20260412-101500", always UTC, whatever locale and time zone.
[[nodiscard]] std::string UtcText(WallMs wall);
[[nodiscard]] std::string UtcFileName(WallMs wall);

inline double Seconds(Nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace skep
