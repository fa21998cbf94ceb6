// HostDevice: a DeviceApi without a device, for tests.
//
// Kernels run in the emulator, products in a checking reference. It is stricter than a device:
// memory starts and ends as NaN, work is not done before a synchronisation asks for it, host memory
// that changes while a copy waits is a fault, and so are addresses of the host, ranges outside an
// allocation, products whose matrices overlap, and what is still there at the end. Every call can
// be made to fail. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/device_api.h"
#include "tests/emulator/block.h"

namespace skep::emulator {

class HostDevice final : public kernels::DeviceApi {
 public:
  struct Options {
    Mode mode = Mode::kFibres;
    std::uint64_t seed = 1;  // of the order of blocks
    std::uint64_t total_bytes = std::uint64_t{1} << 30U;
    std::optional<std::uint64_t> fail_at{};  // the n-th call, from 0, fails, and all later ones
    // Planted faults, by which checks are seen to fail.
    bool ignores_syncs = false;
    bool multiplies_in_tf32 = false;
  };
  HostDevice() : HostDevice(Options{}) {}
  explicit HostDevice(const Options& options) : options_(options) {}

  // What went wrong, leaks included once everything should be freed.
  [[nodiscard]] std::vector<std::string> TakeFaults() { return memory_.TakeFaults(); }
  [[nodiscard]] std::vector<std::string> Leaks() const;
  // Calls so far; those that can fail.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  [[nodiscard]] std::uint64_t live_bytes() const { return memory_.live_bytes(); }

  [[nodiscard]] Result<kernels::DeviceInfo> Info() override;
  [[nodiscard]] Result<std::uint64_t> Allocate(std::size_t bytes) override;
  void Free(std::uint64_t address) override;
  [[nodiscard]] Result<kernels::StreamId> MakeStream() override;
  void FreeStream(kernels::StreamId stream) override;
  [[nodiscard]] Status Synchronise(kernels::StreamId stream) override;
  [[nodiscard]] Status CopyIn(kernels::StreamId stream, std::uint64_t to, const void* from,
                              std::size_t bytes) override;
  [[nodiscard]] Status CopyOut(kernels::StreamId stream, void* to, std::uint64_t from,
                               std::size_t bytes) override;
  [[nodiscard]] Status CopyWithin(kernels::StreamId stream, std::uint64_t to, std::uint64_t from,
                                  std::size_t bytes) override;
  [[nodiscard]] Status Clear(kernels::StreamId stream, std::uint64_t at,
                             std::size_t bytes) override;
  [[nodiscard]] Status Launch(kernels::StreamId stream, const kernels::KernelCall& call) override;
  [[nodiscard]] Status Multiply(kernels::StreamId stream, const kernels::Gemm& gemm) override;
  [[nodiscard]] Result<kernels::EventId> MakeEvent() override;
  void FreeEvent(kernels::EventId event) override;
  [[nodiscard]] Status Record(kernels::EventId event, kernels::StreamId stream) override;
  [[nodiscard]] Status Wait(kernels::StreamId waiter, kernels::EventId event) override;
  [[nodiscard]] Status BeginCapture(kernels::StreamId stream) override;
  [[nodiscard]] Result<kernels::GraphId> EndCapture(kernels::StreamId stream) override;
  [[nodiscard]] Status LaunchGraph(kernels::StreamId stream, kernels::GraphId graph) override;
  void FreeGraph(kernels::GraphId graph) override;

 private:
  using Work = std::function<void()>;
  struct Stream {
    std::deque<Work> waiting;
    std::uint64_t done = 0;  // pieces of work since its start
    bool is_capturing = false;
    std::vector<Work> captured;
  };
  // What an event stands for: a stream and so much of its work.
  struct Event {
    std::uint64_t stream = 0;
    std::uint64_t until = 0;
  };

  // The gate of every call that can fail.
  [[nodiscard]] Status Call(const char* name);
  [[nodiscard]] Status NotWhileCapturing(const char* name);
  [[nodiscard]] Stream* Find(kernels::StreamId stream, const char* who);
  [[nodiscard]] Status Put(kernels::StreamId stream, const char* name, Work work);
  void Finish(Stream& stream, std::uint64_t until);
  void FinishAll();

  Options options_;
  Memory memory_;
  std::map<std::uint64_t, Stream> streams_;
  std::map<std::uint64_t, Event> events_;
  std::map<std::uint64_t, std::vector<Work>> graphs_;
  std::uint64_t next_id_ = 1;
  std::uint64_t calls_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t launches_ = 0;
  bool is_lost_ = false;
};

}  // namespace skep::emulator
