#include "aggregator/server/commands/text.h"

#include <algorithm>
#include <array>

namespace skep::aggregator {

std::string SpanText(std::int64_t milliseconds) {
  const std::int64_t seconds = std::max<std::int64_t>(milliseconds, 0) / 1000;
  const auto pair = [](std::int64_t large, const char* unit, std::int64_t small,
                       const char* small_unit) {
    std::string text = std::to_string(large) + " " + unit;
    if (small > 0) text += " " + std::to_string(small) + " " + small_unit;
    return text;
  };
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return pair(seconds / 60, "m", seconds % 60, "s");
  // Rounded, so that seven days less a moment are still seven days.
  const std::int64_t minutes = (seconds + 30) / 60;
  if (minutes < 2 * 24 * 60) return pair(minutes / 60, "h", minutes % 60, "m");
  return std::to_string((minutes + 12 * 60) / (24 * 60)) + " d";
}

std::string BytesText(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  std::uint64_t rest = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    rest = bytes % 1024;
    bytes /= 1024;
    ++unit;
  }
  std::string text = std::to_string(bytes);
  // One digit after the point where the whole part alone would be off by more than a tenth.
  if (unit > 0 && bytes < 10) text += "." + std::to_string(rest * 10 / 1024);
  return text + kUnits[unit];
}

std::string DayText(WallMs wall) {
  return UtcText(wall).substr(0, 10);
}

std::string ShortId(std::string_view hex) {
  return std::string(hex.substr(0, 8));
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace skep::aggregator
