// Batches: which of a client's examples are trained on together, in which order, and what must hold
// of them.
//
// One definition for every trainer, so that a device sees the same batches as the CPU. Called by
// trainers; one thread. Source: docs/randomness.md (shuffles, step keys); McMahan et al. 2017,
// ClientUpdate of algorithm 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/trainer.h"

namespace skep::client {

[[nodiscard]] kernels::OptimiserStep StepOf(const TrainingPlan& plan);

// The largest batch of a client of `count` examples.
[[nodiscard]] std::size_t LargestBatch(const TrainingPlan& plan, std::size_t count);

// SKEP-7406: parameters of another number than the model's.
[[nodiscard]] Status CheckParameters(const TrainingPlan& plan, std::size_t parameters);
// SKEP-7402 without a data set or `has_rows`. SKEP-7406: examples or parameters of another shape
// than the model's.
[[nodiscard]] Status CheckData(const TrainingPlan& plan, const LocalData& data,
                               std::size_t parameters, bool has_rows);
// As CheckData of the training rows; SKEP-7406 also for a batch that batch norm cannot train on.
[[nodiscard]] Status CheckTask(const TrainingPlan& plan, const LocalData& data,
                               std::size_t parameters);
// The inputs and labels of these rows: SKEP-7406 if a class or a symbol is not in the plan. The
// inputs are looked at only where the model takes symbols.
[[nodiscard]] Status CheckExamples(const TrainingPlan& plan, std::span<const std::uint32_t> rows,
                                   const float* x, const std::int32_t* y);

class Batches {
 public:
  // Starts over. `rows` must live until the last batch; at least one.
  void Begin(const TrainingPlan& plan, const TaskIdentity& task,
             std::span<const std::uint32_t> rows);
  // Starts over with epochs that were put in order before: epoch e is the rows from ends[e - 1] (0)
  // up to ends[e]. `ends` must live until the last batch; no epoch is empty.
  void BeginListed(const TrainingPlan& plan, const TaskIdentity& task,
                   std::span<const std::uint32_t> ends);
  // The rows of the next batch, valid until the one after it; empty behind the last.
  [[nodiscard]] std::span<const std::uint32_t> Next();

  // Of the batch that Next gave last.
  [[nodiscard]] std::uint64_t StepKey() const;
  [[nodiscard]] bool starts_epoch() const { return starts_epoch_; }

  // Batches given so far.
  [[nodiscard]] std::uint32_t steps() const { return steps_; }
  // Rows of the first epoch, so far: distinct ones.
  [[nodiscard]] std::size_t first_epoch_rows() const { return first_epoch_rows_; }
  // Batches of the whole task, and those before its last epoch.
  [[nodiscard]] std::uint32_t all_steps() const { return all_steps_; }
  [[nodiscard]] std::uint32_t steps_before_last_epoch() const { return last_epoch_step_; }

 private:
  void Start(const TrainingPlan& plan, const TaskIdentity& task);
  void BeginEpoch();

  TaskIdentity task_;
  std::span<const std::uint32_t> rows_;
  std::span<const std::uint32_t> ends_;  // not empty: listed
  std::size_t batch_ = 0;
  bool merges_tail_ = false;
  std::uint32_t all_steps_ = 0;
  std::uint32_t last_epoch_step_ = 0;
  std::vector<std::uint32_t> order_;
  std::size_t position_ = 0;
  std::uint32_t epoch_ = 0;  // begun so far
  std::uint32_t steps_ = 0;
  std::size_t first_epoch_rows_ = 0;
  bool starts_epoch_ = false;
};

}  // namespace skep::client
