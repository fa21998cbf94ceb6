// What the bodies of all loops share: include after one vector_*.h.
#pragma once

#include <cstddef>

namespace skep::kernels {
namespace {

using Reg = Vector::Reg;
using Mask = Vector::Mask;
constexpr std::size_t kLanes = Vector::kLanes;

constexpr std::size_t Least(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

// n cut into pieces of almost equal size, each at most `largest`: no thin last tile.
struct Pieces {
  Pieces(std::size_t n, std::size_t largest)
      : count((n + largest - 1) / largest),
        size(count == 0 ? 0 : n / count),
        longer(count == 0 ? 0 : n % count) {}
  std::size_t Size(std::size_t i) const { return size + (i < longer ? 1 : 0); }
  std::size_t count;
  std::size_t size;
  std::size_t longer;  // so many pieces, the first ones, have one more
};

}  // namespace
}  // namespace skep::kernels
