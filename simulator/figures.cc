#include "simulator/figures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace skep::simulator {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 3600;

// Three digits of a size in its unit: 7.97, 79.7, 797.
std::string Scaled(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

std::string Significant(double value, int digits) {
  if (!std::isfinite(value)) return kMissing;
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size < 1e-4 || size >= 1e7) return fmt::format("{:.{}e}", value, digits - 1);
  const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
  return fmt::format("{:.{}f}", value, std::max(0, digits - before));
}

std::string Significant(const std::optional<double>& value, int digits) {
  return value ? Significant(*value, digits) : kMissing;
}

std::string ByteText(std::uint64_t bytes) {
  constexpr std::array kUnits{"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return Scaled(value) + " " + kUnits[unit];
}

std::string BinaryByteText(std::uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return Scaled(value) + " " + kUnits[unit];
}

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return kMissing;
  if (seconds < 0.0995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < kMinute - 0.05) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (seconds < kHour - 0.5) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  const std::uint64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} m", minutes / 60, minutes % 60);
}

std::string Plural(std::uint64_t count, const std::string& noun) {
  return Grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace skep::simulator
