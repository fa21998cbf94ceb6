// Trainer: local work on a device's own data. The built-in one trains the layers of the plan on the
// CPU.
//
// Called by the driver of a Session (agent or simulator) on a worker thread; one trainer serves one
// thread at a time and keeps its workspace between tasks. It never touches the network or a clock.
// Source: docs/architecture.md; McMahan et al. 2017, ClientUpdate of algorithm 1.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/nn/loss.h"
#include "kernels/nn/optimiser.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/data/dataset.h"
#include "shared/model/model_spec.h"
#include "shared/model/params.h"
#include "shared/wire/messages.h"

namespace skep::client {

// What the plan says about local work, decoded once per plan.
struct TrainingPlan {
  model::ModelSpec model;
  kernels::LossKind loss = kernels::LossKind::kSoftmaxCrossEntropy;
  kernels::Rule rule = kernels::Rule::kSgd;
  double learning_rate = 0;
  std::uint32_t batch_size = 0;    // 0 = all examples as one batch
  std::uint32_t local_epochs = 0;  // exactly one of epochs and steps is > 0
  std::uint32_t local_steps = 0;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double gradient_clip = 0;  // 0 = none
  bool merge_tail = false;   // a last batch of one row joins the batch before
  bool uniform_weighting = false;

  // Labels are below this: the model's outputs, or 2 for one output that is no softmax.
  [[nodiscard]] std::int32_t Classes() const;
};

// Memory of a worker that trains such plans on clients of at most `rows` examples and evaluates
// between them, without the data: parameters x (2 + states of the optimiser; 1 with plain SGD), and
// what a batch needs. A tenth too much at most.
[[nodiscard]] std::uint64_t WorkerBytes(const TrainingPlan& plan, std::size_t rows);

// Whether an epoch of `rows` examples has a batch of one row that is trained on. Batch norm cannot.
[[nodiscard]] bool HasSingleRowBatch(const TrainingPlan& plan, std::size_t rows);

// SKEP-2219: a plan that this client cannot do; the message says what.
[[nodiscard]] Result<TrainingPlan> ReadTrainingPlan(const wire::Plan& plan);

// A client's own examples: rows of a data set. Training rows in the client's order (purpose 17).
struct LocalData {
  std::shared_ptr<const data::Dataset> dataset;
  std::vector<std::uint32_t> train;
  std::vector<std::uint32_t> test;  // held out; empty if none
};

// Which task: fixes every random draw.
struct TaskIdentity {
  Seed32 round_seed;
  std::uint32_t round = 0;
  ClientNumber client = 0;
};

struct TrainReport {
  std::uint32_t examples = 0;  // distinct ones
  std::uint32_t steps = 0;
  double loss = 0;  // mean over the last epoch's labels; NaN if none counts
};
struct EvaluationReport {
  std::uint32_t examples = 0;
  double loss = 0;      // mean over the labels that count; NaN without one
  double accuracy = 0;  // share of them
};

// What stands before each batch of a task: the owner of the thread may stop the work there, or take
// its time so that the device stays usable.
class BatchGate {
 public:
  virtual ~BatchGate() = default;
  // On the trainer's thread. SKEP-7407: stop here.
  [[nodiscard]] virtual Status Pass() = 0;
};

// Only knows to stop. Stop and Reopen from any thread.
class StopGate final : public BatchGate {
 public:
  void Stop() { is_stopped_.store(true, std::memory_order_relaxed); }
  void Reopen() { is_stopped_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }
  [[nodiscard]] Status Pass() override;

 private:
  std::atomic<bool> is_stopped_{false};
};

class ExampleSource;

class Trainer {
 public:
  virtual ~Trainer() = default;

  // Trains `params` in place. `gate`, if given, is passed before each batch, and its error ends the
  // task. SKEP-7402 without examples. SKEP-7406: they do not suit the
  // model.
  [[nodiscard]] virtual Result<TrainReport> Train(const TrainingPlan& plan,
                                                  const TaskIdentity& task, const LocalData& data,
                                                  std::span<float> params, BatchGate* gate) = 0;
  // On the held-out rows.
  [[nodiscard]] virtual Result<EvaluationReport> Evaluate(const TrainingPlan& plan,
                                                          const LocalData& data,
                                                          std::span<const float> params,
                                                          BatchGate* gate) = 0;
  // The same on what `source` gives; also the source's errors.
  [[nodiscard]] virtual Result<TrainReport> TrainFrom(const TrainingPlan& plan,
                                                      const TaskIdentity& task,
                                                      ExampleSource& source,
                                                      std::span<float> params, BatchGate* gate) = 0;
  [[nodiscard]] virtual Result<EvaluationReport> EvaluateFrom(const TrainingPlan& plan,
                                                              const TaskIdentity& task,
                                                              ExampleSource& source,
                                                              std::span<const float> params,
                                                              BatchGate* gate) = 0;
};

[[nodiscard]] std::unique_ptr<Trainer> MakeBuiltInTrainer(kernels::Isa isa);

}  // namespace skep::client
