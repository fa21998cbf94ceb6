// ThreadPool: a fixed number of workers and one queue. No result may depend on which worker runs
// what.
//
// For computation only: a task must not block on another task. Thread-safe. The destructor runs
// what is queued and joins.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace skep {

class ThreadPool {
 public:
  // A task is told the number of the worker that runs it, from 0, to find that worker's workspace.
  using Task = std::function<void(std::size_t worker)>;

  // workers >= 1.
  explicit ThreadPool(std::size_t workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] std::size_t size() const { return threads_.size(); }
  // Tasks start in the order posted. Exceptions must not leave a task.
  void Post(Task task);
  // Runs f(worker, i) for every i below `count` on the workers and waits for all. Not from inside a
  // task.
  void ForEach(std::size_t count, const std::function<void(std::size_t worker, std::size_t i)>& f);

 private:
  void Work(std::size_t worker);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace skep
