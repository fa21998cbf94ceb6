// Doubles and random words beside eight floats, for point_avx2.cc alone: include after
// vector_avx2.h.
#pragma once

namespace skep::kernels {
namespace {

// As many doubles as a Reg has floats, in its order.
struct Wide {
  __m256d low;
  __m256d high;

  static Wide Zero() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
  static Wide Set(double value) { return {_mm256_set1_pd(value), _mm256_set1_pd(value)}; }
  static Wide Of(Vector::Reg v) {
    return {_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
            _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))};
  }
  static Wide Load(const double* p) { return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
  void Store(double* p) const {
    _mm256_storeu_pd(p, low);
    _mm256_storeu_pd(p + 4, high);
  }
  static Wide Add(Wide a, Wide b) {
    return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
  }
  static Wide Mul(Wide a, Wide b) {
    return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
  }
  static Wide Div(Wide a, Wide b) {
    return {_mm256_div_pd(a.low, b.low), _mm256_div_pd(a.high, b.high)};
  }
  static Wide Fma(Wide a, Wide b, Wide c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
  }
  [[nodiscard]] Vector::Reg Narrow() const {
    return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
  }
  [[nodiscard]] double Sum() const {
    const __m256d all = _mm256_add_pd(low, high);
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(all), _mm256_extractf128_pd(all, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
  }
};

// One word of each of kBlocks blocks of Philox, each in the low half of 64 bits; what is in the
// high half means nothing.
struct Words {
  using Reg = __m256i;
  static constexpr std::size_t kBlocks = 4;

  static Reg Set(std::uint32_t word) { return _mm256_set1_epi64x(word); }
  // Block numbers from `first`, in the order that StoreTops undoes.
  static Reg Count(std::uint32_t first) {
    return _mm256_add_epi32(_mm256_set1_epi64x(first), _mm256_setr_epi64x(0, 2, 1, 3));
  }
  static Reg Product(Reg a, Reg b) { return _mm256_mul_epu32(a, b); }
  static Reg High(Reg a) { return _mm256_srli_epi64(a, 32); }
  static Reg Xor(Reg a, Reg b) { return _mm256_xor_si256(a, b); }
  // The top 24 bits of the words of each block in turn, as floats.
  static void StoreTops(const Reg (&word)[4], float* tops) {
    const Reg first = Pair(word[0], word[1]);
    const Reg second = Pair(word[2], word[3]);
    StoreTop(_mm256_unpacklo_epi64(first, second), tops);
    StoreTop(_mm256_unpackhi_epi64(first, second), tops + 8);
  }

 private:
  static Reg Pair(Reg low, Reg high) {
    return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA);
  }
  static void StoreTop(Reg words, float* tops) {
    _mm256_storeu_ps(tops, _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 8)));
  }
};

}  // namespace
}  // namespace skep::kernels
