// DevicePtr: the address of values in a device's memory, which only a kernel's context can open.
//
// A number, so host code cannot read through it by mistake; arithmetic is in elements. Plain value,
// passed to kernels inside their Args.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define SKEP_HD __host__ __device__
#else
#define SKEP_HD
#endif

namespace skep::kernels {

template <class T>
struct DevicePtr {
  std::uint64_t address = 0;  // 0: none

  [[nodiscard]] SKEP_HD bool IsNull() const { return address == 0; }
  [[nodiscard]] SKEP_HD DevicePtr operator+(std::size_t elements) const {
    return {address + elements * sizeof(T)};
  }
  // To what is only read.
  template <class U = T, class = std::enable_if_t<!std::is_const_v<U>>>
  SKEP_HD operator DevicePtr<const U>() const {  // NOLINT
    return {address};
  }
};

}  // namespace skep::kernels
