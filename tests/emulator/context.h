// EmulatedContext: what a kernel body sees of the device when it runs on the host.
//
// See kernels/body/kernel.h. One per emulated thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/body/kernel.h"
#include "kernels/cuda/device_api.h"
#include "tests/emulator/block.h"

namespace skep::emulator {

class EmulatedContext {
 public:
  // What the threads of a block share.
  struct Shared {
    Memory& memory;
    const char* kernel;
    kernels::Grid grid;
    std::uint32_t block_x;
    std::uint32_t block_y;
    std::byte* bytes;            // grid.shared_bytes of them
    std::uint64_t* exchange;     // one a thread, for shuffles
    bool ignores_syncs = false;  // a planted fault
  };

  EmulatedContext(Shared& shared, Block* block, std::uint32_t thread)
      : shared_(shared), block_(block), thread_(thread) {}

  [[nodiscard]] std::uint32_t thread() const { return thread_; }
  [[nodiscard]] std::uint32_t block_x() const { return shared_.block_x; }
  [[nodiscard]] std::uint32_t block_y() const { return shared_.block_y; }
  [[nodiscard]] std::uint32_t block_threads() const { return shared_.grid.block_threads; }
  [[nodiscard]] std::uint32_t blocks_x() const { return shared_.grid.x; }
  [[nodiscard]] std::uint64_t global_index() const {
    return std::uint64_t{block_x()} * block_threads() + thread_;
  }
  [[nodiscard]] std::uint64_t grid_threads() const {
    return std::uint64_t{blocks_x()} * block_threads();
  }

  template <class T>
  [[nodiscard]] T* memory(kernels::DevicePtr<T> at) {
    if (at.IsNull()) return nullptr;
    return static_cast<T*>(shared_.memory.Open(at.address, sizeof(T), shared_.kernel));
  }
  template <class T>
  [[nodiscard]] T* shared() {
    return reinterpret_cast<T*>(shared_.bytes);
  }

  void sync() {
    if (block_ == nullptr) return Misuse("sync()");
    if (shared_.ignores_syncs) return;
    block_->WaitForBlock(thread_);
  }
  // The value of the thread `distance` further in the same 32; one's own where there is none.
  template <class T>
  [[nodiscard]] T shuffle_down(T value, std::uint32_t distance) {
    if (block_ == nullptr) {
      Misuse("shuffle_down()");
      return value;
    }
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::memcpy(&shared_.exchange[thread_], &value, sizeof value);
    block_->WaitForWarp(thread_);
    const std::uint32_t from = thread_ + distance;
    const bool is_there = from / kWarp == thread_ / kWarp && from < block_threads();
    T result = value;
    if (is_there) std::memcpy(&result, &shared_.exchange[from], sizeof result);
    block_->WaitForWarp(thread_);
    return result;
  }
  // Whether `is` of one of the same 32.
  [[nodiscard]] bool any(bool is) {
    bool found = is;
    for (std::uint32_t distance = kWarp / 2; distance > 0; distance /= 2) {
      const bool other = shuffle_down(found, distance);
      found = found || other;
    }
    return Broadcast(found);
  }

  // Integers only: their sum does not depend on the order.
  template <class T>
  T atomic_add(T* at, T value) {
    static_assert(std::is_integral_v<T>);
    return std::atomic_ref<T>(*at).fetch_add(value, std::memory_order_relaxed);
  }
  template <class T>
  T atomic_max(T* at, T value) {
    static_assert(std::is_integral_v<T>);
    std::atomic_ref<T> target(*at);
    T before = target.load(std::memory_order_relaxed);
    while (before < value && !target.compare_exchange_weak(before, value)) {
    }
    return before;
  }

 private:
  bool Broadcast(bool value) {
    if (block_ == nullptr) return value;
    const std::uint32_t first = thread_ / kWarp * kWarp;
    if (thread_ == first) shared_.exchange[first] = value ? 1 : 0;
    block_->WaitForWarp(thread_);
    const bool result = shared_.exchange[first] != 0;
    block_->WaitForWarp(thread_);
    return result;
  }
  void Misuse(const char* call) {
    shared_.memory.Report(std::string(shared_.kernel) + " calls " + call +
                          " but says kSynchronises = false");
  }

  Shared& shared_;
  Block* block_;
  std::uint32_t thread_;
};

}  // namespace skep::emulator
