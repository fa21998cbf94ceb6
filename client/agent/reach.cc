#include "client/agent/reach.h"
#include "shared/base/amounts.h"

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

}  // namespace skep::agent
