#include "shared/base/executor.h"

#include <atomic>
#include <utility>

#include "shared/base/check.h"

namespace skep {

ThreadPool::ThreadPool(std::size_t workers) {
  SKEP_CHECK(workers >= 1);
  threads_.reserve(workers);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    threads_.emplace_back([this, worker] { Work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void ThreadPool::ForEach(std::size_t count,
                         const std::function<void(std::size_t worker, std::size_t i)>& f) {
  if (count == 0) return;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::condition_variable all_done;
  const std::size_t helpers = std::min(count, threads_.size());
  std::size_t running = helpers;
  for (std::size_t helper = 0; helper < helpers; ++helper) {
    Post([&](std::size_t worker) {
      for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) f(worker, i);
      const std::lock_guard lock(mutex);
      if (--running == 0) all_done.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  all_done.wait(lock, [&] { return running == 0; });
}

void ThreadPool::Work(std::size_t worker) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task(worker);
  }
}

}  // namespace skep
