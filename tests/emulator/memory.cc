#include "tests/emulator/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace skep::emulator {
namespace {

// No host address has this bit on the machines that tests run on.
constexpr std::uint64_t kMark = std::uint64_t{1} << 62U;
constexpr std::size_t kMostFaults = 20;

}  // namespace

std::uint64_t Memory::Allocate(std::size_t bytes) {
  Block block{std::make_unique<std::byte[]>(bytes), bytes};
  std::memset(block.bytes.get(), 0xFF, bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(block.bytes.get()) | kMark;
  blocks_.emplace(address, std::move(block));
  return address;
}

void Memory::Free(std::uint64_t address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) {
    Report(fmt::format("free of {:#x}, which is no live allocation", address));
    return;
  }
  std::memset(found->second.bytes.get(), 0xFF, found->second.size);
  blocks_.erase(found);
}

void* Memory::Open(std::uint64_t address, std::size_t bytes, const char* who) {
  if ((address & kMark) == 0) {
    Report(fmt::format("{}: {:#x} is no device address", who, address));
    return nullptr;
  }
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) {
    Report(fmt::format("{}: {:#x} lies in no live allocation", who, address));
    return nullptr;
  }
  const auto& [start, block] = *--after;
  const std::uint64_t offset = address - start;
  if (offset + bytes > block.size) {
    Report(fmt::format("{}: {} bytes at {} of an allocation of {}, or of one that was freed", who,
                       bytes, offset, block.size));
    return nullptr;
  }
  return block.bytes.get() + offset;
}

void Memory::Report(std::string fault) {
  const std::lock_guard lock(mutex_);
  if (faults_.size() < kMostFaults) faults_.push_back(std::move(fault));
}

std::vector<std::string> Memory::TakeFaults() {
  const std::lock_guard lock(mutex_);
  return std::exchange(faults_, {});
}

std::uint64_t Memory::live_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [address, block] : blocks_) sum += block.size;
  return sum;
}

}  // namespace skep::emulator
