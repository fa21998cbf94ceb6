#include "client/cli/signals.h"

#include <pthread.h>

#include <csignal>
#include <cstdlib>
#include <utility>

namespace skep::cli {
namespace {

constexpr int kSignalExit = 128;

// Those that are waited for; SIGUSR1 ends the waiting.
sigset_t Awaited() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

Signals::Signals() {
  const sigset_t awaited = Awaited();
  ::pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  thread_ = std::thread([this] { Listen(); });
}

Signals::~Signals() {
  ::pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void Signals::Listen() {
  const sigset_t awaited = Awaited();
  int number = 0;
  while (::sigwait(&awaited, &number) == 0 && number != SIGUSR1) Take(number);
}

void Signals::Take(int number) {
  std::vector<std::function<void(int)>> actions;
  {
    const std::lock_guard lock(mutex_);
    if (number_ != 0) std::_Exit(kSignalExit + number);
    number_ = number;
    actions = actions_;
  }
  changed_.notify_all();
  for (const auto& action : actions) action(number);
}

void Signals::OnSignal(std::function<void(int)> action) {
  int came = 0;
  {
    const std::lock_guard lock(mutex_);
    actions_.push_back(action);
    came = number_;
  }
  if (came != 0) action(came);
}

void Signals::Wait(const std::optional<Nanoseconds>& most) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return number_ != 0 || is_woken_; };
  if (most) {
    changed_.wait_for(lock, *most, is_over);
  } else {
    changed_.wait(lock, is_over);
  }
}

void Signals::Wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  changed_.notify_all();
}

int Signals::number() const {
  const std::lock_guard lock(mutex_);
  return number_;
}

}  // namespace skep::cli
