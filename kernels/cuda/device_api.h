// DeviceApi: all that the project asks of a device, as one interface.
//
// Implemented over the CUDA runtime and cuBLAS by libskep-cuda.so (kernels/cuda/runtime), and on
// the host by a fake for tests, which runs the same kernel bodies under an emulator. No CUDA type
// appears here. Work goes to streams in order; it is asynchronous, so host memory given to a copy
// stays untouched until the stream was synchronised. One thread at a time per DeviceApi.
//
// Errors: SKEP-7201 (no device, or none that fits), SKEP-7202 (the device has no memory left),
// SKEP-7203 (a call failed: names the call, the kernel and its sizes). After a 7203 the device is
// lost to this process: every later call says so again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/body/device_ptr.h"
#include "kernels/cuda/gemm.h"
#include "shared/base/result.h"

namespace skep::kernels {

struct DeviceInfo {
  std::string name;                // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  std::string driver;
  std::string toolkit;
  std::string blas;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

// Numbers, not pointers: made by a DeviceApi and meaningless elsewhere.
struct StreamId {
  std::uint64_t id = 0;
};
struct EventId {
  std::uint64_t id = 0;
};
struct GraphId {
  std::uint64_t id = 0;
};

// Bounds the registers that a kernel may have.
inline constexpr std::uint32_t kMostBlockThreads = 256;

struct Grid {
  std::uint32_t x = 1;                              // blocks
  std::uint32_t y = 1;                              // at most 65,535
  std::uint32_t block_threads = kMostBlockThreads;  // at most that
  std::uint32_t shared_bytes = 0;                   // at most 48 KiB
};

// One launch of a kernel of kernels/body/kernel_list.h.
struct KernelCall {
  std::uint32_t kernel = 0;  // index in the list
  Grid grid;
  const void* args = nullptr;  // the kernel's Args; copied by Launch
  std::size_t args_bytes = 0;
};

class DeviceApi {
 public:
  DeviceApi() = default;
  DeviceApi(const DeviceApi&) = delete;
  DeviceApi& operator=(const DeviceApi&) = delete;
  virtual ~DeviceApi() = default;

  [[nodiscard]] virtual Result<DeviceInfo> Info() = 0;

  // Aligned to 256 bytes; contents are arbitrary. SKEP-7202.
  [[nodiscard]] virtual Result<std::uint64_t> Allocate(std::size_t bytes) = 0;
  // Waits for all work first. Address 0 is allowed.
  virtual void Free(std::uint64_t address) = 0;

  [[nodiscard]] virtual Result<StreamId> MakeStream() = 0;
  virtual void FreeStream(StreamId stream) = 0;
  [[nodiscard]] virtual Status Synchronise(StreamId stream) = 0;

  [[nodiscard]] virtual Status CopyIn(StreamId stream, std::uint64_t to, const void* from,
                                      std::size_t bytes) = 0;
  [[nodiscard]] virtual Status CopyOut(StreamId stream, void* to, std::uint64_t from,
                                       std::size_t bytes) = 0;
  [[nodiscard]] virtual Status CopyWithin(StreamId stream, std::uint64_t to, std::uint64_t from,
                                          std::size_t bytes) = 0;
  [[nodiscard]] virtual Status Clear(StreamId stream, std::uint64_t at, std::size_t bytes) = 0;

  [[nodiscard]] virtual Status Launch(StreamId stream, const KernelCall& call) = 0;
  [[nodiscard]] virtual Status Multiply(StreamId stream, const Gemm& gemm) = 0;

  // Work of `waiter` from here on waits for what `stream` was given so far.
  [[nodiscard]] virtual Result<EventId> MakeEvent() = 0;
  virtual void FreeEvent(EventId event) = 0;
  [[nodiscard]] virtual Status Record(EventId event, StreamId stream) = 0;
  [[nodiscard]] virtual Status Wait(StreamId waiter, EventId event) = 0;

  // What the stream is given between the two is not done but kept, to be done by LaunchGraph as
  // often as one likes. No allocation, copy from or to the host or synchronisation in between.
  [[nodiscard]] virtual Status BeginCapture(StreamId stream) = 0;
  [[nodiscard]] virtual Result<GraphId> EndCapture(StreamId stream) = 0;
  [[nodiscard]] virtual Status LaunchGraph(StreamId stream, GraphId graph) = 0;
  virtual void FreeGraph(GraphId graph) = 0;
};

}  // namespace skep::kernels
