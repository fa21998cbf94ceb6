// TaskGate: what stands before each batch of a task: stop, duty cycle, news, and whether the device
// may still work.
//
// Pass on the thread that works (the application's), Stop from any. Source: Skep client library,
// sections 6 and 7.
#pragma once

#include <optional>

#include "client/agent/caller.h"
#include "client/agent/conditions.h"
#include "client/agent/duty_gate.h"
#include "client/agent/host.h"
#include "shared/base/clock.h"

namespace skep::agent {

class TaskGate final : public client::BatchGate {
 public:
  // `host` and `caller` outlive it. `share`: of the CPU.
  TaskGate(double share, const Eligibility& required, Host& host, Caller& caller)
      : duty_(share), required_(required), host_(host), caller_(caller) {}

  // Ends a rest at once, too.
  void Stop() { duty_.Stop(); }
  // SKEP-7407 stopped; SKEP-7401 the device may not work any more.
  [[nodiscard]] Status Pass() override;

 private:
  DutyGate duty_;
  Eligibility required_;
  Host& host_;
  Caller& caller_;
  std::optional<SteadyTime> looked_;
};

}  // namespace skep::agent
