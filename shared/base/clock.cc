#include "shared/base/clock.h"

#include <ctime>

#include <fmt/format.h>

namespace skep {
namespace {

Nanoseconds ReadPosixClock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

std::tm UtcFields(WallMs wall) {
  const auto seconds = static_cast<std::time_t>(wall / 1000);
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  return fields;
}

}  // namespace

Now ReadClock() {
  const Nanoseconds wall = ReadPosixClock(CLOCK_REALTIME);
  return {.steady = SteadyTime(ReadPosixClock(CLOCK_MONOTONIC)),
          .wall = static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(wall).count())};
}

Nanoseconds ThreadCpuTime() {
  return ReadPosixClock(CLOCK_THREAD_CPUTIME_ID);
}
Nanoseconds ProcessCpuTime() {
  return ReadPosixClock(CLOCK_PROCESS_CPUTIME_ID);
}

std::string UtcText(WallMs wall) {
  const std::tm t = UtcFields(wall);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, wall % 1000);
}

std::string UtcFileName(WallMs wall) {
  const std::tm t = UtcFields(wall);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                     t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace skep
