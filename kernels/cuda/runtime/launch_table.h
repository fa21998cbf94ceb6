// LaunchTable: every kernel of the list, instantiated for a device with one context.
//
// For .cu files. The product has one such file (launch.cu); a second context makes a library whose
// kernels are wrong on purpose, so that checks on a device can be seen to fail.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/kernel_list.h"
#include "kernels/cuda/runtime/launch.h"

namespace skep::kernels::cuda {

template <class Context, class Kernel>
__global__ void __launch_bounds__(kMostBlockThreads) Entry(typename Kernel::Args args) {
  Context context;
  Kernel::Run(context, args);
}

template <class Context, class Pack>
struct LaunchTable;
template <class Context, class... Kernel>
struct LaunchTable<Context, KernelPack<Kernel...>> {
  static const void* EntryOf(std::uint32_t kernel) {
    static const void* const kEntries[] = {
        reinterpret_cast<const void*>(&Entry<Context, Kernel>)...};
    return kEntries[kernel];
  }
  static constexpr const char* kNames[] = {Kernel::kName...};
  static constexpr std::size_t kArgsBytes[] = {sizeof(typename Kernel::Args)...};

  static cudaError_t Load() {
    for (std::uint32_t kernel = 0; kernel < sizeof...(Kernel); ++kernel) {
      cudaFuncAttributes attributes;
      const cudaError_t error = cudaFuncGetAttributes(&attributes, EntryOf(kernel));
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }

  static cudaError_t Launch(cudaStream_t stream, const KernelCall& call) {
    void* arguments[] = {const_cast<void*>(call.args)};
    return cudaLaunchKernel(EntryOf(call.kernel), dim3(call.grid.x, call.grid.y),
                            dim3(call.grid.block_threads), arguments, call.grid.shared_bytes,
                            stream);
  }
};

}  // namespace skep::kernels::cuda
