// Grids for kernels that loop: enough blocks to fill a device, no more.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device_api.h"

namespace skep::kernels {

// One thread a value of `count`, up to so many blocks; `y` blocks beside each other (lanes).
[[nodiscard]] inline Grid GridFor(std::uint64_t count, std::uint32_t y = 1) {
  constexpr std::uint64_t kMostBlocks = 4096;
  const std::uint64_t blocks = (count + kMostBlockThreads - 1) / kMostBlockThreads;
  return {.x = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, kMostBlocks)),
          .y = y,
          .block_threads = kMostBlockThreads,
          .shared_bytes = 0};
}

// One block for each of `count` pieces of work of `values` values, which its threads share, with
// `bytes_per_thread` of shared memory each: a power of two of threads, no more than there are
// values.
[[nodiscard]] inline Grid GridOfBlocks(std::uint32_t count, std::uint64_t values,
                                       std::uint32_t bytes_per_thread, std::uint32_t y = 1) {
  std::uint32_t threads = 32;
  while (threads < kMostBlockThreads && threads < values) threads *= 2;
  return {.x = count, .y = y, .block_threads = threads, .shared_bytes = threads * bytes_per_thread};
}

}  // namespace skep::kernels
