// Doubles and random words beside four floats, for point_portable.cc alone: include after
// vector_portable.h.
#pragma once

namespace skep::kernels {
namespace {

// As many doubles as a Reg has floats, in its order.
struct Wide {
  typedef double Half __attribute__((vector_size(16)));
  Half low;
  Half high;

  static Wide Zero() { return {Half{}, Half{}}; }
  static Wide Set(double value) { return {Half{value, value}, Half{value, value}}; }
  static Wide Of(Vector::Reg v) {
    return {Half{static_cast<double>(v[0]), static_cast<double>(v[1])},
            Half{static_cast<double>(v[2]), static_cast<double>(v[3])}};
  }
  static Wide Load(const double* p) {
    Wide wide;
    __builtin_memcpy(&wide, p, sizeof wide);
    return wide;
  }
  void Store(double* p) const { __builtin_memcpy(p, this, sizeof *this); }
  static Wide Add(Wide a, Wide b) { return {a.low + b.low, a.high + b.high}; }
  static Wide Mul(Wide a, Wide b) { return {a.low * b.low, a.high * b.high}; }
  static Wide Div(Wide a, Wide b) { return {a.low / b.low, a.high / b.high}; }
  static Wide Fma(Wide a, Wide b, Wide c) {
    return {a.low * b.low + c.low, a.high * b.high + c.high};
  }
  [[nodiscard]] Vector::Reg Narrow() const {
    return Vector::Reg{static_cast<float>(low[0]), static_cast<float>(low[1]),
                       static_cast<float>(high[0]), static_cast<float>(high[1])};
  }
  [[nodiscard]] double Sum() const { return (low[0] + high[0]) + (low[1] + high[1]); }
};

// One word of one block of Philox, in the low half of 64 bits; what is in the high half means
// nothing.
struct Words {
  using Reg = std::uint64_t;
  static constexpr std::size_t kBlocks = 1;

  static Reg Set(std::uint32_t word) { return word; }
  static Reg Count(std::uint32_t first) { return first; }
  static Reg Product(Reg a, Reg b) { return (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU); }
  static Reg High(Reg a) { return a >> 32; }
  static Reg Xor(Reg a, Reg b) { return a ^ b; }
  // The top 24 bits of the words of the block, as floats.
  static void StoreTops(const Reg (&word)[4], float* tops) {
    for (std::size_t i = 0; i < 4; ++i) {
      tops[i] = static_cast<float>(static_cast<std::int32_t>((word[i] & 0xFFFFFFFFU) >> 8));
    }
  }
};

}  // namespace
}  // namespace skep::kernels
