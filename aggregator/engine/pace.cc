#include "aggregator/engine/pace.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace skep::aggregator {
namespace {

constexpr std::size_t kPeriods = 10;
constexpr double kMaxWindowMs = 7 * 24 * 3600 * 1000.0;  // a client cuts to 7 days anyway
constexpr std::uint64_t kMillionth = 1'000'000;

std::uint32_t Ms(Nanoseconds duration) {
  const double ms = std::chrono::duration<double, std::milli>(duration).count();
  return static_cast<std::uint32_t>(std::clamp(ms, 1.0, kMaxWindowMs));
}

wire::ComeBack Between(Nanoseconds earliest, Nanoseconds latest, wire::ComeBackReason reason) {
  return {.earliest_ms = Ms(earliest), .latest_ms = Ms(latest), .reason = reason};
}

Nanoseconds Times(Nanoseconds duration, double factor) {
  return Nanoseconds(std::llround(static_cast<double>(duration.count()) * factor));
}

}  // namespace

bool HoldsEverybody(const EngineConfig& config, const Demand& demand) {
  return static_cast<double>(demand.active) <= config.small_factor * demand.invited;
}

std::uint64_t HeldWithHeadroom(const EngineConfig& config, std::uint32_t invited) {
  const auto factor = static_cast<std::uint64_t>(std::llround(config.headroom * kMillionth));
  return (invited * factor + kMillionth - 1) / kMillionth;
}

wire::ComeBack ComeBackWindow(const EngineConfig& config, const Demand& demand,
                              wire::ComeBackReason reason) {
  if (reason == wire::ComeBackReason::kDraining || reason == wire::ComeBackReason::kOverloaded) {
    return Between(config.overload_return, 2 * config.overload_return, reason);
  }
  if (reason == wire::ComeBackReason::kQuarantined || demand.invited == 0) {
    return Between(config.min_return, 2 * config.min_return, reason);
  }
  if (HoldsEverybody(config, demand)) {
    return {.earliest_ms = 0, .latest_ms = 1, .reason = reason};
  }
  const double rounds_between = demand.active / (demand.invited * config.headroom);
  const Nanoseconds mean = std::clamp(Times(demand.period, rounds_between), config.min_return,
                                      std::max(config.min_return, config.max_return));
  return Between(Times(mean, 0.75), Times(mean, 1.25), reason);
}

void RoundPeriods::Add(Nanoseconds period) {
  last_.push_back(period);
  if (last_.size() > kPeriods) last_.pop_front();
}

Nanoseconds RoundPeriods::Median() const {
  if (last_.empty()) return guess_;
  std::vector<Nanoseconds> sorted(last_.begin(), last_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace skep::aggregator
