// Operations: every kernel of kernels/body and every form of product, each against a plain
// reference in double precision.
//
// The same list runs over the emulator in the ordinary tests and over a device in gpu_check.
// Tolerances: bound.h; sums in double 1e-13; integers are equal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device_api.h"
#include "tests/gpu/bench.h"

namespace skep::gpu {

struct Operation {
  const char* kernel;  // its kName, or a form of product
  bool is_blockwise;   // a block works on one piece: n is the size of the piece
  // n: turns of the loop that the kernel's threads share, for each lane.
  void (*run)(Bench& bench, std::uint64_t n);
};

[[nodiscard]] std::span<const Operation> PointOperations();
[[nodiscard]] std::span<const Operation> TrainingOperations();
[[nodiscard]] std::span<const Operation> ImageOperations();
[[nodiscard]] std::span<const Operation> NormOperations();
[[nodiscard]] std::span<const Operation> SequenceOperations();
[[nodiscard]] std::span<const Operation> ProductOperations();
[[nodiscard]] std::vector<Operation> AllOperations();

// 0, 1, block - 1, block, block + 1, 3 grids + 7.
[[nodiscard]] std::vector<std::uint64_t> SizesFor(std::uint32_t blocks, std::uint32_t threads);

struct OperationResult {
  std::string kernel;
  std::uint64_t compared = 0;
  double worst = 0;   // error over tolerance
  std::string where;  // of the worst
  Status status = Ok();
  [[nodiscard]] bool IsSound() const { return status.has_value() && worst <= 1; }
};

// The operation at each of these sizes.
[[nodiscard]] OperationResult Try(const Operation& operation, kernels::DeviceApi& device,
                                  std::uint32_t blocks, std::uint32_t threads,
                                  const std::vector<std::uint64_t>& sizes);

}  // namespace skep::gpu
