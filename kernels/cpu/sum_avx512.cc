// The integer loops for AVX-512 (F, DQ, VL). Equal to sum_portable.cc bit for bit.
#include <immintrin.h>

#include "kernels/cpu/squares_x86.h"
#include "kernels/sum_loops.h"

namespace skep::kernels {
namespace {

constexpr double kRounder = 0x1.8p52;

__mmask8 FirstLanes(std::size_t count) {
  return static_cast<__mmask8>((1U << count) - 1U);
}

void Accumulate(std::int64_t* sum, const float* update, std::size_t count, double scaled_weight) {
  const __m512d weight = _mm512_set1_pd(scaled_weight);
  const __m512d rounder = _mm512_set1_pd(kRounder);
  const auto contribution = [&](__m256 values) {
    const __m512d rounded = _mm512_fmadd_pd(weight, _mm512_cvtps_pd(values), rounder);
    return _mm512_sub_epi64(_mm512_castpd_si512(rounded), _mm512_castpd_si512(rounder));
  };
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512i q = contribution(_mm256_loadu_ps(update + i));
    _mm512_storeu_si512(sum + i, _mm512_add_epi64(_mm512_loadu_si512(sum + i), q));
  }
  if (i < count) {
    const __mmask8 rest = FirstLanes(count - i);
    const __m512i q = contribution(_mm256_maskz_loadu_ps(rest, update + i));
    const __m512i before = _mm512_maskz_loadu_epi64(rest, sum + i);
    _mm512_mask_storeu_epi64(sum + i, rest, _mm512_add_epi64(before, q));
  }
}

void Merge(std::int64_t* sum, const std::int64_t* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += other[i];
}

void Step(const std::int64_t* sum, const float* old, float* model, std::size_t count,
          double unscale, double total, double rate) {
  const __m512d divisor = _mm512_set1_pd(total);
  for (std::size_t i = 0; i < count; i += 8) {
    const __mmask8 lanes = FirstLanes(count - i < 8 ? count - i : 8);
    const __m512d sums = _mm512_cvtepi64_pd(_mm512_maskz_loadu_epi64(lanes, sum + i));
    const __m512d mean = _mm512_div_pd(_mm512_mul_pd(sums, _mm512_set1_pd(unscale)), divisor);
    const __m512d before = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, old + i));
    const __m512d after = _mm512_add_pd(before, _mm512_mul_pd(_mm512_set1_pd(rate), mean));
    _mm256_mask_storeu_ps(model + i, lanes, _mm512_cvtpd_ps(after));
  }
}

void BlockSquares(const float* values, std::size_t blocks, double* block_sums) {
  // Two groups of eight blocks: the additions of one run while those of the other wait for their
  // sums.
  for (std::size_t first = 0; first < blocks; first += 16) {
    const float* block[2][8];
    BlocksFrom(values, first, blocks, block[0]);
    BlocksFrom(values, first + 8, blocks, block[1]);
    __m512d sum[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    for (std::size_t at = 0; at < kNormBlock; at += 8) {
      const EightRows a = LoadTransposed(block[0], at);
      const EightRows b = LoadTransposed(block[1], at);
      for (int i = 0; i < 8; ++i) {
        const __m512d left = _mm512_cvtps_pd(a.row[i]);
        const __m512d right = _mm512_cvtps_pd(b.row[i]);
        sum[0] = _mm512_fmadd_pd(left, left, sum[0]);
        sum[1] = _mm512_fmadd_pd(right, right, sum[1]);
      }
    }
    for (std::size_t group = 0; group < 2; ++group) {
      double sums[8];
      _mm512_storeu_pd(sums, sum[group]);
      StoreSums(sums, first + 8 * group, blocks, block_sums);
    }
  }
}

}  // namespace

const SumLoops kSumLoopsAvx512{
    .accumulate = Accumulate, .merge = Merge, .step = Step, .block_squares = BlockSquares};

}  // namespace skep::kernels
