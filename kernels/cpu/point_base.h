// What the bodies of point loops share: include after one vector_*.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skep::kernels {
namespace {

using Reg = Vector::Reg;
using Mask = Vector::Mask;
constexpr std::size_t kLanes = Vector::kLanes;

constexpr std::size_t Least(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

}  // namespace
}  // namespace skep::kernels
