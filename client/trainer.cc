#include "client/trainer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "client/batches.h"
#include "client/row_source.h"
#include "client/stream_batches.h"
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
  Result<TrainReport> TrainFrom(const TrainingPlan& plan, const TaskIdentity& task,
                                ExampleSource& source, std::span<float> params,
                                BatchGate* gate) override;
  Result<EvaluationReport> EvaluateFrom(const TrainingPlan& plan, const TaskIdentity& task,
                                        ExampleSource& source, std::span<const float> params,
                                        BatchGate* gate) override;

 private:
  // The kept workspace if it fits, else a new one. 1 row if it is only to evaluate.
  kernels::Network& Workspace(const TrainingPlan& plan, std::size_t training_rows);
  kernels::Isa isa_;
  std::vector<std::uint32_t> input_;  // of the model that network_ was made for
  std::vector<std::string> lines_;    // likewise
  kernels::LossKind loss_{};          // likewise
  std::optional<kernels::Network> network_;
  RowSource rows_;
  StreamBatches batches_;
};

StreamBatches::Rules RulesOf(const TrainingPlan& plan) {
  return {.values = plan.model.input_values(),
          .labels = plan.model.positions(),
          .batch = plan.batch_size,
          .epochs = plan.local_epochs,
          .steps = plan.local_steps,
          .merges_tail = plan.merge_tail};
}

std::size_t CountedLabels(const TrainingPlan& plan, const StreamBatches::View& batch) {
  const std::span<const std::int32_t> labels(batch.y, batch.rows * plan.model.positions());
  return labels.size() -
         static_cast<std::size_t>(std::count(labels.begin(), labels.end(), kernels::kNoLabel));
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

// What a source cannot know by itself.
Status CheckBatch(const TrainingPlan& plan, std::size_t rows) {
  if (rows > 1 || !plan.model.has_batch_norm()) return Ok();
  return Error{7406, "a batch of one row, which batch norm cannot train on", ""};
}

Result<TrainReport> BuiltInTrainer::Train(const TrainingPlan& plan, const TaskIdentity& task,
                                          const LocalData& data, std::span<float> params,
                                          BatchGate* gate) {
  SKEP_TRY(CheckTask(plan, data, params.size()));
  rows_.Open(plan, *data.dataset, data.train, RowSource::Order::kShuffled);
  return TrainFrom(plan, task, rows_, params, gate);
}

Result<TrainReport> BuiltInTrainer::TrainFrom(const TrainingPlan& plan, const TaskIdentity& task,
                                              ExampleSource& source, std::span<float> params,
                                              BatchGate* gate) {
  SKEP_TRY(CheckParameters(plan, params.size()));
  Workspace(plan, LargestBatch(plan, source.most_rows())).BeginTask();
  const kernels::OptimiserStep step = StepOf(plan);
  Progress progress;
  batches_.Begin(RulesOf(plan), task, source);
  while (true) {
    SKEP_ASSIGN(const StreamBatches::View batch, batches_.Next());
    if (batch.rows == 0) break;
    SKEP_TRY(PassIf(gate));
    SKEP_TRY(CheckBatch(plan, batch.rows));
    if (batches_.starts_epoch()) progress = {};
    const double loss =
        network_->TrainStep(params, {batch.x, batch.y, batch.rows}, step, batches_.StepKey());
    const std::size_t labels = CountedLabels(plan, batch);
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
  rows_.Open(plan, *data.dataset, data.test, RowSource::Order::kAsListed);
  return EvaluateFrom(plan, {}, rows_, params, gate);
}

Result<EvaluationReport> BuiltInTrainer::EvaluateFrom(const TrainingPlan& plan,
                                                      const TaskIdentity& task,
                                                      ExampleSource& source,
                                                      std::span<const float> params,
                                                      BatchGate* gate) {
  SKEP_TRY(CheckParameters(plan, params.size()));
  kernels::Network& network = Workspace(plan, 1);
  StreamBatches::Rules rules = RulesOf(plan);
  // It follows from the model alone, so that sums are always added alike.
  rules.batch = network.evaluation_rows();
  rules.epochs = 1;
  rules.steps = 0;
  rules.merges_tail = false;
  batches_.Begin(rules, task, source);
  kernels::Evaluation sums;
  while (true) {
    SKEP_ASSIGN(const StreamBatches::View piece, batches_.Next());
    if (piece.rows == 0) break;
    SKEP_TRY(PassIf(gate));
    const kernels::Evaluation part = network.Evaluate(params, {piece.x, piece.y, piece.rows});
    sums.loss_sum += part.loss_sum;
    sums.counted += part.counted;
    sums.correct += part.correct;
  }
  return EvaluationReport{.examples = static_cast<std::uint32_t>(batches_.first_epoch_rows()),
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
