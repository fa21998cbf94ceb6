#include "client/trainer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/nn/network.h"
#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::client {
namespace {

constexpr std::size_t kEvaluationRows = 256;  // fixed, so that sums are always added alike

Status PassIf(BatchGate* gate) {
  return gate == nullptr ? Ok() : gate->Pass();
}

// The work of one Train: how far it has come, and what the last epoch showed.
struct Progress {
  std::uint32_t epoch = 0;
  std::uint32_t steps = 0;
  std::size_t first_epoch_rows = 0;
  std::size_t epoch_rows = 0;
  double epoch_loss = 0;  // summed over the epoch's examples
};

class BuiltInTrainer final : public Trainer {
 public:
  explicit BuiltInTrainer(kernels::Isa isa) : isa_(isa) {}

  Result<TrainReport> Train(const TrainingPlan& plan, const TaskIdentity& task,
                            const LocalData& data, std::span<float> params,
                            BatchGate* gate) override;
  Result<EvaluationReport> Evaluate(const TrainingPlan& plan, const LocalData& data,
                                    std::span<const float> params, BatchGate* gate) override;

 private:
  [[nodiscard]] static Status Check(const TrainingPlan& plan, const LocalData& data,
                                    std::size_t parameters, bool has_rows);
  // The kept workspace if it fits, else a new one.
  kernels::Network& Workspace(const model::ModelSpec& model, std::size_t rows);
  [[nodiscard]] Status LoadBatch(const TrainingPlan& plan, const data::Dataset& dataset,
                                 std::span<const std::uint32_t> rows);
  // One pass over the shuffled rows, or what is left of local_steps.
  [[nodiscard]] Status TrainEpoch(const TrainingPlan& plan, const LocalData& data,
                                  std::span<float> params, BatchGate* gate, Progress& progress);

  kernels::Isa isa_;
  std::vector<std::uint32_t> input_;  // of the model that network_ was made for
  std::vector<std::string> lines_;    // likewise
  std::optional<kernels::Network> network_;
  std::vector<std::uint32_t> order_;
  std::vector<float> x_;
  std::vector<std::int32_t> y_;
};

Status BuiltInTrainer::Check(const TrainingPlan& plan, const LocalData& data,
                             std::size_t parameters, bool has_rows) {
  if (data.dataset == nullptr || !has_rows) return Error{7402, "no examples for this task", ""};
  if (data.dataset->values != plan.model.input_values()) {
    return Error{7406,
                 "an example has " + std::to_string(data.dataset->values) +
                     " values, the model takes " + std::to_string(plan.model.input_values()),
                 ""};
  }
  if (parameters != plan.model.layout()->values()) {
    return Error{7406, "the model has another number of values than its plan says", ""};
  }
  return Ok();
}

kernels::Network& BuiltInTrainer::Workspace(const model::ModelSpec& model, std::size_t rows) {
  const bool is_same = network_ && lines_ == model.lines() && input_ == model.input();
  if (!is_same || network_->max_batch() < rows) {
    network_.emplace(model, rows, isa_);
    lines_ = model.lines();
    input_ = model.input();
  }
  if (x_.size() < rows * model.input_values()) x_.resize(rows * model.input_values());
  if (y_.size() < rows) y_.resize(rows);
  return *network_;
}

Status BuiltInTrainer::LoadBatch(const TrainingPlan& plan, const data::Dataset& dataset,
                                 std::span<const std::uint32_t> rows) {
  dataset.Gather(rows, x_.data(), y_.data());
  const auto classes = static_cast<std::int32_t>(plan.model.outputs());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (y_[i] < 0 || y_[i] >= classes) {
      return Error{7406, "the class of row " + std::to_string(rows[i]) + " is not in the plan", ""};
    }
  }
  return Ok();
}

Status BuiltInTrainer::TrainEpoch(const TrainingPlan& plan, const LocalData& data,
                                  std::span<float> params, BatchGate* gate, Progress& progress) {
  const std::size_t count = order_.size();
  const std::size_t batch = plan.batch_size == 0 ? count : plan.batch_size;
  const kernels::SgdStep step{.learning_rate = static_cast<float>(plan.learning_rate),
                              .momentum = static_cast<float>(plan.momentum),
                              .nesterov = plan.nesterov,
                              .weight_decay = static_cast<float>(plan.weight_decay),
                              .gradient_clip = plan.gradient_clip};
  progress.epoch_rows = 0;
  progress.epoch_loss = 0;
  while (progress.epoch_rows < count) {
    if (plan.local_steps > 0 && progress.steps == plan.local_steps) break;
    SKEP_TRY(PassIf(gate));
    const std::size_t left = count - progress.epoch_rows;
    std::size_t rows = std::min(batch, left);
    if (plan.merge_tail && left == rows + 1) ++rows;
    const auto chosen = std::span<const std::uint32_t>(order_).subspan(progress.epoch_rows, rows);
    if (Status loaded = LoadBatch(plan, *data.dataset, chosen); !loaded) return loaded;
    const double loss = network_->TrainStep(params, x_.data(), y_.data(), rows, step);
    progress.epoch_loss += loss * static_cast<double>(rows);
    progress.epoch_rows += rows;
    ++progress.steps;
  }
  if (progress.epoch == 0) progress.first_epoch_rows = progress.epoch_rows;
  ++progress.epoch;
  return Ok();
}

Result<TrainReport> BuiltInTrainer::Train(const TrainingPlan& plan, const TaskIdentity& task,
                                          const LocalData& data, std::span<float> params,
                                          BatchGate* gate) {
  if (Status checked = Check(plan, data, params.size(), !data.train.empty()); !checked) {
    return std::move(checked).error();
  }
  const std::size_t count = data.train.size();
  const std::size_t batch =
      plan.batch_size == 0 ? count : std::min<std::size_t>(plan.batch_size, count);
  Workspace(plan.model, std::min(batch + (plan.merge_tail ? 1 : 0), count)).BeginTask();
  Progress progress;
  while (plan.local_steps > 0 ? progress.steps < plan.local_steps
                              : progress.epoch < plan.local_epochs) {
    // Every epoch shuffles the list in its own order, so that an epoch can be repeated alone.
    order_.assign(data.train.begin(), data.train.end());
    ShuffleEpoch(EpochSeed(task.round_seed, task.client, task.round, progress.epoch), order_);
    if (Status done = TrainEpoch(plan, data, params, gate, progress); !done) {
      return std::move(done).error();
    }
  }
  return TrainReport{.examples = static_cast<std::uint32_t>(progress.first_epoch_rows),
                     .steps = progress.steps,
                     .loss = progress.epoch_loss / static_cast<double>(progress.epoch_rows)};
}

Result<EvaluationReport> BuiltInTrainer::Evaluate(const TrainingPlan& plan, const LocalData& data,
                                                  std::span<const float> params, BatchGate* gate) {
  if (Status checked = Check(plan, data, params.size(), !data.test.empty()); !checked) {
    return std::move(checked).error();
  }
  const std::size_t count = data.test.size();
  kernels::Network& network = Workspace(plan.model, std::min(kEvaluationRows, count));
  double loss = 0;
  std::size_t correct = 0;
  for (std::size_t first = 0; first < count; first += kEvaluationRows) {
    const std::size_t rows = std::min(kEvaluationRows, count - first);
    const auto chosen = std::span<const std::uint32_t>(data.test).subspan(first, rows);
    SKEP_TRY(PassIf(gate));
    if (Status loaded = LoadBatch(plan, *data.dataset, chosen); !loaded) {
      return std::move(loaded).error();
    }
    const kernels::Evaluation part = network.Evaluate(params, x_.data(), y_.data(), rows);
    loss += part.loss_sum;
    correct += part.correct;
  }
  const auto examples = static_cast<double>(count);
  return EvaluationReport{.examples = static_cast<std::uint32_t>(count),
                          .loss = loss / examples,
                          .accuracy = static_cast<double>(correct) / examples};
}

}  // namespace

Status StopGate::Pass() {
  return is_stopped() ? Status(Error{7407, "training was stopped", ""}) : Ok();
}

std::unique_ptr<Trainer> MakeBuiltInTrainer(kernels::Isa isa) {
  return std::make_unique<BuiltInTrainer>(isa);
}

}  // namespace skep::client
