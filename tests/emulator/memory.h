// Memory: what a fake device has allocated, and which addresses may be opened.
//
// A device address is a host address with a mark that makes it unusable on the host; opening one
// checks the mark and that the range lies in one live allocation. Faults are collected, not thrown:
// kernels run on other threads. Thread-safe: Open and Report; the rest is for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace skep::emulator {

class Memory {
 public:
  // Filled with 0xFF: NaN as a float, -1 as an integer.
  [[nodiscard]] std::uint64_t Allocate(std::size_t bytes);
  // A fault if it is not the start of a live allocation.
  void Free(std::uint64_t address);

  // Host address of `bytes` at `address`, or null and a fault.
  [[nodiscard]] void* Open(std::uint64_t address, std::size_t bytes, const char* who);

  void Report(std::string fault);
  // What was reported since the last call.
  [[nodiscard]] std::vector<std::string> TakeFaults();
  [[nodiscard]] std::size_t live() const { return blocks_.size(); }
  [[nodiscard]] std::uint64_t live_bytes() const;

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  std::map<std::uint64_t, Block> blocks_;  // by address
  std::mutex mutex_;                       // of faults_
  std::vector<std::string> faults_;
};

}  // namespace skep::emulator
