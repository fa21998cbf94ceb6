// RowSource: rows of a data set in memory as an ExampleSource.
//
// Made by the built-in trainer for its LocalData. One thread. Source: docs/randomness.md
// (shuffles).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/example_source.h"
#include "client/trainer.h"

namespace skep::client {

class RowSource final : public ExampleSource {
 public:
  enum class Order { kShuffled, kAsListed };  // anew in every epoch; or never
  // From now on these rows. All three live as long as they are read.
  void Open(const TrainingPlan& plan, const data::Dataset& dataset,
            std::span<const std::uint32_t> rows, Order order);

  std::size_t most_rows() const override { return rows_.size(); }
  Status Rewind(std::uint64_t seed) override;
  // SKEP-7406 for a row that does not suit the plan.
  Result<std::size_t> Next(std::size_t most, float* x, std::int32_t* y) override;

 private:
  const TrainingPlan* plan_ = nullptr;
  const data::Dataset* dataset_ = nullptr;
  std::span<const std::uint32_t> rows_;
  Order rule_ = Order::kShuffled;
  std::vector<std::uint32_t> order_;
  std::size_t position_ = 0;
};

}  // namespace skep::client
