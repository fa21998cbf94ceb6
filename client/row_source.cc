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
  position_ = 0;
  if (rule_ == Order::kAsListed) return Ok();
  // Every epoch shuffles the list in its own order, so that an epoch can be repeated alone.
  order_.assign(rows_.begin(), rows_.end());
  ShuffleEpoch(seed, order_);
  return Ok();
}

Result<std::size_t> RowSource::Next(std::size_t most, float* x, std::int32_t* y) {
  const std::span<const std::uint32_t> list = rule_ == Order::kShuffled ? order_ : rows_;
  const std::size_t count = std::min(most, list.size() - position_);
  const auto chosen = list.subspan(position_, count);
  dataset_->Gather(chosen, x, y);
  SKEP_TRY(CheckExamples(*plan_, chosen, x, y));
  position_ += count;
  return count;
}

}  // namespace skep::client
