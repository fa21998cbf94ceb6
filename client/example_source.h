// ExampleSource: a device's examples as their owner hands them over: an epoch at a time, some rows
// at a time.
//
// What an app's data source and a data set in memory have in common, so that one trainer serves
// both and gives the same bits. Called by a trainer, on its thread. Source: Skep client library,
// section 6; docs/randomness.md (shuffles).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/base/result.h"

namespace skep::client {

class ExampleSource {
 public:
  virtual ~ExampleSource() = default;

  // No epoch has more examples: what a trainer makes room for.
  [[nodiscard]] virtual std::size_t most_rows() const = 0;
  // Starts an epoch. The same seed over unchanged data gives the same order.
  [[nodiscard]] virtual Status Rewind(std::uint64_t seed) = 0;
  // Copies the next examples, at least one and at most `most`, to `x` (rows x values) and `y` (rows
  // x labels); their number, 0 once the epoch is over. What it gives suits the plan: classes and
  // symbols are known, labels that do not count are kNoLabel.
  [[nodiscard]] virtual Result<std::size_t> Next(std::size_t most, float* x, std::int32_t* y) = 0;
};

}  // namespace skep::client
