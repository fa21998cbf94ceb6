#include "client/agent/task_gate.h"

#include "shared/base/try.h"

namespace skep::agent {
namespace {

constexpr Nanoseconds kLookEvery = std::chrono::seconds(1);

}  // namespace

Status TaskGate::Pass() {
  SKEP_TRY(duty_.Pass());
  caller_.TellNews();
  const SteadyTime now = ReadClock().steady;
  if (looked_ && now - *looked_ < kLookEvery) return Ok();
  looked_ = now;
  return CheckEligible(required_, host_.Look());
}

}  // namespace skep::agent
