// DutyGate: keeps training within a share of the CPU by resting between batches.
//
// The share is CPU time over wall time of the one thread that trains (limits.threads is 1). What
// was left unused while the thread waited for something else is not saved up: over any stretch
// longer than a batch the share holds. Pass on the trainer's thread, Stop from any.
// Source: Skep client library, section 7 (caps).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "client/trainer.h"
#include "shared/base/clock.h"

namespace skep::agent {

// How long to rest, as a calculation without a clock.
class DutyCycle {
 public:
  // 0 < share <= 1.
  explicit DutyCycle(double share) : share_(share) {}

  // The rest that is due, to be taken at once; zero as long as less than 10 ms are owed. `cpu` and
  // `now` count from any origin, and never go back.
  [[nodiscard]] Nanoseconds Rest(Nanoseconds cpu, SteadyTime now);

 private:
  struct Mark {
    Nanoseconds cpu{};
    SteadyTime at{};
  };
  double share_;
  std::optional<Mark> mark_;  // up to where all was paid
};

// Read on the trainer's thread.
struct DutyClocks {
  std::function<SteadyTime()> steady = [] { return ReadClock().steady; };
  std::function<Nanoseconds()> cpu = ThreadCpuTime;
};

class DutyGate final : public client::BatchGate {
 public:
  explicit DutyGate(double share, DutyClocks clocks = {});

  // Ends a rest at once, too.
  void Stop();
  [[nodiscard]] Status Pass() override;

 private:
  DutyCycle cycle_;
  DutyClocks clocks_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopped_ = false;
};

}  // namespace skep::agent
