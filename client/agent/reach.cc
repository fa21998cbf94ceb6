#include "client/agent/reach.h"

#include <fmt/format.h>

namespace skep::agent {
namespace {

constexpr Nanoseconds kQuiet = std::chrono::minutes(1);

}  // namespace

bool IsTrustFailure(int code) {
  return (code >= 3101 && code <= 3115 && code != 3103) || code == 3122;
}

std::optional<std::string> Reach::Failed(SteadyTime now, const Error& why, Nanoseconds next) {
  if (tries_ == 0) since_ = now;
  ++tries_;
  const bool is_new = why.message != cause_;
  if (!is_new && told_ && now - *told_ < kQuiet) return std::nullopt;
  cause_ = why.message;
  told_ = now;
  std::string tries;
  if (tries_ > 1) tries = fmt::format("{} tries in {}, ", tries_, SpanText(now - since_));
  return fmt::format("{} (SKEP-{}); {}next in {}", why.message, why.code, tries, SpanText(next));
}

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

}  // namespace skep::agent
