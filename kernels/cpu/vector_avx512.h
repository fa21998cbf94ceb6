// Sixteen floats as one value, for training_avx512.cc alone.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace skep::kernels {
namespace {

struct Vector {
  using Reg = __m512;
  using Quad = __m128;
  using Mask = __mmask16;
  static constexpr std::size_t kLanes = 16;
  // Tiles: rows x outputs of dot products, rows x vectors of outer products. Thirty-two registers.
  static constexpr std::size_t kDotRows = 6;
  static constexpr std::size_t kOuterRows = 5;
  static constexpr std::size_t kOuterVectors = 5;

  static Mask FirstLanes(std::size_t count) { return static_cast<Mask>((1U << count) - 1U); }
  static Reg Zero() { return _mm512_setzero_ps(); }
  static Reg Set(float value) { return _mm512_set1_ps(value); }
  static Reg Load(const float* p) { return _mm512_loadu_ps(p); }
  static Reg Load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  static Reg LoadOr(const float* p, Mask m, float other) {
    return _mm512_mask_loadu_ps(Set(other), m, p);
  }
  static void Store(float* p, Reg v) { _mm512_storeu_ps(p, v); }
  static void Store(float* p, Reg v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg Sqrt(Reg a) { return _mm512_sqrt_ps(a); }
  // max(a, b); b where one of them is NaN.
  static Reg Max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  // v where gate > 0, else 0.
  static Reg WherePositive(Reg gate, Reg v) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate, Zero(), _CMP_GT_OQ), v);
  }
  // yes where gate > 0, else no (also where gate is NaN).
  static Reg WherePositive(Reg gate, Reg yes, Reg no) {
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(gate, Zero(), _CMP_GT_OQ), yes);
  }
  // max(a, b); NaN where one of them is.
  static Reg MaxOrNan(Reg a, Reg b) {
    return _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
  }
  // v where a value is the largest, or NaN, and 0 where it is not; and the other way round.
  static Reg WhereLargest(Reg value, Reg largest, Reg v) {
    return _mm512_maskz_mov_ps(IsLargest(value, largest), v);
  }
  static Reg WhereSmaller(Reg value, Reg largest, Reg v) {
    return _mm512_maskz_mov_ps(static_cast<Mask>(~IsLargest(value, largest)), v);
  }
  // v, and 0 in the lanes that are not in `m`.
  static Reg Keep(Reg v, Mask m) { return _mm512_maskz_mov_ps(m, v); }
  // The largest lane; any lane where one is NaN.
  static float Largest(Reg v) { return _mm512_reduce_max_ps(v); }
  // v times 2^n, where n stands in the low bits of `shifted`.
  static Reg TimesPowerOfTwo(Reg v, Reg shifted) {
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_mul_ps(
        v, _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3F800000))));
  }
  // The sums of the lanes of four values.
  static Quad Sums(Reg a, Reg b, Reg c, Reg d) {
    const Reg ab = Add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const Reg cd = Add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const Reg all = Add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  }
  static Quad QuadLoad(const float* p) { return _mm_loadu_ps(p); }
  static void QuadStore(float* p, Quad v) { _mm_storeu_ps(p, v); }
  // Rows of a 4 x 4 matrix become its columns.
  static void QuadTranspose(Quad (&row)[4]) { _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]); }
  static Quad QuadAdd(Quad a, Quad b) { return _mm_add_ps(a, b); }
  // max(0, v); NaN stays NaN.
  static Quad QuadRelu(Quad v) { return _mm_max_ps(_mm_setzero_ps(), v); }

 private:
  static Mask IsLargest(Reg value, Reg largest) {
    return static_cast<Mask>(_mm512_cmp_ps_mask(value, largest, _CMP_EQ_OQ) |
                             _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q));
  }
};

}  // namespace
}  // namespace skep::kernels
