#include "simulator/task_pool.h"

#include <chrono>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/clock.h"

namespace skep::simulator {
namespace {

constexpr Milliseconds kTick{200};

// Enough that no worker runs dry while the simulation's thread folds an update.
std::size_t WindowFor(std::size_t workers) {
  return 2 * workers + 2;
}

}  // namespace

TaskPool::TaskPool(ThreadPool& threads, kernels::Isa isa, Limits limits)
    : threads_(threads), limits_(std::move(limits)), window_(WindowFor(threads.size())) {
  for (std::size_t worker = 0; worker < threads.size(); ++worker) {
    workspaces_.push_back({.trainer = client::MakeBuiltInTrainer(isa), .scratch = {}});
  }
}

TaskPool::~TaskPool() {
  CancelAll();
}

void TaskPool::Add(const EventKey& key, client::StartTraining task, const client::LocalData& data) {
  auto entry = std::make_shared<Task>();
  entry->start = std::move(task);
  entry->data = &data;
  tasks_.emplace(key, std::move(entry));
}

std::optional<TaskResult> TaskPool::Take(const EventKey& key, const std::function<bool()>& tick) {
  Submit();
  const auto found = tasks_.find(key);
  SKEP_CHECK(found != tasks_.end());
  const std::shared_ptr<Task> task = found->second;
  if (!task->is_submitted) SubmitOne(task);  // added after the window had filled with later ones
  {
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, kTick, [&] { return task->is_done; })) {
      lock.unlock();
      if (!tick()) return std::nullopt;
      lock.lock();
    }
  }
  tasks_.erase(found);
  --in_flight_;
  Submit();
  return std::move(task->result);
}

void TaskPool::Drop(const EventKey& key) {
  const auto found = tasks_.find(key);
  if (found == tasks_.end()) return;
  found->second->gate.Stop();
  if (found->second->is_submitted) --in_flight_;
  tasks_.erase(found);
}

void TaskPool::CancelAll() {
  for (auto& [key, task] : tasks_) task->gate.Stop();
  tasks_.clear();
  in_flight_ = 0;
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return running_ == 0; });
}

// Gives the workers the earliest tasks that they do not have yet, as far as the window goes.
void TaskPool::Submit() {
  for (auto& [key, task] : tasks_) {
    if (in_flight_ >= window_) return;
    if (!task->is_submitted) SubmitOne(task);
  }
}

void TaskPool::SubmitOne(const std::shared_ptr<Task>& task) {
  task->is_submitted = true;
  ++in_flight_;
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  threads_.Post([this, task](std::size_t worker) { RunOn(worker, task); });
}

void TaskPool::RunOn(std::size_t worker, const std::shared_ptr<Task>& task) {
  if (!task->gate.is_stopped()) {
    Workspace& workspace = workspaces_[worker];
    const Nanoseconds before = ThreadCpuTime();
    TaskResult& result = task->result;
    result.update = client::RunTask(task->start, *task->data, *workspace.trainer, workspace.scratch,
                                    &task->gate, &result.report);
    result.train_s = Seconds(ThreadCpuTime() - before);
    if (result.update.has_value() && result.update->body.bytes &&
        !result.update->body.bytes->empty()) {
      result.inspection =
          aggregator::Inspect(*result.update->body.bytes, *limits_.layout, limits_.admission);
    }
  }
  const std::lock_guard lock(mutex_);
  task->is_done = true;
  --running_;
  finished_.notify_all();
}

}  // namespace skep::simulator
