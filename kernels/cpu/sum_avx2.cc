// The integer loops for AVX2 with FMA. Equal to sum_portable.cc bit for bit.
#include <immintrin.h>

#include "kernels/cpu/squares_x86.h"
#include "kernels/sum_loops.h"

namespace skep::kernels {
namespace {

constexpr double kRounder = 0x1.8p52;

std::int64_t RoundOne(double scaled_weight, float value) {
  const __m128d fused = _mm_fmadd_sd(_mm_set_sd(scaled_weight),
                                     _mm_set_sd(static_cast<double>(value)), _mm_set_sd(kRounder));
  return _mm_cvtsi128_si64(_mm_castpd_si128(fused)) -
         _mm_cvtsi128_si64(_mm_castpd_si128(_mm_set_sd(kRounder)));
}

void Accumulate(std::int64_t* sum, const float* update, std::size_t count, double scaled_weight) {
  const __m256d weight = _mm256_set1_pd(scaled_weight);
  const __m256d rounder = _mm256_set1_pd(kRounder);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t half = i; half < i + 8; half += 4) {
      const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(update + half));
      const __m256i rounded = _mm256_castpd_si256(_mm256_fmadd_pd(weight, value, rounder));
      auto* at = reinterpret_cast<__m256i_u*>(sum + half);
      const __m256i q = _mm256_sub_epi64(rounded, _mm256_castpd_si256(rounder));
      _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), q));
    }
  }
  for (; i < count; ++i) sum[i] += RoundOne(scaled_weight, update[i]);
}

void Merge(std::int64_t* sum, const std::int64_t* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += other[i];
}

void Step(const std::int64_t* sum, const float* old, float* model, std::size_t count,
          double unscale, double total, double rate) {
  for (std::size_t i = 0; i < count; ++i) {
    const double mean = (static_cast<double>(sum[i]) * unscale) / total;
    model[i] = static_cast<float>(static_cast<double>(old[i]) + rate * mean);
  }
}

void BlockSquares(const float* values, std::size_t blocks, double* block_sums) {
  for (std::size_t first = 0; first < blocks; first += 8) {
    const float* block[8];
    BlocksFrom(values, first, blocks, block);
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    for (std::size_t at = 0; at < kNormBlock; at += 8) {
      const EightRows rows = LoadTransposed(block, at);
      for (const __m256& row : rows.row) {
        const __m256d l = _mm256_cvtps_pd(_mm256_castps256_ps128(row));
        const __m256d h = _mm256_cvtps_pd(_mm256_extractf128_ps(row, 1));
        low = _mm256_fmadd_pd(l, l, low);
        high = _mm256_fmadd_pd(h, h, high);
      }
    }
    double sums[8];
    _mm256_storeu_pd(sums, low);
    _mm256_storeu_pd(sums + 4, high);
    StoreSums(sums, first, blocks, block_sums);
  }
}

}  // namespace

const SumLoops kSumLoopsAvx2{
    .accumulate = Accumulate, .merge = Merge, .step = Step, .block_squares = BlockSquares};

}  // namespace skep::kernels
