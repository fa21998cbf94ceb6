// Philox4x32-10 for kernel bodies: the draws of shared/base/rng.h on a device.
//
// Source: Salmon et al. 2011.
#pragma once

#include <cstdint>

#include "kernels/body/device_ptr.h"

namespace skep::kernels::body {

// Replaces the counter by its block. `key` is 64 bits, low word first.
SKEP_HD inline void Philox(std::uint64_t key, std::uint32_t (&words)[4]) {
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * words[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * words[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(second >> 32U) ^ words[1] ^ low,
                                   static_cast<std::uint32_t>(second),
                                   static_cast<std::uint32_t>(first >> 32U) ^ words[3] ^ high,
                                   static_cast<std::uint32_t>(first)};
    for (int w = 0; w < 4; ++w) words[w] = next[w];
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
}

}  // namespace skep::kernels::body
