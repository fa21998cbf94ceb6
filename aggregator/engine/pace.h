// Pace: when a device that gets no task now shall come back.
//
// Pure functions; the device draws within the window. Source: Skep protocol 1.0, section 8.3.
#pragma once

#include <cstdint>
#include <deque>

#include "aggregator/engine/round_engine.h"
#include "shared/base/clock.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

// How busy a population is.
struct Demand {
  std::uint32_t active = 0;   // A: devices enrolled or seen within 24 h
  std::uint32_t invited = 0;  // N: the largest of its runs; 0 without a run
  Nanoseconds period{};       // T: median round period
};

// True if the population is small enough that everybody is held, whatever the phase.
[[nodiscard]] bool HoldsEverybody(const EngineConfig& config, const Demand& demand);
// How many held Polls let a large population's cohort be drawn: headroom x N, rounded up.
[[nodiscard]] std::uint64_t HeldWithHeadroom(const EngineConfig& config, std::uint32_t invited);

[[nodiscard]] wire::ComeBack ComeBackWindow(const EngineConfig& config, const Demand& demand,
                                            wire::ComeBackReason reason);

// Periods of the last ten rounds.
class RoundPeriods {
 public:
  explicit RoundPeriods(Nanoseconds first_guess) : guess_(first_guess) {}
  void Add(Nanoseconds period);
  [[nodiscard]] Nanoseconds Median() const;

 private:
  Nanoseconds guess_;
  std::deque<Nanoseconds> last_;
};

}  // namespace skep::aggregator
