// Alarms: all waits of the engine behind one timer of the driver.
//
// Each wait has a name (what it is for, whose it is) and a time; setting it again moves it. Only
// the earliest is armed, so that a round of thousands of offers costs a handful of timers. Part of
// the engine; one thread.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "aggregator/engine/events.h"

namespace skep::aggregator {

enum class AlarmKind {
  kWindow,    // the selection window of a run ends
  kDeadline,  // the report deadline of an attempt
  kOffers,    // an offer of an attempt expires
  kLeases,    // a started device of an attempt has said nothing for too long
  kHolds,     // a held Poll has been held long enough
  kPresence,  // a device that left is no longer waited for
  kStore,     // a write that failed is tried again
};

// `run` is zero for what belongs to no run.
struct Alarm {
  AlarmKind kind = AlarmKind::kWindow;
  RunId run;

  friend auto operator<=>(const Alarm&, const Alarm&) = default;
};

class Alarms {
 public:
  void Set(const Alarm& alarm, SteadyTime at) { times_[alarm] = at; }
  void Clear(const Alarm& alarm) { times_.erase(alarm); }
  void ClearAll() { times_.clear(); }

  // Takes out those that are due, in order of kind and run.
  [[nodiscard]] std::vector<Alarm> TakeDue(SteadyTime now);
  // True if `timer` is the armed one, which is then over.
  [[nodiscard]] bool Fired(TimerId timer);
  // Arms the earliest if the armed timer would be too late for it; cancels a timer that nobody
  // waits for.
  void Arm(Outputs& out);

 private:
  struct Armed {
    TimerId timer = 0;
    SteadyTime at;
  };
  std::map<Alarm, SteadyTime> times_;
  std::optional<Armed> armed_;
  TimerId next_ = 1;
};

}  // namespace skep::aggregator
