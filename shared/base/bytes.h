// Byte buffers, little- and big-endian numbers, hexadecimal text, CRC32C.
//
// `ByteReader` is the one way to take numbers out of bytes that are not trusted: it cannot run past
// the end. Not thread-safe; views do not own what they look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skep {

using Bytes = std::vector<std::uint8_t>;
using BytesView = std::span<const std::uint8_t>;

inline BytesView AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline BytesView AsBytes(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}
inline std::string_view AsText(BytesView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Lower-case hexadecimal digits, two a byte.
[[nodiscard]] std::string ToHex(BytesView bytes);
// The bytes of `text`; nothing if it is not an even number of lower- or upper-case digits.
[[nodiscard]] std::optional<Bytes> FromHex(std::string_view text);

// CRC32C (Castagnoli, reflected, initial and final inversion): Crc32c("123456789") == 0xE3069283.
// `seed` continues an earlier result.
[[nodiscard]] std::uint32_t Crc32c(BytesView bytes, std::uint32_t seed = 0);

template <class T>
[[nodiscard]] T LoadLittle(const std::uint8_t* from) {
  T value{};
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | (static_cast<T>(from[i]) << (8 * i)));
  return value;
}
template <class T>
void StoreLittle(T value, std::uint8_t* to) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::uint8_t>(value >> (8 * i));
}
template <class T>
void AppendLittle(Bytes& to, T value) {
  const std::size_t at = to.size();
  to.resize(at + sizeof(T));
  StoreLittle(value, to.data() + at);
}
inline void Append(Bytes& to, BytesView from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Takes little-endian numbers from the front of bytes; each call gives nothing once too few are
// left.
class ByteReader {
 public:
  explicit ByteReader(BytesView bytes) : rest_(bytes) {}

  [[nodiscard]] std::size_t remaining() const { return rest_.size(); }
  template <class T>
  [[nodiscard]] std::optional<T> Little() {
    const auto taken = Take(sizeof(T));
    if (!taken) return std::nullopt;
    return LoadLittle<T>(taken->data());
  }
  [[nodiscard]] std::optional<BytesView> Take(std::size_t count) {
    if (count > rest_.size()) return std::nullopt;
    const BytesView taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

 private:
  BytesView rest_;
};

}  // namespace skep
