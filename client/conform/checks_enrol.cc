// Checks of enrolment: joining, refusing to join, forgetting.
#include <algorithm>
#include <csignal>

#include "client/conform/checks.h"
#include "crypto/pki/join_string.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

using faultproxy::Event;

std::size_t Enrolments(Trial& trial) {
  std::size_t count = 0;
  for (const Event& event : trial.host().enrolment().Events()) {
    count += event.kind == Event::Kind::kAccepted ? 1 : 0;
  }
  return count;
}

}  // namespace

Result<Finding> CheckEnrolment(Trial& trial) {
  const std::size_t before = Enrolments(trial);
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  const std::size_t joined = Enrolments(trial);
  if (joined == before) return Failed("no connection to the listener for enrolment", "one");
  if (!device->Stop()) return Failed("still runs 10 s after SIGTERM", "an end");
  SKEP_TRY(trial.WaitUntil(
      "seen as gone by the aggregator",
      [&]() -> Result<bool> {
        SKEP_ASSIGN(const Host::Population seen, trial.host().Look(trial.population()));
        return seen.connected == 0;
      },
      Milliseconds(20'000)));
  SKEP_TRY(device->Start());
  SKEP_TRY(trial.WaitHeld(1));
  SKEP_ASSIGN(const Host::Population seen, trial.host().Look(trial.population()));
  if (seen.devices != 1)
    return Failed(std::to_string(seen.devices) + " devices have enrolled", "1");
  const std::size_t again = Enrolments(trial) - joined;
  if (again != 0) return Failed("the second start enrols again", "its certificate is used");
  return Passed();
}

Result<Finding> CheckFingerprint(Trial& trial) {
  // A handshake that ends at the certificate sends a greeting and an alert; with a token behind it
  // there would be more than twice as much.
  constexpr std::uint64_t kMostBytes = 700;
  SKEP_ASSIGN(Device* const device, trial.AddDevice());
  SKEP_ASSIGN(const std::string text, trial.host().MakeJoinString(trial.population()));
  SKEP_ASSIGN(crypto::JoinString join, crypto::ParseJoinString(text));
  join.pin.bytes[0] ^= 1;
  SKEP_TRY(device->SetJoinString(crypto::FormatJoinString(join)));
  const std::size_t first = trial.host().enrolment().Events().size();
  SKEP_TRY(device->Start());
  const auto closed = trial.host().enrolment().WaitFor(
      [&, seen = std::size_t{0}](const Event& event) mutable {
        return ++seen > first && event.kind == Event::Kind::kClosed;
      },
      Milliseconds(20'000));
  if (!closed) return Failed("no attempt to enrol in 20 s", "one, which ends at the certificate");
  const auto exit = device->program().WaitFor(Milliseconds(3000));
  const std::uint64_t sent = closed->counters ? closed->counters->up_in : 0;
  if (sent > kMostBytes) {
    return Failed(std::to_string(sent) + " bytes were sent to an aggregator of another fingerprint",
                  std::to_string(kMostBytes) + ", a greeting and an alert");
  }
  SKEP_ASSIGN(const Host::Population seen, trial.host().Look(trial.population()));
  if (seen.devices != 0) return Failed("the device has enrolled", "no token leaves");
  if (!device->Said("3113") && !device->Said("SKEP_E_AUTH")) {
    return Failed("the output names neither SKEP-3113 nor SKEP_E_AUTH", "the reason");
  }
  if (exit && exit->signal != 0) return Failed(TextOf(*exit), "an end in order");
  return Passed(std::to_string(sent) + " bytes sent");
}

Result<Finding> CheckForget(Trial& trial) {
  if (trial.world().request.forget_words.empty()) return Skipped("no --forget-args");
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run, trial.StartRun({}));
  SKEP_TRY(trial.WaitFinished(run));
  if (!device->Stop()) return Failed("still runs 10 s after SIGTERM", "an end");
  SKEP_ASSIGN(const Exit exit, device->RunToForget());
  if (exit.code != 0 || exit.signal != 0)
    return Failed("forgetting: " + TextOf(exit), "exit code 0");
  for (const std::string& name : device->Files()) {
    if (name != "FORMAT" && name != "ledger.jsonl" && name != "lock") {
      return Failed("{storage}/" + name + " is left", "only FORMAT and ledger.jsonl");
    }
  }
  // The join string is used up: with it nobody comes back.
  SKEP_TRY(device->Start());
  (void)device->program().WaitFor(Milliseconds(5000));
  SKEP_ASSIGN(const Host::Population used, trial.host().Look(trial.population()));
  if (used.held != 0 || used.devices != 1)
    return Failed("the next start takes part without a new join string", "it is refused");
  device->Kill();
  SKEP_ASSIGN(const std::string fresh, trial.host().MakeJoinString(trial.population()));
  SKEP_TRY(device->SetJoinString(fresh));
  SKEP_TRY(device->Start());
  SKEP_TRY(trial.WaitHeld(1));
  return Passed();
}

}  // namespace skep::conform
