// Four floats as one value in the compilers' own vector type, for training_portable.cc alone: any
// processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skep::kernels {
namespace {

struct Vector {
  typedef float Reg __attribute__((vector_size(16)));
  typedef std::uint32_t Bits __attribute__((vector_size(16)));
  using Quad = Reg;
  using Mask = std::size_t;
  static constexpr std::size_t kLanes = 4;
  // Tiles: rows x outputs of dot products, rows x vectors of outer products. Sixteen registers at
  // least.
  static constexpr std::size_t kDotRows = 3;
  static constexpr std::size_t kOuterRows = 3;
  static constexpr std::size_t kOuterVectors = 3;

  static Mask FirstLanes(std::size_t count) { return count; }
  static Reg Zero() { return Reg{}; }
  static Reg Set(float value) { return Reg{value, value, value, value}; }
  static Reg Load(const float* p) {
    Reg v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static Reg LoadOr(const float* p, Mask m, float other) {
    if (m == kLanes) return Load(p);
    Reg v = Set(other);
    for (std::size_t i = 0; i < m; ++i) v[i] = p[i];
    return v;
  }
  static Reg Load(const float* p, Mask m) { return LoadOr(p, m, 0); }
  static void Store(float* p, Reg v) { __builtin_memcpy(p, &v, sizeof v); }
  static void Store(float* p, Reg v, Mask m) {
    if (m == kLanes) return Store(p, v);
    for (std::size_t i = 0; i < m; ++i) p[i] = v[i];
  }
  static Reg Fma(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg Add(Reg a, Reg b) { return a + b; }
  static Reg Sub(Reg a, Reg b) { return a - b; }
  static Reg Mul(Reg a, Reg b) { return a * b; }
  static Reg Div(Reg a, Reg b) { return a / b; }
  static Reg Sqrt(Reg a) {
    for (std::size_t i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
    return a;
  }
  // max(a, b); b where one of them is NaN.
  static Reg Max(Reg a, Reg b) {
    const auto greater = a > b;
    return Choose(reinterpret_cast<Bits>(greater), a, b);
  }
  // v where gate > 0, else 0.
  static Reg WherePositive(Reg gate, Reg v) {
    const auto positive = gate > Zero();
    return Choose(reinterpret_cast<Bits>(positive), v, Zero());
  }
  // yes where gate > 0, else no (also where gate is NaN).
  static Reg WherePositive(Reg gate, Reg yes, Reg no) {
    const auto positive = gate > Zero();
    return Choose(reinterpret_cast<Bits>(positive), yes, no);
  }
  // max(a, b); NaN where one of them is.
  static Reg MaxOrNan(Reg a, Reg b) {
    const auto is_nan = a != a;
    return Choose(reinterpret_cast<Bits>(is_nan), a, Max(a, b));
  }
  // v where a value is the largest, or NaN, and 0 where it is not; and the other way round.
  static Reg WhereLargest(Reg value, Reg largest, Reg v) {
    return Choose(IsLargest(value, largest), v, Zero());
  }
  static Reg WhereSmaller(Reg value, Reg largest, Reg v) {
    return Choose(IsLargest(value, largest), Zero(), v);
  }
  // v, and 0 in the lanes that are not in `m`.
  static Reg Keep(Reg v, Mask m) {
    for (std::size_t i = m; i < kLanes; ++i) v[i] = 0;
    return v;
  }
  // The largest lane; any lane where one is NaN.
  static float Largest(Reg v) {
    const float low = v[0] > v[1] ? v[0] : v[1];
    const float high = v[2] > v[3] ? v[2] : v[3];
    return low > high ? low : high;
  }
  // v times 2^n, where n stands in the low bits of `shifted`.
  static Reg TimesPowerOfTwo(Reg v, Reg shifted) {
    const Bits exponent = (reinterpret_cast<Bits>(shifted) << 23) + 0x3F800000U;
    return v * reinterpret_cast<Reg>(exponent);
  }
  // The sums of the lanes of four values.
  static Quad Sums(Reg a, Reg b, Reg c, Reg d) {
    return Quad{(a[0] + a[2]) + (a[1] + a[3]), (b[0] + b[2]) + (b[1] + b[3]),
                (c[0] + c[2]) + (c[1] + c[3]), (d[0] + d[2]) + (d[1] + d[3])};
  }

  static Quad QuadLoad(const float* p) { return Load(p); }
  static void QuadStore(float* p, Quad v) { Store(p, v); }
  // Rows of a 4 x 4 matrix become its columns.
  static void QuadTranspose(Quad (&row)[4]) {
    const Quad low_ab = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
    const Quad high_ab = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
    const Quad low_cd = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    const Quad high_cd = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    row[0] = __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5);
    row[1] = __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7);
    row[2] = __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5);
    row[3] = __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7);
  }
  static Quad QuadAdd(Quad a, Quad b) { return a + b; }
  // max(0, v); NaN stays NaN.
  static Quad QuadRelu(Quad v) { return Max(Zero(), v); }

 private:
  static Bits IsLargest(Reg value, Reg largest) {
    const auto is_equal = value == largest;
    const auto is_nan = value != value;
    return reinterpret_cast<Bits>(is_equal) | reinterpret_cast<Bits>(is_nan);
  }
  static Reg Choose(Bits mask, Reg yes, Reg no) {
    const Bits chosen = (mask & reinterpret_cast<Bits>(yes)) | (~mask & reinterpret_cast<Bits>(no));
    return reinterpret_cast<Reg>(chosen);
  }
};

}  // namespace
}  // namespace skep::kernels
