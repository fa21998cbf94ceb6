// Arena: the memory of one user of a device, within a stated budget.
//
// Buffers are allocated when a network is made and freed together with the arena; a step allocates
// nothing. One thread. Errors: SKEP-1401 (the budget does not suffice; says how much is asked for),
// those of DeviceApi.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/device_api.h"

namespace skep::kernels {

class Arena {
 public:
  Arena(DeviceApi& device, std::uint64_t budget_bytes) : device_(&device), budget_(budget_bytes) {}
  // Only counts: nothing is allocated, and what it gives may not be used.
  Arena() : device_(nullptr), budget_(UINT64_MAX) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Contents are arbitrary. `what` names the buffer in errors.
  template <class T>
  [[nodiscard]] Result<DevicePtr<T>> Make(std::uint64_t count, const char* what) {
    Result<std::uint64_t> address = Take(count * sizeof(T), what);
    if (!address) return std::move(address).error();
    return DevicePtr<T>{*address};
  }

  [[nodiscard]] std::uint64_t used_bytes() const { return used_; }
  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_; }

 private:
  [[nodiscard]] Result<std::uint64_t> Take(std::uint64_t bytes, const char* what);

  DeviceApi* device_;
  std::uint64_t budget_;
  std::uint64_t used_ = 0;
  std::vector<std::uint64_t> addresses_;
};

}  // namespace skep::kernels
