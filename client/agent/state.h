// State: what the next process of this device must know: state.json of the storage folder.
//
// The session's memory (highest tasks seen, evidence, client number, back-off, next check-in) and
// the day's traffic. Replaced whole; a file that is damaged is an error and not a fresh start,
// since it is the device's only proof of what it has seen. Values; one thread. Source: Skep client
// library, sections 7 and 8.
#pragma once

#include <cstdint>
#include <string>

#include "client/agent/storage.h"
#include "client/session.h"
#include "shared/base/clock.h"

namespace skep::agent {

// Bytes of frames in both directions, per UTC day.
struct DayTraffic {
  std::uint64_t day = 0;  // days since the epoch
  std::uint64_t up = 0;
  std::uint64_t down = 0;

  // Moves to the day of `wall`, on which nothing was counted yet.
  void TurnTo(WallMs wall);
  [[nodiscard]] std::uint64_t total() const { return up + down; }
};

// When the day of `wall` is over, UTC.
[[nodiscard]] WallMs EndOfDay(WallMs wall);

// SKEP-7408 if `today`, moved to the day of `now`, and `needed` more bytes (at least one) are above
// `limit`: names the limit, what was used, and when it goes on.
[[nodiscard]] Status CheckDayTraffic(DayTraffic today, std::uint64_t needed, std::uint64_t limit,
                                     WallMs now);

struct State {
  std::string population;  // whose client number `memory.client` is
  client::SessionMemory memory;
  DayTraffic today;
};

// An empty state if there is none yet. SKEP-1010 if it is damaged.
[[nodiscard]] Result<State> LoadState(const Storage& storage);
[[nodiscard]] Status SaveState(const Storage& storage, const State& state);

}  // namespace skep::agent
