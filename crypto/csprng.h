// Unpredictable bytes from OpenSSL's generator: ids, tokens, serial numbers, keys, waiting times of
// real devices.
//
// Never for draws that must repeat: those come from shared/base/rng.h. A failure of the generator
// is an error (SKEP-9001), never a weaker source. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "shared/base/result.h"
#include "shared/base/try.h"

namespace skep::crypto {

[[nodiscard]] Status FillRandom(std::span<std::uint8_t> bytes);

// A FixedBytes of ids.h: RandomId<DeviceId>().
template <class Id>
[[nodiscard]] Result<Id> RandomId() {
  Id id;
  SKEP_TRY(FillRandom(id.bytes));
  return id;
}

// [0, n) without bias; n >= 1.
[[nodiscard]] Result<std::uint64_t> RandomBelow(std::uint64_t n);

}  // namespace skep::crypto
