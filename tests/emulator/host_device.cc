#include "tests/emulator/host_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tests/emulator/checked_gemm.h"
#include "tests/emulator/launcher.h"

namespace skep::emulator {
namespace {

constexpr std::uint32_t kMostShared = 48 * 1024;
constexpr std::uint32_t kMostBlocksY = 65535;

Error Failed(const std::string& call) {
  return Error{7203, "device call failed: " + call, ""};
}

// Enough to see that memory changed.
std::uint64_t Checksum(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 14695981039346656037U;
  for (std::size_t i = 0; i < bytes; ++i) sum = (sum ^ at[i]) * 1099511628211U;
  return sum;
}

}  // namespace

std::vector<std::string> HostDevice::Leaks() const {
  std::vector<std::string> leaks;
  if (memory_.live() != 0) {
    leaks.push_back(fmt::format("{} allocations of {} bytes", memory_.live(), live_bytes()));
  }
  if (!streams_.empty()) leaks.push_back(fmt::format("{} streams", streams_.size()));
  if (!events_.empty()) leaks.push_back(fmt::format("{} events", events_.size()));
  if (!graphs_.empty()) leaks.push_back(fmt::format("{} graphs", graphs_.size()));
  return leaks;
}

Status HostDevice::Call(const char* name) {
  const std::uint64_t number = calls_++;
  if (options_.fail_at == number) is_lost_ = true;
  if (is_lost_) return Failed(name);
  return Ok();
}

Status HostDevice::NotWhileCapturing(const char* name) {
  for (const auto& [id, stream] : streams_) {
    if (stream.is_capturing) {
      memory_.Report(fmt::format("{} while a stream is captured", name));
      return Failed(name);
    }
  }
  return Ok();
}

HostDevice::Stream* HostDevice::Find(kernels::StreamId stream, const char* who) {
  const auto found = streams_.find(stream.id);
  if (found != streams_.end()) return &found->second;
  memory_.Report(fmt::format("{} on stream {}, which there is not", who, stream.id));
  return nullptr;
}

void HostDevice::Finish(Stream& stream, std::uint64_t until) {
  while (stream.done < until && !stream.waiting.empty()) {
    const Work work = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    ++stream.done;
    work();
  }
}

void HostDevice::FinishAll() {
  for (auto& [id, stream] : streams_) Finish(stream, stream.done + stream.waiting.size());
}

Status HostDevice::Put(kernels::StreamId stream, const char* name, Work work) {
  if (Status called = Call(name); !called) return called;
  Stream* to = Find(stream, name);
  if (to == nullptr) return Failed(name);
  if (to->is_capturing) {
    to->captured.push_back(std::move(work));
  } else {
    to->waiting.push_back(std::move(work));
  }
  return Ok();
}

Result<kernels::DeviceInfo> HostDevice::Info() {
  if (Status called = Call("info"); !called) return std::move(called).error();
  return kernels::DeviceInfo{.name = "emulated device",
                             .compute_capability = "0.0",
                             .driver = "none",
                             .toolkit = "none",
                             .blas = "checking reference",
                             .total_bytes = options_.total_bytes,
                             .free_bytes = options_.total_bytes - live_bytes()};
}

Result<std::uint64_t> HostDevice::Allocate(std::size_t bytes) {
  if (Status called = Call("allocate"); !called) return std::move(called).error();
  if (Status free = NotWhileCapturing("allocate"); !free) return std::move(free).error();
  if (bytes > options_.total_bytes - std::min(options_.total_bytes, live_bytes())) {
    return Error{7202, fmt::format("the device has no room for {} bytes", bytes), ""};
  }
  ++allocations_;
  return memory_.Allocate(bytes);
}

void HostDevice::Free(std::uint64_t address) {
  if (address == 0) return;
  FinishAll();
  memory_.Free(address);
}

Result<kernels::StreamId> HostDevice::MakeStream() {
  if (Status called = Call("make stream"); !called) return std::move(called).error();
  streams_[next_id_] = {};
  return kernels::StreamId{next_id_++};
}

void HostDevice::FreeStream(kernels::StreamId stream) {
  Stream* found = Find(stream, "free stream");
  if (found == nullptr) return;
  Finish(*found, found->done + found->waiting.size());
  streams_.erase(stream.id);
}

Status HostDevice::Synchronise(kernels::StreamId stream) {
  if (Status called = Call("synchronise"); !called) return called;
  if (Status free = NotWhileCapturing("synchronise"); !free) return free;
  Stream* found = Find(stream, "synchronise");
  if (found == nullptr) return Failed("synchronise");
  Finish(*found, found->done + found->waiting.size());
  return Ok();
}

Status HostDevice::CopyIn(kernels::StreamId stream, std::uint64_t to, const void* from,
                          std::size_t bytes) {
  if (Status free = NotWhileCapturing("copy in"); !free) return free;
  return Put(stream, "copy in", [this, to, from, bytes, sum = Checksum(from, bytes)] {
    void* target = memory_.Open(to, bytes, "copy in");
    if (target == nullptr) return;
    if (Checksum(from, bytes) != sum) {
      memory_.Report("copy in: host memory changed before the copy was done");
    }
    std::memcpy(target, from, bytes);
  });
}

Status HostDevice::CopyOut(kernels::StreamId stream, void* to, std::uint64_t from,
                           std::size_t bytes) {
  if (Status free = NotWhileCapturing("copy out"); !free) return free;
  std::memset(to, 0xFF, bytes);  // so that reading too early is seen
  return Put(stream, "copy out", [this, to, from, bytes] {
    const void* source = memory_.Open(from, bytes, "copy out");
    if (source != nullptr) std::memcpy(to, source, bytes);
  });
}

Status HostDevice::CopyWithin(kernels::StreamId stream, std::uint64_t to, std::uint64_t from,
                              std::size_t bytes) {
  return Put(stream, "copy within", [this, to, from, bytes] {
    const void* source = memory_.Open(from, bytes, "copy within");
    void* target = memory_.Open(to, bytes, "copy within");
    if (source == nullptr || target == nullptr) return;
    if (from < to + bytes && to < from + bytes) memory_.Report("copy within: ranges overlap");
    std::memmove(target, source, bytes);
  });
}

Status HostDevice::Clear(kernels::StreamId stream, std::uint64_t at, std::size_t bytes) {
  return Put(stream, "clear", [this, at, bytes] {
    void* target = memory_.Open(at, bytes, "clear");
    if (target != nullptr) std::memset(target, 0, bytes);
  });
}

Status HostDevice::Launch(kernels::StreamId stream, const kernels::KernelCall& call) {
  const kernels::Grid& grid = call.grid;
  const char* name = KernelName(call.kernel);
  const bool fits = grid.x >= 1 && grid.y >= 1 && grid.y <= kMostBlocksY &&
                    grid.block_threads >= 1 && grid.block_threads <= kernels::kMostBlockThreads &&
                    grid.shared_bytes <= kMostShared;
  if (!fits) {
    memory_.Report(fmt::format("{}: a grid of {} x {} blocks of {} threads with {} bytes", name,
                               grid.x, grid.y, grid.block_threads, grid.shared_bytes));
    return Failed(name);
  }
  ++launches_;
  const auto* bytes = static_cast<const std::byte*>(call.args);
  KeptCall kept{call.kernel, grid, {bytes, bytes + call.args_bytes}, options_.ignores_syncs};
  return Put(stream, name, [this, kept = std::move(kept)] {
    LaunchEmulated(options_.mode, options_.seed + launches_, memory_, kept);
  });
}

Status HostDevice::Multiply(kernels::StreamId stream, const kernels::Gemm& gemm) {
  return Put(stream, "multiply",
             [this, gemm] { MultiplyChecked(memory_, gemm, options_.multiplies_in_tf32); });
}

Result<kernels::EventId> HostDevice::MakeEvent() {
  if (Status called = Call("make event"); !called) return std::move(called).error();
  events_[next_id_] = {};
  return kernels::EventId{next_id_++};
}

void HostDevice::FreeEvent(kernels::EventId event) {
  if (events_.erase(event.id) == 0) memory_.Report("free of an event that there is not");
}

Status HostDevice::Record(kernels::EventId event, kernels::StreamId stream) {
  if (Status called = Call("record"); !called) return called;
  const Stream* found = Find(stream, "record");
  if (found == nullptr) return Failed("record");
  events_[event.id] = {stream.id, found->done + found->waiting.size()};
  return Ok();
}

Status HostDevice::Wait(kernels::StreamId waiter, kernels::EventId event) {
  const Event meant = events_[event.id];
  return Put(waiter, "wait", [this, meant] {
    const auto found = streams_.find(meant.stream);
    if (found != streams_.end()) Finish(found->second, meant.until);
  });
}

Status HostDevice::BeginCapture(kernels::StreamId stream) {
  if (Status called = Call("begin capture"); !called) return called;
  Stream* found = Find(stream, "begin capture");
  if (found == nullptr || found->is_capturing) return Failed("begin capture");
  found->is_capturing = true;
  return Ok();
}

Result<kernels::GraphId> HostDevice::EndCapture(kernels::StreamId stream) {
  Stream* found = Find(stream, "end capture");
  if (found == nullptr || !found->is_capturing) return Failed("end capture");
  found->is_capturing = false;
  std::vector<Work> work = std::exchange(found->captured, {});
  if (Status called = Call("end capture"); !called) return std::move(called).error();
  graphs_[next_id_] = std::move(work);
  return kernels::GraphId{next_id_++};
}

Status HostDevice::LaunchGraph(kernels::StreamId stream, kernels::GraphId graph) {
  const auto found = graphs_.find(graph.id);
  if (found == graphs_.end()) {
    memory_.Report("launch of a graph that there is not");
    return Failed("launch graph");
  }
  return Put(stream, "launch graph", [work = found->second] {
    for (const Work& piece : work) piece();
  });
}

void HostDevice::FreeGraph(kernels::GraphId graph) {
  if (graphs_.erase(graph.id) == 0) memory_.Report("free of a graph that there is not");
}

}  // namespace skep::emulator
