#include "client/row_source.h"

#include <algorithm>

#include "client/batches.h"
#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::client {

void RowSource::Open(const TrainingPlan& plan, const data::Dataset& dataset,
                     std::span<const std::uint32_t> rows, Order order) {
  plan_ = &plan;
  dataset_ = &dataset;
  rows_ = rows;
  rule_ = order;
  order_.clear();
  position_ = 0;
}

Status RowSource::Rewind(std::uint64_t seed) {
  // Every epoch shuffles the list in its own order, so that an epoch can be repeated alone.
  order_.assign(rows_.begin(), rows_.end());
  if (rule_ == Order::kShuffled) ShuffleEpoch(seed, order_);
  position_ = 0;
  return Ok();
}

Result<std::size_t> RowSource::Next(std::size_t most, float* x, std::int32_t* y) {
  const std::size_t count = std::min(most, order_.size() - position_);
  const auto chosen = std::span<const std::uint32_t>(order_).subspan(position_, count);
  dataset_->Gather(chosen, x, y);
  SKEP_TRY(CheckExamples(*plan_, chosen, x, y));
  position_ += count;
  return count;
}

}  // namespace skep::client
