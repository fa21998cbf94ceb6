#include "shared/data/idx.h"

#include <array>
#include <bit>
#include <cmath>
#include <filesystem>

#include "shared/base/try.h"
#include "shared/data/byte_source.h"

namespace skep::data {
namespace {

constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kDimensionBytes = 4;
constexpr std::size_t kMostDimensions = 4;

enum class IdxType : std::uint8_t { kU8 = 8, kI8 = 9, kI16 = 11, kI32 = 12, kF32 = 13, kF64 = 14 };

// Bytes of one value; 0 for a type that the format does not have.
std::size_t ItemSize(IdxType type) {
  switch (type) {
    case IdxType::kU8:
    case IdxType::kI8:
      return 1;
    case IdxType::kI16:
      return 2;
    case IdxType::kI32:
    case IdxType::kF32:
      return 4;
    case IdxType::kF64:
      return 8;
  }
  return 0;
}

std::uint64_t LoadBig(const std::uint8_t* from, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = (value << 8) | from[i];
  return value;
}

double NumberAt(IdxType type, const std::uint8_t* from) {
  const std::uint64_t bits = LoadBig(from, ItemSize(type));
  switch (type) {
    case IdxType::kU8:
      return static_cast<double>(bits);
    case IdxType::kI8:
      return static_cast<std::int8_t>(bits);
    case IdxType::kI16:
      return static_cast<std::int16_t>(bits);
    case IdxType::kI32:
      return static_cast<std::int32_t>(bits);
    case IdxType::kF32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case IdxType::kF64:
      return std::bit_cast<double>(bits);
  }
  return 0;
}

Error Malformed(const std::string& path, const std::string& reason) {
  return Error{1202, path + ": " + reason, ""};
}

Status ReadExactly(ByteSource& source, std::span<std::uint8_t> to, const std::string& what) {
  SKEP_ASSIGN(const std::size_t count, source.Read(to));
  if (count == to.size()) return Ok();
  return Malformed(source.path(), "ends after " + std::to_string(count) + " of the " +
                                      std::to_string(to.size()) + " bytes of " + what);
}

struct IdxHeader {
  IdxType type = IdxType::kU8;
  std::vector<std::uint32_t> dimensions;
  std::uint64_t data_bytes = 0;
};

Result<IdxHeader> ReadHeader(ByteSource& source) {
  std::array<std::uint8_t, kMagicBytes> magic{};
  SKEP_TRY(ReadExactly(source, magic, "its magic number"));
  IdxHeader header{.type = static_cast<IdxType>(magic[2]), .dimensions = {}};
  if (magic[0] != 0 || magic[1] != 0 || ItemSize(header.type) == 0) {
    return Malformed(source.path(), "no idx file: it starts with " + ToHex(magic));
  }
  if (magic[3] < 1 || magic[3] > kMostDimensions) {
    return Malformed(source.path(), std::to_string(magic[3]) + " dimensions; 1 to 4 are read");
  }
  header.data_bytes = ItemSize(header.type);
  for (int i = 0; i < magic[3]; ++i) {
    std::array<std::uint8_t, kDimensionBytes> size{};
    SKEP_TRY(ReadExactly(source, size, "dimension " + std::to_string(i + 1)));
    header.dimensions.push_back(static_cast<std::uint32_t>(LoadBig(size.data(), size.size())));
    if (header.dimensions.back() == 0) return Malformed(source.path(), "a dimension is 0");
    if (__builtin_mul_overflow(header.data_bytes, header.dimensions.back(), &header.data_bytes)) {
      return Malformed(source.path(), "its dimensions do not fit 64 bits");
    }
  }
  return header;
}

Status TakeNumbers(IdxArray& array, IdxType type, const std::vector<std::uint8_t>& raw) {
  const std::size_t item = ItemSize(type);
  array.is_integer = type != IdxType::kF32 && type != IdxType::kF64;
  array.numbers.resize(raw.size() / item);
  for (std::size_t i = 0; i < array.numbers.size(); ++i) {
    array.numbers[i] = NumberAt(type, raw.data() + i * item);
    if (!std::isfinite(array.numbers[i])) {
      return Malformed(array.path, "value " + std::to_string(i) + " is not finite");
    }
  }
  return Ok();
}

}  // namespace

Result<IdxArray> ReadIdx(const std::string& path) {
  SKEP_ASSIGN(ByteSource source, ByteSource::Open(path));
  SKEP_ASSIGN(IdxHeader header, ReadHeader(source));
  if (header.data_bytes > source.most_bytes()) {
    return Malformed(path, "claims " + std::to_string(header.data_bytes) +
                               " bytes of data; the file cannot hold them");
  }
  std::vector<std::uint8_t> raw(header.data_bytes);
  SKEP_TRY(ReadExactly(source, raw, "its data"));
  std::array<std::uint8_t, 1> extra{};
  SKEP_ASSIGN(const std::size_t after, source.Read(extra));
  if (after != 0) return Malformed(path, "goes on after its data");

  IdxArray array;
  array.path = path;
  array.dimensions = std::move(header.dimensions);
  if (header.type == IdxType::kU8) {
    array.bytes = std::move(raw);
  } else {
    SKEP_TRY(TakeNumbers(array, header.type, raw));
  }
  return array;
}

Result<std::optional<IdxFiles>> FindIdx(const std::string& folder, const std::string& part) {
  const auto find = [&](const std::string& name) {
    std::error_code ignored;
    std::string path = folder + "/" + part + name;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
    path += ".gz";
    return std::filesystem::is_regular_file(path, ignored) ? path : std::string();
  };
  IdxFiles files{find("-images-idx3-ubyte"), find("-labels-idx1-ubyte")};
  if (files.images.empty() && files.labels.empty()) return std::optional<IdxFiles>();
  if (files.images.empty() || files.labels.empty()) {
    return Error{1201,
                 folder + ": " + part + (files.images.empty() ? "-images-idx3" : "-labels-idx1") +
                     "-ubyte is missing beside its partner",
                 ""};
  }
  return std::optional<IdxFiles>(std::move(files));
}

}  // namespace skep::data
