#include "tests/gpu/operations.h"

namespace skep::gpu {

std::vector<Operation> AllOperations() {
  std::vector<Operation> all;
  for (const std::span<const Operation> some :
       {PointOperations(), TrainingOperations(), ImageOperations(), NormOperations(),
        SequenceOperations(), ProductOperations()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<std::uint64_t> SizesFor(std::uint32_t blocks, std::uint32_t threads) {
  const std::uint64_t block = threads;
  return {0, 1, block - 1, block, block + 1, 3 * block * blocks + 7};
}

OperationResult Try(const Operation& operation, kernels::DeviceApi& device, std::uint32_t blocks,
                    std::uint32_t threads, const std::vector<std::uint64_t>& sizes) {
  OperationResult result;
  result.kernel = operation.kernel;
  for (const std::uint64_t n : sizes) {
    Bench bench(device, blocks, threads);
    operation.run(bench, n);
    result.compared += bench.compared();
    if (result.status) result.status = bench.status();
    if (bench.worst() > result.worst) {
      result.worst = bench.worst();
      result.where = bench.where() + ", size " + std::to_string(n);
    }
  }
  return result;
}

}  // namespace skep::gpu
