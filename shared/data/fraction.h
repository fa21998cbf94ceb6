// A count times a fraction, in integers: the fraction is first rounded to 1e-6.
//
// Source: Skep protocol 1.0, section 1.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace skep::data {

// floor(count x fraction), fraction in [0, 1].
[[nodiscard]] inline std::size_t FloorOf(std::size_t count, double fraction) {
  constexpr std::uint64_t kParts = 1000000;
  const auto parts =
      static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(kParts)));
  return count / kParts * parts + count % kParts * parts / kParts;
}

}  // namespace skep::data
