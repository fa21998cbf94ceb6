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

// Whether both can train in the lanes of one network.
bool AreAlike(const client::StartTraining& a, const client::StartTraining& b) {
  return a.manifest.plan_sha256 == b.manifest.plan_sha256;
}

}  // namespace

TaskPool::TaskPool(ThreadPool& threads, kernels::Isa isa, Limits limits, Lanes lanes)
    : threads_(threads),
      limits_(std::move(limits)),
      lanes_(lanes.count),
      window_(WindowFor(threads.size())) {
  for (std::size_t worker = 0; worker < threads.size(); ++worker) {
    workspaces_.push_back({.trainer = client::MakeBuiltInTrainer(isa), .scratch = {}});
  }
  if (lanes.device.device == nullptr) return;
  SKEP_CHECK(lanes_ > 0);
  device_ = std::make_unique<client::DeviceTrainer>(std::move(lanes.device));
  device_thread_ = std::make_unique<ThreadPool>(1);
}

TaskPool::~TaskPool() {
  CancelAll();
}

void TaskPool::Add(const EventKey& key, client::StartTraining task, const client::LocalData& data) {
  auto entry = std::make_shared<Task>();
  entry->is_for_lanes = device_ != nullptr && task.manifest.kind == wire::TaskKind::kTrain;
  entry->start = std::move(task);
  entry->data = &data;
  tasks_.emplace(key, std::move(entry));
}

std::optional<TaskResult> TaskPool::Take(const EventKey& key, const std::function<bool()>& tick) {
  Submit();
  const auto found = tasks_.find(key);
  SKEP_CHECK(found != tasks_.end());
  const SharedTask task = found->second;
  // Added after the window had filled with later ones.
  if (!task->is_submitted) task->is_for_lanes ? SubmitGroup({task}) : SubmitOne(task);
  {
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, kTick, [&] { return task->is_done; })) {
      lock.unlock();
      if (!tick()) return std::nullopt;
      lock.lock();
    }
  }
  tasks_.erase(found);
  Leave(*task);
  Submit();
  return std::move(task->result);
}

void TaskPool::Leave(const Task& task) {
  if (task.is_submitted) --(task.is_for_lanes ? in_lanes_ : in_flight_);
}

void TaskPool::Drop(const EventKey& key) {
  const auto found = tasks_.find(key);
  if (found == tasks_.end()) return;
  found->second->gate.Stop();
  Leave(*found->second);
  tasks_.erase(found);
}

void TaskPool::CancelAll() {
  for (auto& [key, task] : tasks_) task->gate.Stop();
  tasks_.clear();
  in_flight_ = 0;
  in_lanes_ = 0;
  lanes_gate_.Stop();
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return running_ == 0; });
  lanes_gate_.Reopen();
}

// Gives out the earliest tasks that nobody has yet, as far as the windows go. The device gets a
// whole group while at most one other is on its way.
void TaskPool::Submit() {
  Group group;
  const bool has_room = in_lanes_ <= lanes_;
  for (auto& [key, task] : tasks_) {
    const bool is_device_served = device_ == nullptr || !has_room || group.size() == lanes_;
    if (in_flight_ >= window_ && is_device_served) break;
    if (task->is_submitted) continue;
    if (!task->is_for_lanes) {
      if (in_flight_ < window_) SubmitOne(task);
    } else if (has_room && group.size() < lanes_ &&
               (group.empty() || AreAlike(group.front()->start, task->start))) {
      group.push_back(task);
    }
  }
  if (!group.empty()) SubmitGroup(std::move(group));
}

void TaskPool::SubmitOne(const SharedTask& task) {
  task->is_submitted = true;
  ++in_flight_;
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  threads_.Post([this, task](std::size_t worker) { RunOn(worker, *task); });
}

void TaskPool::SubmitGroup(Group group) {
  for (const SharedTask& task : group) task->is_submitted = true;
  in_lanes_ += group.size();
  {
    const std::lock_guard lock(mutex_);
    running_ += group.size();
  }
  device_thread_->Post([this, group = std::move(group)](std::size_t) { RunGroup(group); });
}

void TaskPool::RunOn(std::size_t worker, Task& task) {
  if (!task.gate.is_stopped()) {
    Workspace& workspace = workspaces_[worker];
    const Nanoseconds before = ThreadCpuTime();
    TaskResult& result = task.result;
    result.update = client::RunTask(task.start, *task.data, *workspace.trainer, workspace.scratch,
                                    &task.gate, &result.report);
    result.train_s = Seconds(ThreadCpuTime() - before);
    Inspect(result);
  }
  SetDone(task);
}

void TaskPool::Inspect(TaskResult& result) const {
  if (!result.update.has_value() || !result.update->body.bytes ||
      result.update->body.bytes->empty())
    return;
  result.inspection =
      aggregator::Inspect(*result.update->body.bytes, *limits_.layout, limits_.admission);
}

// On the device's thread.
void TaskPool::RunGroup(const Group& group) {
  Group wanted;
  for (const SharedTask& task : group) {
    if (task->gate.is_stopped()) {
      SetDone(*task);
      continue;
    }
    task->params = TakeSpare();
    if (Status read = client::ReadModel(task->start, task->params); read) {
      wanted.push_back(task);
    } else {
      task->result.update = std::move(read).error();
      SetDone(*task);
    }
  }
  if (!wanted.empty()) TrainInLanes(wanted);
}

void TaskPool::TrainInLanes(const Group& group) {
  std::vector<client::LaneTask> lanes;
  for (const SharedTask& task : group) {
    const wire::Manifest& manifest = task->start.manifest;
    lanes.push_back({.task = {manifest.round_seed, manifest.round, task->start.client},
                     .data = task->data,
                     .params = task->params});
  }
  const SteadyTime before = ReadClock().steady;
  std::vector<Result<client::TrainReport>> reports =
      device_->TrainMany(*group.front()->start.plan, lanes, &lanes_gate_);
  const double took = Seconds(ReadClock().steady - before) / static_cast<double>(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    const SharedTask& task = group[i];
    task->result.train_s = took;
    if (!reports[i].has_value()) {
      task->result.update = std::move(reports[i]).error();
      task->result.device_failure = device_->failure();
      SetDone(*task);
      continue;
    }
    task->result.report = *reports[i];
    threads_.Post([this, task](std::size_t worker) { FinishOn(worker, *task); });
  }
}

void TaskPool::FinishOn(std::size_t worker, Task& task) {
  if (!task.gate.is_stopped()) {
    model::FloatVector& received = workspaces_[worker].scratch;
    received.resize(task.params.size());
    TaskResult& result = task.result;
    const Status read = client::ReadModel(task.start, received);
    SKEP_CHECK(read.has_value());  // as before it was trained
    result.update = client::MakeUpdate(task.start, result.report, received, task.params);
    Inspect(result);
  }
  SetDone(task);
}

model::FloatVector TaskPool::TakeSpare() {
  model::FloatVector params;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      params = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  params.resize(limits_.layout->values());
  return params;
}

void TaskPool::SetDone(Task& task) {
  const std::lock_guard lock(mutex_);
  if (!task.params.empty()) spare_.push_back(std::move(task.params));
  task.is_done = true;
  --running_;
  finished_.notify_all();
}

}  // namespace skep::simulator
