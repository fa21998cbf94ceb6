// TaskPool: trains virtual clients on worker threads, and hands the results back in virtual-time
// order.
//
// The simulation's thread owns it: it adds tasks under their event's key, and takes each result
// when that event is due. Only a window of tasks is in flight, always the earliest ones, so that
// finished updates never pile up. Results do not depend on the number of workers. One trainer and
// one copy of the parameters per worker, not per client.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "aggregator/inspector.h"
#include "client/trainer.h"
#include "client/update_pipeline.h"
#include "shared/base/executor.h"
#include "simulator/event_queue.h"

namespace skep::simulator {

struct TaskResult {
  Result<client::PendingUpdate> update = Error{};
  client::TrainReport report;
  aggregator::Inspection inspection;
  double train_s = 0;
};

class TaskPool {
 public:
  struct Limits {
    model::LayoutPtr layout;
    aggregator::AdmissionLimits admission;
  };
  TaskPool(ThreadPool& threads, kernels::Isa isa, Limits limits);
  ~TaskPool();

  // `data` must live until the result is taken.
  void Add(const EventKey& key, client::StartTraining task, const client::LocalData& data);
  // Waits for the result of a task that was added. `tick` is called about five times a second while
  // waiting; when it returns false the wait ends without a result.
  [[nodiscard]] std::optional<TaskResult> Take(const EventKey& key,
                                               const std::function<bool()>& tick);
  // The result of that task is not wanted any more.
  void Drop(const EventKey& key);
  // Drops everything and waits until no worker trains.
  void CancelAll();

 private:
  struct Task {
    client::StartTraining start;
    const client::LocalData* data = nullptr;
    client::StopGate gate;
    bool is_submitted = false;
    bool is_done = false;
    TaskResult result;
  };
  struct Workspace {
    std::unique_ptr<client::Trainer> trainer;
    model::FloatVector scratch;
  };

  void Submit();
  void SubmitOne(const std::shared_ptr<Task>& task);
  void RunOn(std::size_t worker, const std::shared_ptr<Task>& task);

  ThreadPool& threads_;
  Limits limits_;
  std::vector<Workspace> workspaces_;
  std::map<EventKey, std::shared_ptr<Task>> tasks_;
  std::size_t window_;
  std::size_t in_flight_ = 0;  // submitted and not yet taken or dropped

  std::mutex mutex_;  // guards is_done and running_
  std::condition_variable finished_;
  std::size_t running_ = 0;
};

}  // namespace skep::simulator
