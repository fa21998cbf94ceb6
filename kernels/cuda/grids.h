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

// One block for each of `count` pieces of work that its threads share, `bytes_per_thread` of shared
// memory each; a power of two of threads.
[[nodiscard]] inline Grid GridOfBlocks(std::uint64_t count, std::uint32_t bytes_per_thread,
                                       std::uint32_t y = 1) {
  constexpr std::uint64_t kMostBlocks = 1U << 30U;
  return {.x = static_cast<std::uint32_t>(std::min(count, kMostBlocks)),
          .y = y,
          .block_threads = kMostBlockThreads,
          .shared_bytes = kMostBlockThreads * bytes_per_thread};
}

}  // namespace skep::kernels
