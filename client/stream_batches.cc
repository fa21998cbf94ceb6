#include "client/stream_batches.h"

#include <algorithm>

#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::client {

void StreamBatches::Begin(const Rules& rules, const TaskIdentity& task, ExampleSource& source) {
  rules_ = rules;
  task_ = task;
  source_ = &source;
  held_ = given_ = 0;
  is_at_end_ = true;
  epoch_ = steps_ = 0;
  first_epoch_rows_ = 0;
}

Status StreamBatches::BeginEpoch() {
  SKEP_TRY(source_->Rewind(EpochSeed(task_.round_seed, task_.client, task_.round, epoch_)));
  is_at_end_ = false;
  ++epoch_;
  if (rules_.batch == 0) return ReadAll();
  return Ok();
}

// Until `rows` are held or the epoch has no more. The source may give fewer at a time than asked.
Status StreamBatches::ReadUpTo(std::size_t rows) {
  rows = std::min(rows, source_->most_rows());  // no room for what never comes
  if (x_.size() < rows * rules_.values) x_.resize(rows * rules_.values);
  if (y_.size() < rows * rules_.labels) y_.resize(rows * rules_.labels);
  while (held_ < rows && !is_at_end_) {
    SKEP_ASSIGN(const std::size_t count,
                source_->Next(rows - held_, x_.data() + held_ * rules_.values,
                              y_.data() + held_ * rules_.labels));
    held_ += count;
    is_at_end_ = count == 0;
  }
  return Ok();
}

// The first epoch is one batch, and says how large a batch is.
Status StreamBatches::ReadAll() {
  SKEP_TRY(ReadUpTo(source_->most_rows()));
  is_at_end_ = true;
  rules_.batch = held_;
  return Ok();
}

// What was given goes; what was read ahead moves to the front.
void StreamBatches::Shift() {
  const auto at = [](std::size_t rows, std::size_t width) {
    return static_cast<std::ptrdiff_t>(rows * width);
  };
  std::copy(x_.begin() + at(given_, rules_.values), x_.begin() + at(held_, rules_.values),
            x_.begin());
  std::copy(y_.begin() + at(given_, rules_.labels), y_.begin() + at(held_, rules_.labels),
            y_.begin());
  held_ -= given_;
  given_ = 0;
}

Result<StreamBatches::View> StreamBatches::Next() {
  if (rules_.steps > 0 && steps_ == rules_.steps) return View{};
  // Two more tell whether exactly one row is left. Whether an epoch is over shows only when more is
  // asked for.
  const std::size_t ahead = rules_.merges_tail ? 2 : 0;
  Shift();
  SKEP_TRY(ReadUpTo(rules_.batch + ahead));
  starts_epoch_ = held_ == 0;
  if (starts_epoch_) {
    if (rules_.steps == 0 && epoch_ == rules_.epochs) return View{};
    SKEP_TRY(BeginEpoch());
    SKEP_TRY(ReadUpTo(rules_.batch + ahead));
    if (held_ == 0) return Error{7402, "no examples for this task", ""};
  }
  given_ = std::min(rules_.batch, held_);
  if (rules_.merges_tail && held_ == given_ + 1) ++given_;
  ++steps_;
  if (epoch_ == 1) first_epoch_rows_ += given_;
  return View{x_.data(), y_.data(), given_};
}

std::uint64_t StreamBatches::StepKey() const {
  return skep::StepKey(task_.round_seed, task_.client, task_.round, steps_ - 1);
}

}  // namespace skep::client
