// Eight floats as one value, for training_avx2.cc alone.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace skep::kernels {
namespace {

struct Vector {
  using Reg = __m256;
  using Quad = __m128;
  using Mask = __m256i;
  static constexpr std::size_t kLanes = 8;
  // Tiles: rows x outputs of dot products, rows x vectors of outer products. Sixteen registers.
  static constexpr std::size_t kDotRows = 3;
  static constexpr std::size_t kOuterRows = 4;
  static constexpr std::size_t kOuterVectors = 3;

  static Mask FirstLanes(std::size_t count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(count)), lane);
  }
  static Reg Zero() { return _mm256_setzero_ps(); }
  static Reg Set(float value) { return _mm256_set1_ps(value); }
  static Reg Load(const float* p) { return _mm256_loadu_ps(p); }
  static Reg Load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  static Reg LoadOr(const float* p, Mask m, float other) {
    return _mm256_blendv_ps(Set(other), Load(p, m), _mm256_castsi256_ps(m));
  }
  static void Store(float* p, Reg v) { _mm256_storeu_ps(p, v); }
  static void Store(float* p, Reg v, Mask m) {
    // A masked store costs tens of cycles on some processors; most masks are full.
    if (_mm256_movemask_ps(_mm256_castsi256_ps(m)) == 0xFF) {
      Store(p, v);
    } else {
      _mm256_maskstore_ps(p, m, v);
    }
  }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg Sqrt(Reg a) { return _mm256_sqrt_ps(a); }
  // max(a, b); b where one of them is NaN.
  static Reg Max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  // v where gate > 0, else 0.
  static Reg WherePositive(Reg gate, Reg v) {
    return _mm256_and_ps(_mm256_cmp_ps(gate, Zero(), _CMP_GT_OQ), v);
  }
  // yes where gate > 0, else no (also where gate is NaN).
  static Reg WherePositive(Reg gate, Reg yes, Reg no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(gate, Zero(), _CMP_GT_OQ));
  }
  // max(a, b); NaN where one of them is.
  static Reg MaxOrNan(Reg a, Reg b) {
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  }
  // v where a value is the largest, or NaN, and 0 where it is not; and the other way round.
  static Reg WhereLargest(Reg value, Reg largest, Reg v) {
    return _mm256_and_ps(IsLargest(value, largest), v);
  }
  static Reg WhereSmaller(Reg value, Reg largest, Reg v) {
    return _mm256_andnot_ps(IsLargest(value, largest), v);
  }
  // v, and 0 in the lanes that are not in `m`.
  static Reg Keep(Reg v, Mask m) { return _mm256_and_ps(_mm256_castsi256_ps(m), v); }
  // The largest lane; any lane where one is NaN.
  static float Largest(Reg v) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }
  // v times 2^n, where n stands in the low bits of `shifted`.
  static Reg TimesPowerOfTwo(Reg v, Reg shifted) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_mul_ps(
        v, _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3F800000))));
  }
  // The sums of the lanes of four values.
  static Quad Sums(Reg a, Reg b, Reg c, Reg d) {
    const Reg all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  }
  static Quad QuadLoad(const float* p) { return _mm_loadu_ps(p); }
  static void QuadStore(float* p, Quad v) { _mm_storeu_ps(p, v); }
  // Rows of a 4 x 4 matrix become its columns.
  static void QuadTranspose(Quad (&row)[4]) { _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]); }
  static Quad QuadAdd(Quad a, Quad b) { return _mm_add_ps(a, b); }
  // max(0, v); NaN stays NaN.
  static Quad QuadRelu(Quad v) { return _mm_max_ps(_mm_setzero_ps(), v); }

 private:
  static Reg IsLargest(Reg value, Reg largest) {
    return _mm256_or_ps(_mm256_cmp_ps(value, largest, _CMP_EQ_OQ),
                        _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  }
};

}  // namespace
}  // namespace skep::kernels
