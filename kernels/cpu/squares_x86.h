// Sums of squares of eight blocks at once, for the files of the x86 sets.
//
// Everything is in an unnamed namespace: each file that includes this header has its own copy,
// compiled for its own set. A lane of a register follows one block, so each block is still added in
// index order.
#pragma once

#include <immintrin.h>

#include "kernels/sum_loops.h"

namespace skep::kernels {
namespace {

struct EightRows {
  __m256 row[8];
};

// Eight consecutive values of each of eight blocks, transposed: row i holds value i of every block.
[[gnu::always_inline]] inline EightRows LoadTransposed(const float* const block[8],
                                                       std::size_t at) {
  __m256 a[8];
  for (int i = 0; i < 8; ++i) a[i] = _mm256_loadu_ps(block[i] + at);
  __m256 b[8];
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
  __m256 c[8];
  for (int i = 0; i < 8; i += 4) {
    c[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    c[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xEE);
    c[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    c[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xEE);
  }
  EightRows out;
  for (int i = 0; i < 4; ++i) {
    out.row[i] = _mm256_permute2f128_ps(c[i], c[i + 4], 0x20);
    out.row[i + 4] = _mm256_permute2f128_ps(c[i], c[i + 4], 0x31);
  }
  return out;
}

// The eight blocks from `first` on; past the last one the last is repeated, and its sum thrown
// away.
inline void BlocksFrom(const float* values, std::size_t first, std::size_t blocks,
                       const float* block[8]) {
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t index = first + i < blocks ? first + i : blocks - 1;
    block[i] = values + index * kNormBlock;
  }
}

inline void StoreSums(const double sums[8], std::size_t first, std::size_t blocks,
                      double* block_sums) {
  for (std::size_t i = 0; i < 8 && first + i < blocks; ++i) block_sums[first + i] = sums[i];
}

}  // namespace
}  // namespace skep::kernels
