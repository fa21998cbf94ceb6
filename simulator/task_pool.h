// TaskPool: trains virtual clients on worker threads or on a device, and hands the results back in
// virtual-time order.
//
// The simulation's thread owns it: it adds tasks under their event's key, and takes each result
// when that event is due. Only a window of tasks is in flight, always the earliest ones, so that
// finished updates never pile up. Results do not depend on the number of workers or of lanes. One
// trainer and one copy of the parameters per worker, not per client.
//
// With a device, training tasks go to it in groups, the earliest ones first, from a thread of its
// own; while a group trains, the updates of the one before are finished by the workers and taken.
// Evaluation on clients stays with the workers.
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
#include "client/device_trainer.h"
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
  std::optional<Error> device_failure;  // why no later task will do better
};

class TaskPool {
 public:
  struct Limits {
    model::LayoutPtr layout;
    aggregator::AdmissionLimits admission;
  };
  // `device`: with the lanes that it was planned for; without one clients train on the workers.
  struct Lanes {
    client::DeviceTrainerSetup device{};
    std::uint32_t count = 0;
  };
  TaskPool(ThreadPool& threads, kernels::Isa isa, Limits limits, Lanes lanes);
  ~TaskPool();

  // `data` must live until the result is taken.
  void Add(const EventKey& key, client::StartTraining task, const client::LocalData& data);
  // Waits for the result of a task that was added. `tick` is called about five times a second while
  // waiting; when it returns false the wait ends without a result.
  [[nodiscard]] std::optional<TaskResult> Take(const EventKey& key,
                                               const std::function<bool()>& tick);
  // The result of that task is not wanted any more.
  void Drop(const EventKey& key);
  // Drops everything and waits until nothing trains.
  void CancelAll();

 private:
  struct Task {
    client::StartTraining start;
    const client::LocalData* data = nullptr;
    client::StopGate gate;
    bool is_for_lanes = false;
    bool is_submitted = false;
    bool is_done = false;
    model::FloatVector params;  // in a lane
    TaskResult result;
  };
  using SharedTask = std::shared_ptr<Task>;
  using Group = std::vector<SharedTask>;
  struct Workspace {
    std::unique_ptr<client::Trainer> trainer;
    model::FloatVector scratch;
  };

  void Submit();
  void SubmitOne(const SharedTask& task);
  void SubmitGroup(Group group);
  void Leave(const Task& task);
  void RunOn(std::size_t worker, Task& task);
  void RunGroup(const Group& group);
  void TrainInLanes(const Group& group);
  void FinishOn(std::size_t worker, Task& task);
  void Inspect(TaskResult& result) const;
  void SetDone(Task& task);
  [[nodiscard]] model::FloatVector TakeSpare();

  ThreadPool& threads_;
  Limits limits_;
  std::uint32_t lanes_;
  std::vector<Workspace> workspaces_;
  std::map<EventKey, SharedTask> tasks_;
  std::size_t window_;
  std::size_t in_flight_ = 0;  // on the workers: submitted and not yet taken or dropped
  std::size_t in_lanes_ = 0;   // likewise, on the device

  std::mutex mutex_;  // guards is_done, running_ and spare_
  std::condition_variable finished_;
  std::size_t running_ = 0;
  std::vector<model::FloatVector> spare_;  // parameters of lanes that are over

  client::StopGate lanes_gate_;
  std::unique_ptr<client::DeviceTrainer> device_;  // used by device_thread_ alone
  std::unique_ptr<ThreadPool> device_thread_;      // last: joined first
};

}  // namespace skep::simulator
