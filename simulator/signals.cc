#include "simulator/signals.h"

#include <unistd.h>
#include <csignal>

#include "simulator/console.h"

namespace skep::simulator {
namespace {

constexpr unsigned kPatienceSeconds = 10;

StopRequest stop{StopLevel::kNone};
std::atomic<int> exit_code{kExitInterrupted};
static_assert(std::atomic<StopLevel>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void OnInterrupt(int) {
  switch (stop.load()) {
    case StopLevel::kNone:
      stop = StopLevel::kAfterRound;
      return;
    case StopLevel::kAfterRound:
      stop = StopLevel::kNow;
      return;
    case StopLevel::kNow:
      ::_exit(kExitInterrupted);
  }
}

void OnTerminate(int) {
  if (stop.load() != StopLevel::kNone) return;
  exit_code = kExitTerminated;
  stop = StopLevel::kAfterRound;
  ::alarm(kPatienceSeconds);
}

void OnAlarm(int) {
  stop = StopLevel::kNow;
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  (void)::sigaction(signal, &action, nullptr);
}

}  // namespace

const StopRequest& InstallSignals() {
  Handle(SIGINT, OnInterrupt);
  Handle(SIGTERM, OnTerminate);
  Handle(SIGHUP, OnTerminate);
  Handle(SIGALRM, OnAlarm);
  Handle(SIGPIPE, SIG_IGN);  // a reader that goes away ends no run
  return stop;
}

int InterruptedExitCode() {
  return exit_code.load();
}

}  // namespace skep::simulator
