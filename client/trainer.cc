#include "client/trainer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "client/batches.h"
#include "kernels/nn/network.h"
#include "kernels/nn/network_plan.h"
#include "kernels/nn/workspace_bytes.h"
#include "shared/base/try.h"

namespace skep::client {
namespace {

Status PassIf(BatchGate* gate) {
  return gate == nullptr ? Ok() : gate->Pass();
}

double Mean(double sum, std::size_t count) {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

// What the last epoch showed.
struct Progress {
  std::size_t labels = 0;  // that count
  double loss = 0;         // summed over them
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
  // The kept workspace if it fits, else a new one. 1 row if it is only to evaluate.
  kernels::Network& Workspace(const TrainingPlan& plan, std::size_t training_rows);
  [[nodiscard]] Status LoadBatch(const TrainingPlan& plan, const data::Dataset& dataset,
                                 std::span<const std::uint32_t> rows);
  [[nodiscard]] std::size_t CountedLabels(const TrainingPlan& plan, std::size_t rows) const;

  kernels::Isa isa_;
  std::vector<std::uint32_t> input_;  // of the model that network_ was made for
  std::vector<std::string> lines_;    // likewise
  kernels::LossKind loss_{};          // likewise
  std::optional<kernels::Network> network_;
  Batches batches_;
  model::FloatVector x_;  // aligned: the loops of the first layer read it in whole lines
  std::vector<std::int32_t> y_;
};

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
  return CheckExamples(plan, rows, x_.data(), y_.data());
}

std::size_t BuiltInTrainer::CountedLabels(const TrainingPlan& plan, std::size_t rows) const {
  const std::size_t labels = rows * plan.model.positions();
  return static_cast<std::size_t>(
      std::count_if(y_.begin(), y_.begin() + static_cast<std::ptrdiff_t>(labels),
                    [](std::int32_t label) { return label != kernels::kNoLabel; }));
}

Result<TrainReport> BuiltInTrainer::Train(const TrainingPlan& plan, const TaskIdentity& task,
                                          const LocalData& data, std::span<float> params,
                                          BatchGate* gate) {
  SKEP_TRY(CheckTask(plan, data, params.size()));
  Workspace(plan, LargestBatch(plan, data.train.size())).BeginTask();
  const kernels::OptimiserStep step = StepOf(plan);
  Progress progress;
  batches_.Begin(plan, task, data.train);
  while (batches_.steps() < batches_.all_steps()) {
    SKEP_TRY(PassIf(gate));
    const std::span<const std::uint32_t> rows = batches_.Next();
    if (batches_.starts_epoch()) progress = {};
    SKEP_TRY(LoadBatch(plan, *data.dataset, rows));
    const double loss =
        network_->TrainStep(params, {x_.data(), y_.data(), rows.size()}, step, batches_.StepKey());
    const std::size_t labels = CountedLabels(plan, rows.size());
    progress.loss += loss * static_cast<double>(labels);
    progress.labels += labels;
  }
  return TrainReport{.examples = static_cast<std::uint32_t>(batches_.first_epoch_rows()),
                     .steps = batches_.steps(),
                     .loss = Mean(progress.loss, progress.labels)};
}

Result<EvaluationReport> BuiltInTrainer::Evaluate(const TrainingPlan& plan, const LocalData& data,
                                                  std::span<const float> params, BatchGate* gate) {
  SKEP_TRY(CheckData(plan, data, params.size(), !data.test.empty()));
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
