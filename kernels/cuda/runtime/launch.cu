// Every kernel of the list, instantiated for the device.
#include "kernels/body/kernel_list.h"
#include "kernels/cuda/runtime/device_context.h"
#include "kernels/cuda/runtime/launch.h"

namespace skep::kernels::cuda {
namespace {

template <class Kernel>
__global__ void __launch_bounds__(kMostBlockThreads) Entry(typename Kernel::Args args) {
  DeviceContext context;
  Kernel::Run(context, args);
}

template <class Pack>
struct Table;
template <class... Kernel>
struct Table<KernelPack<Kernel...>> {
  static const void* EntryOf(std::uint32_t kernel) {
    static const void* const kEntries[] = {reinterpret_cast<const void*>(&Entry<Kernel>)...};
    return kEntries[kernel];
  }
  static constexpr const char* kNames[] = {Kernel::kName...};
  static constexpr std::size_t kArgsBytes[] = {sizeof(typename Kernel::Args)...};
};
using List = Table<Kernels>;

}  // namespace

std::uint32_t KernelCount() {
  return static_cast<std::uint32_t>(Kernels::kCount);
}

const char* KernelName(std::uint32_t kernel) {
  return List::kNames[kernel];
}

std::size_t KernelArgsBytes(std::uint32_t kernel) {
  return List::kArgsBytes[kernel];
}

cudaError_t LaunchOnDevice(cudaStream_t stream, const KernelCall& call) {
  void* arguments[] = {const_cast<void*>(call.args)};
  return cudaLaunchKernel(List::EntryOf(call.kernel), dim3(call.grid.x, call.grid.y),
                          dim3(call.grid.block_threads), arguments, call.grid.shared_bytes, stream);
}

}  // namespace skep::kernels::cuda
