// LaunchEmulated: one launch of a kernel of the list, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/device_api.h"
#include "tests/emulator/block.h"

namespace skep::emulator {

// A launch whose arguments are its own.
struct KeptCall {
  std::uint32_t kernel = 0;
  kernels::Grid grid;
  std::vector<std::byte> args;
  bool ignores_syncs = false;  // a planted fault: sync() does nothing
};

// Blocks run one after the other, in an order that `seed` shuffles. Faults go to `memory`.
void LaunchEmulated(Mode mode, std::uint64_t seed, Memory& memory, const KeptCall& call);

[[nodiscard]] const char* KernelName(std::uint32_t kernel);

}  // namespace skep::emulator
