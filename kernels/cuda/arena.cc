#include "kernels/cuda/arena.h"

#include <string>

namespace skep::kernels {

Arena::~Arena() {
  for (const std::uint64_t address : addresses_) device_->Free(address);
}

Result<std::uint64_t> Arena::Take(std::uint64_t bytes, const char* what) {
  if (bytes > budget_ - used_) {
    return Error{1401,
                 "device memory: " + std::string(what) + " needs " + std::to_string(bytes) +
                     " bytes, " + std::to_string(budget_ - used_) + " of the budget of " +
                     std::to_string(budget_) + " are left",
                 "fewer lanes, a smaller batch, or a larger budget"};
  }
  used_ += bytes;
  if (device_ == nullptr) return std::uint64_t{0};
  Result<std::uint64_t> address = device_->Allocate(bytes);
  if (address) addresses_.push_back(*address);
  return address;
}

}  // namespace skep::kernels
