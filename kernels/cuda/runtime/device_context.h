// DeviceContext: what a kernel body sees on the device. See kernels/body/kernel.h.
//
// For .cu files. Members are host functions, too, only because bodies are; they are not called
// there.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"

namespace skep::kernels::cuda {

extern __shared__ __align__(16) unsigned char shared_bytes[];

class DeviceContext {
 public:
#ifdef __CUDA_ARCH__
  SKEP_HD std::uint32_t thread() const {
    return threadIdx.x;
  }
  SKEP_HD std::uint32_t block_x() const {
    return blockIdx.x;
  }
  SKEP_HD std::uint32_t block_y() const {
    return blockIdx.y;
  }
  SKEP_HD std::uint32_t block_threads() const {
    return blockDim.x;
  }
  SKEP_HD std::uint32_t blocks_x() const {
    return gridDim.x;
  }
  template <class T>
  SKEP_HD T* memory(DevicePtr<T> at) const {
    return reinterpret_cast<T*>(at.address);
  }
  template <class T>
  SKEP_HD T* shared() const {
    return reinterpret_cast<T*>(shared_bytes);
  }
  SKEP_HD void sync() const {
    __syncthreads();
  }
  template <class T>
  SKEP_HD T shuffle_down(T value, std::uint32_t distance) const {
    return __shfl_down_sync(0xFFFFFFFFU, value, distance);
  }
  SKEP_HD bool any(bool is) const {
    return __any_sync(0xFFFFFFFFU, is) != 0;
  }
  template <class T>
  SKEP_HD T atomic_add(T* at, T value) const {
    return atomicAdd(at, value);
  }
  template <class T>
  SKEP_HD T atomic_max(T* at, T value) const {
    return atomicMax(at, value);
  }
#else
  SKEP_HD std::uint32_t thread() const {
    return 0;
  }
  SKEP_HD std::uint32_t block_x() const {
    return 0;
  }
  SKEP_HD std::uint32_t block_y() const {
    return 0;
  }
  SKEP_HD std::uint32_t block_threads() const {
    return 1;
  }
  SKEP_HD std::uint32_t blocks_x() const {
    return 1;
  }
  template <class T>
  SKEP_HD T* memory(DevicePtr<T>) const {
    return nullptr;
  }
  template <class T>
  SKEP_HD T* shared() const {
    return nullptr;
  }
  SKEP_HD void sync() const {}
  template <class T>
  SKEP_HD T shuffle_down(T value, std::uint32_t) const {
    return value;
  }
  SKEP_HD bool any(bool is) const {
    return is;
  }
  template <class T>
  SKEP_HD T atomic_add(T*, T value) const {
    return value;
  }
  template <class T>
  SKEP_HD T atomic_max(T*, T value) const {
    return value;
  }
#endif
  SKEP_HD std::uint64_t global_index() const {
    return std::uint64_t{block_x()} * block_threads() + thread();
  }
  SKEP_HD std::uint64_t grid_threads() const {
    return std::uint64_t{blocks_x()} * block_threads();
  }
};

}  // namespace skep::kernels::cuda
