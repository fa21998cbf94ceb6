#include "client/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "kernels/nn/network.h"
#include "kernels/nn/network_plan.h"
#include "kernels/nn/workspace_bytes.h"
#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::client {
namespace {

Status PassIf(BatchGate* gate) {
  return gate == nullptr ? Ok() : gate->Pass();
}

Error Unsuitable(std::string message) {
  return Error{7406, std::move(message), ""};
}

double Mean(double sum, std::size_t count) {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

kernels::OptimiserStep StepOf(const TrainingPlan& plan) {
  return {.learning_rate = static_cast<float>(plan.learning_rate),
          .rule = plan.rule,
          .momentum = static_cast<float>(plan.momentum),
          .nesterov = plan.nesterov,
          .weight_decay = static_cast<float>(plan.weight_decay),
          .gradient_clip = plan.gradient_clip};
}

// The largest batch of a client of `count` examples.
std::size_t LargestBatch(const TrainingPlan& plan, std::size_t count) {
  const std::size_t batch =
      plan.batch_size == 0 ? count : std::min<std::size_t>(plan.batch_size, count);
  return std::min(batch + (plan.merge_tail ? 1 : 0), count);
}

// The work of one Train: how far it has come, and what the last epoch showed.
struct Progress {
  std::uint32_t epoch = 0;
  std::uint32_t steps = 0;
  std::size_t first_epoch_rows = 0;
  std::size_t epoch_rows = 0;
  std::size_t epoch_labels = 0;  // that count
  double epoch_loss = 0;         // summed over them
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
  // The kept workspace if it fits, else a new one. 1 row if it is only to evaluate.
  kernels::Network& Workspace(const TrainingPlan& plan, std::size_t training_rows);
  [[nodiscard]] Status LoadBatch(const TrainingPlan& plan, const data::Dataset& dataset,
                                 std::span<const std::uint32_t> rows);
  [[nodiscard]] std::size_t CountedLabels(const TrainingPlan& plan, std::size_t rows) const;
  // One pass over the shuffled rows, or what is left of local_steps.
  [[nodiscard]] Status TrainEpoch(const TrainingPlan& plan, const TaskIdentity& task,
                                  const LocalData& data, std::span<float> params, BatchGate* gate,
                                  Progress& progress);

  kernels::Isa isa_;
  std::vector<std::uint32_t> input_;  // of the model that network_ was made for
  std::vector<std::string> lines_;    // likewise
  kernels::LossKind loss_{};          // likewise
  std::optional<kernels::Network> network_;
  std::vector<std::uint32_t> order_;
  std::vector<float> x_;
  std::vector<std::int32_t> y_;
};

Status BuiltInTrainer::Check(const TrainingPlan& plan, const LocalData& data,
                             std::size_t parameters, bool has_rows) {
  if (data.dataset == nullptr || !has_rows) return Error{7402, "no examples for this task", ""};
  if (data.dataset->values != plan.model.input_values()) {
    return Unsuitable("an example has " + std::to_string(data.dataset->values) +
                      " values, the model takes " + std::to_string(plan.model.input_values()));
  }
  if (data.dataset->labels_per_row != plan.model.positions()) {
    return Unsuitable("an example has " + std::to_string(data.dataset->labels_per_row) +
                      " labels, the model answers at " + std::to_string(plan.model.positions()) +
                      " places");
  }
  if (parameters != plan.model.layout()->values()) {
    return Unsuitable("the model has another number of values than its plan says");
  }
  return Ok();
}

kernels::Network& BuiltInTrainer::Workspace(const TrainingPlan& plan, std::size_t training_rows) {
  const model::ModelSpec& model = plan.model;
  const bool is_same =
      network_ && lines_ == model.lines() && input_ == model.input() && loss_ == plan.loss;
  if (!is_same || network_->training_rows() < training_rows) {
    network_.reset();  // never two at once
    network_.emplace(model, training_rows, isa_, plan.loss);
    lines_ = model.lines();
    input_ = model.input();
    loss_ = plan.loss;
  }
  return *network_;
}

Status BuiltInTrainer::LoadBatch(const TrainingPlan& plan, const data::Dataset& dataset,
                                 std::span<const std::uint32_t> rows) {
  const std::size_t values = plan.model.input_values();
  const std::size_t labels = plan.model.positions();
  if (x_.size() < rows.size() * values) x_.resize(rows.size() * values);
  if (y_.size() < rows.size() * labels) y_.resize(rows.size() * labels);
  dataset.Gather(rows, x_.data(), y_.data());
  const std::int32_t classes = plan.Classes();
  for (std::size_t i = 0; i < rows.size() * labels; ++i) {
    const bool is_known = y_[i] >= 0 && y_[i] < classes;
    // A sequence may have places that do not count; an example of one label has to have it.
    if (is_known || (labels > 1 && y_[i] == kernels::kNoLabel)) continue;
    return Unsuitable("the class of row " + std::to_string(rows[i / labels]) +
                      " is not in the plan");
  }
  const auto symbols = static_cast<float>(plan.model.input_symbols());
  if (symbols == 0) return Ok();
  for (std::size_t i = 0; i < rows.size() * values; ++i) {
    if (x_[i] >= 0 && x_[i] < symbols && x_[i] == std::floor(x_[i])) continue;
    return Unsuitable("row " + std::to_string(rows[i / values]) +
                      " holds what is no symbol of the model: whole numbers below " +
                      std::to_string(plan.model.input_symbols()));
  }
  return Ok();
}

std::size_t BuiltInTrainer::CountedLabels(const TrainingPlan& plan, std::size_t rows) const {
  const std::size_t labels = rows * plan.model.positions();
  return static_cast<std::size_t>(
      std::count_if(y_.begin(), y_.begin() + static_cast<std::ptrdiff_t>(labels),
                    [](std::int32_t label) { return label != kernels::kNoLabel; }));
}

Status BuiltInTrainer::TrainEpoch(const TrainingPlan& plan, const TaskIdentity& task,
                                  const LocalData& data, std::span<float> params, BatchGate* gate,
                                  Progress& progress) {
  const std::size_t count = order_.size();
  const std::size_t batch = plan.batch_size == 0 ? count : plan.batch_size;
  const kernels::OptimiserStep step = StepOf(plan);
  progress.epoch_rows = 0;
  progress.epoch_labels = 0;
  progress.epoch_loss = 0;
  while (progress.epoch_rows < count) {
    if (plan.local_steps > 0 && progress.steps == plan.local_steps) break;
    SKEP_TRY(PassIf(gate));
    const std::size_t left = count - progress.epoch_rows;
    std::size_t rows = std::min(batch, left);
    if (plan.merge_tail && left == rows + 1) ++rows;
    const auto chosen = std::span<const std::uint32_t>(order_).subspan(progress.epoch_rows, rows);
    SKEP_TRY(LoadBatch(plan, *data.dataset, chosen));
    const std::uint64_t key = StepKey(task.round_seed, task.client, task.round, progress.steps);
    const double loss = network_->TrainStep(params, {x_.data(), y_.data(), rows}, step, key);
    const std::size_t labels = CountedLabels(plan, rows);
    progress.epoch_loss += loss * static_cast<double>(labels);
    progress.epoch_labels += labels;
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
  SKEP_TRY(Check(plan, data, params.size(), !data.train.empty()));
  const std::size_t count = data.train.size();
  if (plan.model.has_batch_norm() && HasSingleRowBatch(plan, count)) {
    return Unsuitable(std::to_string(count) +
                      " examples leave a batch of one row, which batch norm cannot train on");
  }
  Workspace(plan, LargestBatch(plan, count)).BeginTask();
  Progress progress;
  while (plan.local_steps > 0 ? progress.steps < plan.local_steps
                              : progress.epoch < plan.local_epochs) {
    // Every epoch shuffles the list in its own order, so that an epoch can be repeated alone.
    order_.assign(data.train.begin(), data.train.end());
    ShuffleEpoch(EpochSeed(task.round_seed, task.client, task.round, progress.epoch), order_);
    SKEP_TRY(TrainEpoch(plan, task, data, params, gate, progress));
  }
  return TrainReport{.examples = static_cast<std::uint32_t>(progress.first_epoch_rows),
                     .steps = progress.steps,
                     .loss = Mean(progress.epoch_loss, progress.epoch_labels)};
}

Result<EvaluationReport> BuiltInTrainer::Evaluate(const TrainingPlan& plan, const LocalData& data,
                                                  std::span<const float> params, BatchGate* gate) {
  SKEP_TRY(Check(plan, data, params.size(), !data.test.empty()));
  const std::size_t count = data.test.size();
  kernels::Network& network = Workspace(plan, 1);
  // It follows from the model alone, so that sums are always added alike.
  const std::size_t piece = network.evaluation_rows();
  kernels::Evaluation sums;
  for (std::size_t first = 0; first < count; first += piece) {
    const std::size_t rows = std::min(piece, count - first);
    const auto chosen = std::span<const std::uint32_t>(data.test).subspan(first, rows);
    SKEP_TRY(PassIf(gate));
    SKEP_TRY(LoadBatch(plan, *data.dataset, chosen));
    const kernels::Evaluation part = network.Evaluate(params, {x_.data(), y_.data(), rows});
    sums.loss_sum += part.loss_sum;
    sums.counted += part.counted;
    sums.correct += part.correct;
  }
  return EvaluationReport{.examples = static_cast<std::uint32_t>(count),
                          .loss = Mean(sums.loss_sum, sums.counted),
                          .accuracy = Mean(static_cast<double>(sums.correct), sums.counted)};
}

}  // namespace

std::int32_t TrainingPlan::Classes() const {
  const bool is_binary = model.outputs() == 1 && loss != kernels::LossKind::kSoftmaxCrossEntropy;
  return is_binary ? 2 : static_cast<std::int32_t>(model.outputs());
}

std::uint64_t WorkerBytes(const TrainingPlan& plan, std::size_t rows) {
  const std::size_t batch = LargestBatch(plan, rows);
  const std::size_t most =
      std::max(batch, kernels::EvaluationRows(kernels::PlanNetwork(plan.model)));
  const std::uint64_t row =
      plan.model.input_values() * sizeof(float) + plan.model.positions() * sizeof(std::int32_t);
  return plan.model.layout()->values() * sizeof(float) + most * row + rows * sizeof(std::uint32_t) +
         kernels::WorkspaceBytes(plan.model, batch, StepOf(plan));
}

bool HasSingleRowBatch(const TrainingPlan& plan, std::size_t rows) {
  const std::size_t batch = plan.batch_size == 0 ? rows : plan.batch_size;
  if (rows == 0) return false;
  if (rows == 1 || batch == 1) return true;
  const bool has_single_tail = rows % batch == 1 && !plan.merge_tail;
  // Steps that end before the last batch of the first epoch never meet it.
  return has_single_tail && (plan.local_steps == 0 || plan.local_steps > rows / batch);
}

Status StopGate::Pass() {
  return is_stopped() ? Status(Error{7407, "training was stopped", ""}) : Ok();
}

std::unique_ptr<Trainer> MakeBuiltInTrainer(kernels::Isa isa) {
  return std::make_unique<BuiltInTrainer>(isa);
}

}  // namespace skep::client
