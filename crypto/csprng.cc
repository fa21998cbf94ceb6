#include "crypto/csprng.h"

#include <openssl/rand.h>

#include <array>
#include <limits>

#include "crypto/openssl.h"
#include "shared/base/bytes.h"

namespace skep::crypto {

Status FillRandom(std::span<std::uint8_t> bytes) {
  constexpr std::size_t kAtOnce = std::numeric_limits<int>::max();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kAtOnce);
    if (RAND_bytes(bytes.data(), static_cast<int>(count)) != 1) {
      return OpenSslError(9001, "no random bytes");
    }
    bytes = bytes.subspan(count);
  }
  return Ok();
}

Result<std::uint64_t> RandomBelow(std::uint64_t n) {
  // Values of the last, incomplete block of n would make small results more likely.
  const std::uint64_t incomplete = (std::numeric_limits<std::uint64_t>::max() % n + 1) % n;
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max() - incomplete;
  std::array<std::uint8_t, 8> bytes{};
  for (;;) {
    SKEP_TRY(FillRandom(bytes));
    const auto value = LoadLittle<std::uint64_t>(bytes.data());
    if (value <= last) return value % n;
  }
}

}  // namespace skep::crypto
