// Signals: SIGINT and SIGTERM as a question of this program and not as its end.
//
// Blocks both in the thread that makes it, and in those that this starts afterwards; one thread of
// its own waits for them. A second signal ends the process at once: the files of the storage folder
// are whole at any time. Made once, first. Wake and number from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "shared/base/clock.h"

namespace skep::cli {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Also called at the first signal, on the waiting thread; at once if it came already.
  void OnSignal(std::function<void(int number)> action);
  // Until a signal, Wake, or the end of that time.
  void Wait(const std::optional<Nanoseconds>& most);
  void Wake();
  // The first one that came, or 0.
  [[nodiscard]] int number() const;

 private:
  void Listen();
  void Take(int number);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void(int)>> actions_;
  int number_ = 0;
  bool is_woken_ = false;
  std::thread thread_;
};

}  // namespace skep::cli
