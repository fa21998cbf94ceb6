// Doubles and random words beside sixteen floats, for point_avx512.cc alone: include after
// vector_avx512.h.
#pragma once

#include <cstdint>

namespace skep::kernels {
namespace {

// As many doubles as a Reg has floats, in its order.
struct Wide {
  __m512d low;
  __m512d high;

  static Wide Zero() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
  static Wide Set(double value) { return {_mm512_set1_pd(value), _mm512_set1_pd(value)}; }
  static Wide Of(Vector::Reg v) {
    return {_mm512_cvtps_pd(_mm512_castps512_ps256(v)),
            _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))};
  }
  static Wide Load(const double* p) { return {_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}; }
  void Store(double* p) const {
    _mm512_storeu_pd(p, low);
    _mm512_storeu_pd(p + 8, high);
  }
  static Wide Add(Wide a, Wide b) {
    return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
  }
  static Wide Mul(Wide a, Wide b) {
    return {_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)};
  }
  static Wide Div(Wide a, Wide b) {
    return {_mm512_div_pd(a.low, b.low), _mm512_div_pd(a.high, b.high)};
  }
  static Wide Fma(Wide a, Wide b, Wide c) {
    return {_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
  }
  [[nodiscard]] Vector::Reg Narrow() const {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high),
                              1);
  }
  [[nodiscard]] double Sum() const { return _mm512_reduce_add_pd(_mm512_add_pd(low, high)); }
};

// One word of each of kBlocks blocks of Philox, each in the low half of 64 bits; what is in the
// high half means nothing.
struct Words {
  using Reg = __m512i;
  static constexpr std::size_t kBlocks = 8;

  static Reg Set(std::uint32_t word) { return _mm512_set1_epi64(word); }
  // Block numbers from `first`, in the order that StoreTops undoes.
  static Reg Count(std::uint32_t first) {
    return _mm512_add_epi32(_mm512_set1_epi64(first), _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
  }
  static Reg Product(Reg a, Reg b) { return _mm512_mul_epu32(a, b); }
  static Reg High(Reg a) { return _mm512_srli_epi64(a, 32); }
  static Reg Xor(Reg a, Reg b) { return _mm512_xor_si512(a, b); }
  // The top 24 bits of the words of each block in turn, as floats.
  static void StoreTops(const Reg (&word)[4], float* tops) {
    const Reg first = Pair(word[0], word[1]);
    const Reg second = Pair(word[2], word[3]);
    StoreTop(_mm512_unpacklo_epi64(first, second), tops);
    StoreTop(_mm512_unpackhi_epi64(first, second), tops + 16);
  }

 private:
  static Reg Pair(Reg low, Reg high) {
    return _mm512_mask_mov_epi32(low, 0xAAAA, _mm512_slli_epi64(high, 32));
  }
  static void StoreTop(Reg words, float* tops) {
    _mm512_storeu_ps(tops, _mm512_cvtepi32_ps(_mm512_srli_epi32(words, 8)));
  }
};

}  // namespace
}  // namespace skep::kernels
