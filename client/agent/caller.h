// Caller: the application's thread while it is inside a call of the library.
//
// The agent's thread hands over what must happen there: work that it waits for, and news for the
// application's callbacks. News never wait for work that takes long: a trainer takes them along
// between two batches. Post, Tell and Close from any thread. Source: Skep client library,
// section 5.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "shared/base/clock.h"

namespace skep::agent {

class Caller {
 public:
  // Work: done by Run, in the order posted.
  void Post(std::function<void()> work);
  // News: told by Run or TellNews, in their order. The oldest are dropped above a thousand.
  void Tell(std::function<void()> news);
  // Does what comes until Close, and then what is left.
  void Run();
  // The news that are there, on the thread of Run.
  void TellNews();
  void Close();
  // Run returns at the latest then, though not in the middle of work.
  void CloseBy(SteadyTime time);

 private:
  [[nodiscard]] std::function<void()> TakeNews();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::deque<std::function<void()>> news_;
  bool is_closed_ = false;
  SteadyTime closes_at_ = SteadyTime::max();
};

}  // namespace skep::agent
