// EventQueue: what happens next in virtual time. Events are ordered by (time, kind, client), then
// by insertion.
//
// One thread. Source: docs/experiments.md (heterogeneity of devices: order of events).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "shared/base/clock.h"
#include "shared/base/ids.h"

namespace skep::simulator {

// In the order in which simultaneous events happen: what has arrived counts before a deadline that
// falls on that instant.
// The aggregator's timers come before those of the clients: a round that closes is late for
// everyone, not for all but one.
enum class EventKind : std::uint8_t {
  kUploadArrived,
  kTrainingDone,
  kVanished,
  kTimer,
  kClientTimer
};

struct EventKey {
  SteadyTime time{};
  EventKind kind = EventKind::kTimer;
  ClientNumber client = 0;
  std::uint64_t sequence = 0;

  friend auto operator<=>(const EventKey&, const EventKey&) = default;
};

template <class Payload>
class EventQueue {
 public:
  EventKey Push(SteadyTime time, EventKind kind, ClientNumber client, Payload payload) {
    const EventKey key{.time = time, .kind = kind, .client = client, .sequence = next_sequence_++};
    events_.emplace(key, std::move(payload));
    return key;
  }
  // Forgets an event; harmless if it has happened.
  void Remove(const EventKey& key) { events_.erase(key); }

  [[nodiscard]] bool empty() const { return events_.empty(); }
  // The next event. Precondition: !empty().
  [[nodiscard]] const EventKey& Next() const { return events_.begin()->first; }
  std::pair<EventKey, Payload> Pop() {
    auto node = events_.extract(events_.begin());
    return {node.key(), std::move(node.mapped())};
  }

 private:
  std::map<EventKey, Payload> events_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace skep::simulator
