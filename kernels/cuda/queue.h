// Queue: a stream of a device with typed launches.
//
// Holds no work itself. One thread. Errors: those of DeviceApi.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/body/kernel_list.h"
#include "kernels/cuda/device_api.h"

namespace skep::kernels {

class Queue {
 public:
  // The stream belongs to the caller, who frees it after the queue.
  Queue(DeviceApi& device, StreamId stream) : device_(&device), stream_(stream) {}

  template <class Kernel>
  [[nodiscard]] Status Launch(const Grid& grid, const typename Kernel::Args& args) {
    static_assert(std::is_trivially_copyable_v<typename Kernel::Args>);
    return device_->Launch(stream_, {.kernel = Kernels::IndexOf<Kernel>(),
                                     .grid = grid,
                                     .args = &args,
                                     .args_bytes = sizeof args});
  }
  [[nodiscard]] Status Multiply(const Gemm& gemm) { return device_->Multiply(stream_, gemm); }
  [[nodiscard]] Status Synchronise() { return device_->Synchronise(stream_); }

  [[nodiscard]] DeviceApi& device() { return *device_; }
  [[nodiscard]] StreamId stream() const { return stream_; }

 private:
  DeviceApi* device_;
  StreamId stream_;
};

}  // namespace skep::kernels
