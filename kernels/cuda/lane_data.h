// LaneData: examples in a device's memory, put there once and read by all lanes of all tasks.
//
// One thread. Errors: SKEP-7202, 7203; 1401 beyond the arena's budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/arena.h"
#include "kernels/cuda/queue.h"

namespace skep::kernels {

// Examples on the host; one of `bytes` and `floats` is empty. An input from a byte is
// float((byte - offset) / scale).
struct HostExamples {
  std::span<const std::uint8_t> bytes;
  std::span<const float> floats;
  double offset = 0;
  double scale = 1;
  std::span<const std::int32_t> labels;
  std::size_t values = 0;     // inputs of an example
  std::size_t positions = 1;  // labels of an example
};

struct LaneData {
  // Waits until everything is there. The arena must outlive the data.
  [[nodiscard]] static Result<LaneData> Make(const HostExamples& examples, Arena& arena,
                                             Queue& queue);

  DevicePtr<std::uint8_t> bytes;  // null if the inputs are floats
  DevicePtr<float> floats;        // and the other way round
  double offset = 0;
  double scale = 1;
  DevicePtr<std::int32_t> labels;
  std::uint32_t values = 0;
  std::uint32_t positions = 1;
};

}  // namespace skep::kernels
