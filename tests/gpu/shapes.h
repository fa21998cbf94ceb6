// Factors: n values as rows of an odd width, so that a kernel's loop has exactly n turns.
#pragma once

#include <cstdint>

namespace skep::gpu {

struct Factors {
  std::uint64_t rows;
  std::uint32_t width;

  explicit Factors(std::uint64_t n) : rows(n), width(1) {
    for (const std::uint32_t divisor : {7U, 5U, 3U, 2U}) {
      if (n % divisor != 0) continue;
      width = divisor;
      rows = n / divisor;
      return;
    }
  }
};

}  // namespace skep::gpu
