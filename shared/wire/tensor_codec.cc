#include "shared/wire/tensor_codec.h"

#include <bit>
#include <cstring>
#include <string>

#include "shared/base/try.h"

namespace skep::wire {
namespace {

constexpr std::uint64_t kBlock = 256;

Error WrongSize(std::uint64_t size, std::uint64_t values) {
  return Error{2101,
               "a body of " + std::to_string(size) + " bytes does not hold " +
                   std::to_string(values) + " values in this encoding",
               ""};
}

// Bytes as floats and back: the wire is little-endian.
static_assert(std::endian::native == std::endian::little);

}  // namespace

Result<std::uint64_t> BodySize(Encoding encoding, std::uint64_t values, std::uint64_t kept) {
  switch (encoding) {
    case Encoding::kF32:
      return 4 * values;
    case Encoding::kF16:
    case Encoding::kBf16:
      return 2 * values;
    case Encoding::kI8Block:
      return values + 4 * ((values + kBlock - 1) / kBlock);
    case Encoding::kTopK:
      if (kept < 1 || kept > values)
        return Error{2101, "a top-k body keeps at least one value and no more than there are", ""};
      return 4 + 8 * kept;
    default:
      return Error{2112, "encoding not allowed", ""};
  }
}

Status CheckBodySize(Encoding encoding, std::uint64_t values, std::uint64_t size) {
  if (encoding == Encoding::kTopK) {
    // k is what the size says.
    const bool holds = size >= 12 && (size - 4) % 8 == 0 && (size - 4) / 8 <= values;
    if (!holds) return WrongSize(size, values);
    return Ok();
  }
  SKEP_ASSIGN(const std::uint64_t expected, BodySize(encoding, values));
  if (size != expected) return WrongSize(size, values);
  return Ok();
}

Bytes EncodeF32(std::span<const float> values) {
  const BytesView bytes = AsBytes(values);
  return {bytes.begin(), bytes.end()};
}

Status DecodeF32(BytesView body, std::span<float> values) {
  if (body.size() != values.size_bytes()) return WrongSize(body.size(), values.size());
  if (!body.empty()) std::memcpy(values.data(), body.data(), body.size());
  return Ok();
}

}  // namespace skep::wire
