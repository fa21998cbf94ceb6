// TaskGroup: counted coroutines that end together: asked first, then cancelled.
//
// No coroutine of the project runs outside of a group, so that nobody is left behind when a server
// stops. Not a thread pool and not for computation. The group, its tasks and every call belong to
// one executor that runs one thing at a time. Called by the drivers. Source: Skep protocol 1.0,
// section 19.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <functional>
#include <list>
#include <new>
#include <optional>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::net {

template <class T>
using Awaitable = boost::asio::awaitable<T>;

class TaskGroup {
 public:
  explicit TaskGroup(boost::asio::any_io_executor executor)
      : executor_(std::move(executor)), ended_(executor_) {}
  // Precondition: nothing runs.
  ~TaskGroup() { SKEP_CHECK(tasks_.empty()); }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // `stop` is how the task is asked to end (soft); may be empty. `on_end` gets its result, or
  // SKEP-9001 if an exception left it (9002: for want of memory); it is called once, when the
  // task's frame is gone, and may start other tasks.
  void Spawn(Awaitable<Status> task, std::function<void()> stop,
             std::function<void(Status)> on_end) {
    tasks_.emplace_back();
    const auto at = std::prev(tasks_.end());
    at->stop = std::move(stop);
    at->on_end = std::move(on_end);
    try {
      boost::asio::co_spawn(
          executor_, Run(std::move(task), &*at),
          boost::asio::bind_cancellation_slot(
              at->signal.slot(), [this, at](std::exception_ptr failure) { End(at, failure); }));
    } catch (...) {  // for want of memory: it never began
      tasks_.erase(at);
      throw;
    }
  }

  [[nodiscard]] std::size_t running() const { return tasks_.size(); }

  // Asks every task to end. Tasks that were started later are not asked.
  void AskToStop() {
    std::vector<std::function<void()>> asked;
    for (const Task& task : tasks_) {
      if (task.stop) asked.push_back(task.stop);
    }
    for (const auto& stop : asked) stop();
  }

  // Cancels what every task waits for; the operation ends with operation_aborted, never with an
  // exception.
  void Cancel() {
    std::vector<boost::asio::cancellation_signal*> signals;
    for (Task& task : tasks_) signals.push_back(&task.signal);
    // A cancelled operation completes later, by the executor, so no task can vanish in this loop.
    for (auto* signal : signals) signal->emit(boost::asio::cancellation_type::terminal);
  }

  // Until nothing runs, or `until`; says whether nothing runs. One waiter at a time.
  Awaitable<bool> WaitUntil(SteadyTime until) {
    while (!tasks_.empty() && ReadClock().steady < until) {
      ended_.expires_at(until);
      [[maybe_unused]] const auto woken =
          co_await ended_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    co_return tasks_.empty();
  }

  // Asks, waits for at most `patience`, cancels, and waits for the rest: what still runs must only
  // come to its next wait.
  Awaitable<void> Stop(Milliseconds patience) {
    AskToStop();
    const SteadyTime until = ReadClock().steady + patience;
    const bool has_ended = co_await WaitUntil(until);
    if (has_ended) co_return;
    Cancel();
    [[maybe_unused]] const bool all_ended = co_await WaitUntil(SteadyTime::max());
  }

 private:
  struct Task {
    boost::asio::cancellation_signal signal;
    std::function<void()> stop;
    std::function<void(Status)> on_end;
    std::optional<Status> result;
  };
  using Place = std::list<Task>::iterator;

  static Awaitable<void> Run(Awaitable<Status> task, Task* place) {
    co_await boost::asio::this_coro::throw_if_cancelled(false);
    Status result = co_await std::move(task);
    place->result = std::move(result);
  }

  void End(Place at, const std::exception_ptr& failure) {
    Status result = at->result.value_or(Error{9001, "a task ended without a result", ""});
    if (failure) result = ErrorOf(failure);
    const auto on_end = std::move(at->on_end);
    tasks_.erase(at);
    if (tasks_.empty()) ended_.cancel();
    if (on_end) on_end(std::move(result));
  }

  static Error ErrorOf(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::bad_alloc&) {
      return Error{9002, "no memory left", ""};
    } catch (const std::exception& exception) {
      return Error{9001, std::string("a task ended by an exception: ") + exception.what(), ""};
    } catch (...) {
      return Error{9001, "a task ended by an exception of unknown type", ""};
    }
  }

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer ended_;
  std::list<Task> tasks_;
};

}  // namespace skep::net
