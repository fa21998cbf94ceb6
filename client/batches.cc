#include "client/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::client {
namespace {

Error Unsuitable(std::string message) {
  return Error{7406, std::move(message), ""};
}

std::uint32_t BatchesOfEpoch(std::size_t count, std::size_t batch, bool merges_tail) {
  const bool has_merged_tail = merges_tail && count > batch && (count - 1) % batch == 0;
  const std::size_t full = has_merged_tail ? count - 1 : count + batch - 1;
  return static_cast<std::uint32_t>(full / batch);
}

}  // namespace

kernels::OptimiserStep StepOf(const TrainingPlan& plan) {
  return {.learning_rate = static_cast<float>(plan.learning_rate),
          .rule = plan.rule,
          .momentum = static_cast<float>(plan.momentum),
          .nesterov = plan.nesterov,
          .weight_decay = static_cast<float>(plan.weight_decay),
          .gradient_clip = plan.gradient_clip};
}

std::size_t LargestBatch(const TrainingPlan& plan, std::size_t count) {
  const std::size_t batch =
      plan.batch_size == 0 ? count : std::min<std::size_t>(plan.batch_size, count);
  return std::min(batch + (plan.merge_tail ? 1 : 0), count);
}

Status CheckParameters(const TrainingPlan& plan, std::size_t parameters) {
  if (parameters == plan.model.layout()->values()) return Ok();
  return Unsuitable("the model has another number of values than its plan says");
}

Status CheckData(const TrainingPlan& plan, const LocalData& data, std::size_t parameters,
                 bool has_rows) {
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
  return CheckParameters(plan, parameters);
}

Status CheckTask(const TrainingPlan& plan, const LocalData& data, std::size_t parameters) {
  SKEP_TRY(CheckData(plan, data, parameters, !data.train.empty()));
  const std::size_t count = data.train.size();
  if (plan.model.has_batch_norm() && HasSingleRowBatch(plan, count)) {
    return Unsuitable(std::to_string(count) +
                      " examples leave a batch of one row, which batch norm cannot train on");
  }
  return Ok();
}

Status CheckExamples(const TrainingPlan& plan, std::span<const std::uint32_t> rows, const float* x,
                     const std::int32_t* y) {
  const std::size_t labels = plan.model.positions();
  const std::int32_t classes = plan.Classes();
  const bool is_sequence = labels > 1 || plan.model.input_symbols() > 0;
  for (std::size_t i = 0; i < rows.size() * labels; ++i) {
    const bool is_known = y[i] >= 0 && y[i] < classes;
    // A sequence may have places that do not count, be it of one place; other examples have a
    // label.
    if (is_known || (is_sequence && y[i] == kernels::kNoLabel)) continue;
    return Unsuitable("the class of row " + std::to_string(rows[i / labels]) +
                      " is not in the plan");
  }
  const auto symbols = static_cast<float>(plan.model.input_symbols());
  if (symbols == 0) return Ok();
  const std::size_t values = plan.model.input_values();
  for (std::size_t i = 0; i < rows.size() * values; ++i) {
    if (x[i] >= 0 && x[i] < symbols && x[i] == std::floor(x[i])) continue;
    return Unsuitable("row " + std::to_string(rows[i / values]) +
                      " holds what is no symbol of the model: whole numbers below " +
                      std::to_string(plan.model.input_symbols()));
  }
  return Ok();
}

void Batches::Start(const TrainingPlan& plan, const TaskIdentity& task) {
  task_ = task;
  merges_tail_ = plan.merge_tail;
  order_.clear();
  position_ = 0;
  epoch_ = 0;
  steps_ = 0;
  first_epoch_rows_ = 0;
}

void Batches::Begin(const TrainingPlan& plan, const TaskIdentity& task,
                    std::span<const std::uint32_t> rows) {
  Start(plan, task);
  rows_ = rows;
  ends_ = {};
  batch_ = plan.batch_size == 0 ? rows.size() : plan.batch_size;
  const std::uint32_t an_epoch = BatchesOfEpoch(rows.size(), batch_, merges_tail_);
  all_steps_ = plan.local_steps > 0 ? plan.local_steps : plan.local_epochs * an_epoch;
  last_epoch_step_ = all_steps_ == 0 ? 0 : (all_steps_ - 1) / an_epoch * an_epoch;
}

void Batches::BeginListed(const TrainingPlan& plan, const TaskIdentity& task,
                          std::span<const std::uint32_t> ends) {
  Start(plan, task);
  ends_ = ends;
  batch_ = plan.batch_size == 0 ? ends.front() : plan.batch_size;
  all_steps_ = 0;
  last_epoch_step_ = 0;
  std::uint32_t first = 0;
  for (const std::uint32_t end : ends) {
    last_epoch_step_ = all_steps_;
    all_steps_ += BatchesOfEpoch(end - first, batch_, merges_tail_);
    first = end;
  }
  if (plan.local_steps > 0) all_steps_ = std::min(all_steps_, plan.local_steps);
}

void Batches::BeginEpoch() {
  position_ = 0;
  if (ends_.empty()) {
    // Every epoch shuffles the list in its own order, so that an epoch can be repeated alone.
    order_.assign(rows_.begin(), rows_.end());
    ShuffleEpoch(EpochSeed(task_.round_seed, task_.client, task_.round, epoch_), order_);
  } else {
    const std::uint32_t first = epoch_ == 0 ? 0 : ends_[epoch_ - 1];
    order_.resize(ends_[epoch_] - first);
    std::iota(order_.begin(), order_.end(), first);
  }
  ++epoch_;
}

std::span<const std::uint32_t> Batches::Next() {
  if (steps_ == all_steps_) return {};
  starts_epoch_ = position_ == order_.size();
  if (starts_epoch_) BeginEpoch();
  const std::size_t left = order_.size() - position_;
  std::size_t count = std::min(batch_, left);
  if (merges_tail_ && left == count + 1) ++count;
  const auto chosen = std::span<const std::uint32_t>(order_).subspan(position_, count);
  position_ += count;
  ++steps_;
  if (epoch_ == 1) first_epoch_rows_ = position_;
  return chosen;
}

std::uint64_t Batches::StepKey() const {
  return skep::StepKey(task_.round_seed, task_.client, task_.round, steps_ - 1);
}

}  // namespace skep::client
