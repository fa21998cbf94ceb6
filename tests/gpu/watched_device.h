// WatchedDevice: another device, with its products noted, or with a planted fault in them.
//
// For checks that must know which products a network asks for, and for seeing that a check fails.
// The other device outlives it. One thread.
#pragma once

#include <vector>

#include "kernels/cuda/device_api.h"

namespace skep::gpu {

class WatchedDevice final : public kernels::DeviceApi {
 public:
  // `has_wrong_stride`: every lane multiplies with what belongs to the first.
  explicit WatchedDevice(kernels::DeviceApi& device, bool has_wrong_stride = false)
      : device_(device), has_wrong_stride_(has_wrong_stride) {}

  [[nodiscard]] const std::vector<kernels::Gemm>& products() const { return products_; }

  Result<kernels::DeviceInfo> Info() override { return device_.Info(); }
  Result<std::uint64_t> Allocate(std::size_t bytes) override { return device_.Allocate(bytes); }
  void Free(std::uint64_t address) override { device_.Free(address); }
  Result<kernels::StreamId> MakeStream() override { return device_.MakeStream(); }
  void FreeStream(kernels::StreamId stream) override { device_.FreeStream(stream); }
  Status Synchronise(kernels::StreamId stream) override { return device_.Synchronise(stream); }
  Status CopyIn(kernels::StreamId stream, std::uint64_t to, const void* from,
                std::size_t bytes) override {
    return device_.CopyIn(stream, to, from, bytes);
  }
  Status CopyOut(kernels::StreamId stream, void* to, std::uint64_t from,
                 std::size_t bytes) override {
    return device_.CopyOut(stream, to, from, bytes);
  }
  Status CopyWithin(kernels::StreamId stream, std::uint64_t to, std::uint64_t from,
                    std::size_t bytes) override {
    return device_.CopyWithin(stream, to, from, bytes);
  }
  Status Clear(kernels::StreamId stream, std::uint64_t at, std::size_t bytes) override {
    return device_.Clear(stream, at, bytes);
  }
  Status Launch(kernels::StreamId stream, const kernels::KernelCall& call) override {
    return device_.Launch(stream, call);
  }
  Status Multiply(kernels::StreamId stream, const kernels::Gemm& gemm) override {
    products_.push_back(gemm);
    kernels::Gemm asked = gemm;
    if (has_wrong_stride_) asked.a_stride = 0;
    return device_.Multiply(stream, asked);
  }
  Result<kernels::EventId> MakeEvent() override { return device_.MakeEvent(); }
  void FreeEvent(kernels::EventId event) override { device_.FreeEvent(event); }
  Status Record(kernels::EventId event, kernels::StreamId stream) override {
    return device_.Record(event, stream);
  }
  Status Wait(kernels::StreamId waiter, kernels::EventId event) override {
    return device_.Wait(waiter, event);
  }
  Status BeginCapture(kernels::StreamId stream) override { return device_.BeginCapture(stream); }
  Result<kernels::GraphId> EndCapture(kernels::StreamId stream) override {
    return device_.EndCapture(stream);
  }
  Status LaunchGraph(kernels::StreamId stream, kernels::GraphId graph) override {
    return device_.LaunchGraph(stream, graph);
  }
  void FreeGraph(kernels::GraphId graph) override { device_.FreeGraph(graph); }

 private:
  kernels::DeviceApi& device_;
  bool has_wrong_stride_;
  std::vector<kernels::Gemm> products_;
};

}  // namespace skep::gpu
