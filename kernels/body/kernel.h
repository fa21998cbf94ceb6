// What a kernel is, and its number.
//
// A kernel is a struct K without values:
//   static constexpr const char* kName;      // for errors
//   static constexpr bool kSynchronises;     // whether Run calls c.sync() or a shuffle
//   struct Args { ... };                     // DevicePtr and numbers only
//   template <class Context> SKEP_HD static void Run(Context& c, const Args& a);
// Run is written once, for one thread of a grid. The context says which (thread(), block_x(),
// block_y(), block_threads(), blocks_x(), global_index(), grid_threads()), opens memory
// (memory(DevicePtr<T>) -> T*, shared<T>() -> T*), and synchronises (sync(), shuffle_down(v, d),
// any(b), atomic_add(p, v)). nvcc instantiates it with the device's context, tests with an
// emulator's. No library function whose result depends on the machine: kernels/body/math.h has exp
// and its kin. Source: docs/architecture.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/body/device_ptr.h"

namespace skep::kernels {

template <class... Kernel>
struct KernelPack {
  static constexpr std::size_t kCount = sizeof...(Kernel);

  // The number of K in the pack.
  template <class K>
  static constexpr std::uint32_t IndexOf() {
    static_assert((std::is_same_v<K, Kernel> || ...), "the kernel is not in the list");
    std::uint32_t index = 0;
    std::uint32_t found = 0;
    ((std::is_same_v<K, Kernel> ? found = index++ : index++), ...);
    return found;
  }
};

}  // namespace skep::kernels
