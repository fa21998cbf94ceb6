#include "shared/base/amounts.h"

#include <fmt/format.h>

namespace skep {

std::string SpanText(Nanoseconds span) {
  const double seconds = Seconds(span);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", 1000 * seconds);
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 100 * 60) return fmt::format("{:.0f} m", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} d", seconds / (24 * 3600));
}

std::string AmountText(std::uint64_t bytes) {
  const auto amount = static_cast<double>(bytes);
  if (amount < 1000) return fmt::format("{} B", bytes);
  if (amount < 1e6) return fmt::format("{:.{}f} KB", amount / 1e3, amount < 1e4 ? 1 : 0);
  if (amount < 1e9) return fmt::format("{:.{}f} MB", amount / 1e6, amount < 1e7 ? 1 : 0);
  return fmt::format("{:.1f} GB", amount / 1e9);
}

}  // namespace skep
