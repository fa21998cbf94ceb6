// Every kernel of the list, instantiated for the device.
#include "kernels/cuda/runtime/device_context.h"
#include "kernels/cuda/runtime/launch_table.h"

namespace skep::kernels::cuda {
namespace {

using List = LaunchTable<DeviceContext, Kernels>;

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

cudaError_t LoadKernels() {
  return List::Load();
}

cudaError_t LaunchOnDevice(cudaStream_t stream, const KernelCall& call) {
  return List::Launch(stream, call);
}

}  // namespace skep::kernels::cuda
