// Identifiers and hashes as distinct types, so that a run cannot be passed for a device.
//
// All are plain arrays of bytes with comparison and hexadecimal text. Source: Skep protocol 1.0,
// section 1.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "shared/base/bytes.h"

namespace skep {

template <std::size_t kSize, class Tag>
struct FixedBytes {
  static constexpr std::size_t kBytes = kSize;
  std::array<std::uint8_t, kSize> bytes{};

  friend auto operator<=>(const FixedBytes&, const FixedBytes&) = default;

  [[nodiscard]] BytesView view() const { return bytes; }
  [[nodiscard]] std::string Hex() const { return ToHex(bytes); }
  [[nodiscard]] bool IsZero() const {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
  }

  // Nothing unless `from` has exactly kSize bytes.
  [[nodiscard]] static std::optional<FixedBytes> From(BytesView from) {
    if (from.size() != kSize) return std::nullopt;
    FixedBytes id;
    std::copy(from.begin(), from.end(), id.bytes.begin());
    return id;
  }
  [[nodiscard]] static std::optional<FixedBytes> FromHexText(std::string_view text) {
    const auto bytes = FromHex(text);
    return bytes ? From(*bytes) : std::nullopt;
  }
};

using FederationId = FixedBytes<16, struct FederationTag>;
using DeviceId = FixedBytes<16, struct DeviceTag>;
using RunId = FixedBytes<16, struct RunTag>;
using UpdateId = FixedBytes<16, struct UpdateTag>;
using SessionId = FixedBytes<8, struct SessionTag>;
using KeyId = FixedBytes<8, struct KeyTag>;      // first 8 bytes of SHA-256 of a public signing key
using TokenId = FixedBytes<8, struct TokenTag>;  // shown in lists and logs in place of the secret
using Hash32 = FixedBytes<32, struct HashTag>;   // SHA-256
using Seed32 = FixedBytes<32, struct SeedTag>;   // round_seed

// Number of a client within its population, from 0; orders cohorts and sums.
using ClientNumber = std::uint32_t;

}  // namespace skep

template <std::size_t kSize, class Tag>
struct std::hash<skep::FixedBytes<kSize, Tag>> {
  std::size_t operator()(const skep::FixedBytes<kSize, Tag>& id) const {
    return std::hash<std::string_view>{}(skep::AsText(id.view()));
  }
};
