// LaunchOnDevice: a kernel of the list, by number. For cuda_device.cc, which knows no kernel.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/cuda/device_api.h"

namespace skep::kernels::cuda {

[[nodiscard]] std::uint32_t KernelCount();
[[nodiscard]] const char* KernelName(std::uint32_t kernel);
[[nodiscard]] std::size_t KernelArgsBytes(std::uint32_t kernel);
// Brings the code of all kernels to the current device, so that nothing is loaded while a stream
// is captured. Fails if there is none for a device of its kind.
[[nodiscard]] cudaError_t LoadKernels();
// `kernel` is below KernelCount(), args_bytes is right.
[[nodiscard]] cudaError_t LaunchOnDevice(cudaStream_t stream, const KernelCall& call);

}  // namespace skep::kernels::cuda
