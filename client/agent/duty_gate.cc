#include "client/agent/duty_gate.h"

#include <utility>

namespace skep::agent {
namespace {

// Shorter rests would be lost in what it takes to fall asleep and wake up.
constexpr Nanoseconds kLeastRest = Milliseconds(10);

}  // namespace

Nanoseconds DutyCycle::Rest(Nanoseconds cpu, SteadyTime now) {
  if (!mark_) mark_ = Mark{cpu, now};
  const double used = static_cast<double>((cpu - mark_->cpu).count());
  const auto needed = Nanoseconds(static_cast<std::int64_t>(used / share_));
  const Nanoseconds owed = needed - (now - mark_->at);
  if (owed <= Nanoseconds{}) {
    mark_ = Mark{cpu, now};
    return {};
  }
  if (owed < kLeastRest) return {};
  mark_ = Mark{cpu, now + owed};
  return owed;
}

DutyGate::DutyGate(double share, DutyClocks clocks) : cycle_(share), clocks_(std::move(clocks)) {}

void DutyGate::Stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  stopped_.notify_all();
}

Status DutyGate::Pass() {
  const Nanoseconds rest = cycle_.Rest(clocks_.cpu(), clocks_.steady());
  std::unique_lock lock(mutex_);
  if (rest > Nanoseconds{}) stopped_.wait_for(lock, rest, [this] { return is_stopped_; });
  return is_stopped_ ? Status(Error{7407, "training was stopped", ""}) : Ok();
}

}  // namespace skep::agent
