#include "shared/model/safetensors.h"

#include <algorithm>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/model/safetensors_header.h"
#include "shared/model/tensor_values.h"

namespace skep::model {
namespace {

constexpr std::size_t kSizeField = 8;
constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kLongestHeader = 100000000;
constexpr std::uint64_t kSpareBytes = std::uint64_t{1} << 20;  // integers of foreign files
constexpr std::uint64_t kLargestItem = 8;

void AppendQuoted(std::string& to, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  to += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      to += '\\';
      to += c;
    } else if (byte < 0x20) {
      to += "\\u00";
      to += kHex[byte >> 4];
      to += kHex[byte & 15];
    } else {
      to += c;
    }
  }
  to += '"';
}

std::string MetadataJson(const Metadata& metadata) {
  std::string text = "\"__metadata__\":{";
  bool is_first = true;
  for (const auto& [key, value] : metadata) {
    if (!is_first) text += ',';
    is_first = false;
    AppendQuoted(text, key);
    text += ':';
    AppendQuoted(text, value);
  }
  return text + '}';
}

std::string EntryJson(const FileTensor& tensor, std::uint64_t begin) {
  std::string text;
  AppendQuoted(text, tensor.name);
  text += ":{\"dtype\":\"" + std::string(TypeName(tensor.dtype)) + "\",\"shape\":[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
  }
  return text + "],\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(begin + tensor.bytes.size()) + "]}";
}

std::vector<const FileTensor*> InFileOrder(const std::vector<FileTensor>& tensors) {
  std::vector<const FileTensor*> sorted;
  sorted.reserve(tensors.size());
  for (const FileTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const FileTensor* a, const FileTensor* b) {
    const std::uint64_t size_a = ItemSize(a->dtype);
    const std::uint64_t size_b = ItemSize(b->dtype);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return sorted;
}

}  // namespace

std::uint64_t ItemSize(FileType type) {
  switch (type) {
    case FileType::kF64:
    case FileType::kI64:
      return 8;
    case FileType::kF32:
    case FileType::kI32:
      return 4;
    case FileType::kF16:
    case FileType::kBf16:
    case FileType::kI16:
      return 2;
    default:
      return 1;
  }
}

Bytes EncodeTensorFile(const TensorFile& file) {
  const std::vector<const FileTensor*> sorted = InFileOrder(file.tensors);
  std::string header = "{";
  if (!file.metadata.empty()) header += MetadataJson(file.metadata);
  std::uint64_t at = 0;
  for (const FileTensor* tensor : sorted) {
    if (header.size() > 1) header += ',';
    header += EntryJson(*tensor, at);
    at += tensor->bytes.size();
  }
  header += '}';
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');

  Bytes bytes;
  bytes.reserve(kSizeField + header.size() + at);
  AppendLittle(bytes, std::uint64_t{header.size()});
  Append(bytes, AsBytes(header));
  for (const FileTensor* tensor : sorted) Append(bytes, tensor->bytes);
  return bytes;
}

Result<TensorFile> DecodeTensorFile(BytesView bytes) {
  ByteReader reader(bytes);
  const auto size = reader.Little<std::uint64_t>();
  if (!size) return Error{1302, "shorter than the 8 bytes of a header size", ""};
  if (*size < 2 || *size > kLongestHeader || *size > reader.remaining()) {
    return Error{1302,
                 "header of " + std::to_string(*size) + " bytes at offset 8; 2 to 100000000 and " +
                     std::to_string(reader.remaining()) + " are there",
                 ""};
  }
  const std::string_view text = AsText(*reader.Take(*size));
  SKEP_ASSIGN(Header header, ParseHeader(text, reader.remaining()));
  const BytesView buffer = *reader.Take(reader.remaining());
  TensorFile file{.metadata = std::move(header.metadata), .tensors = {}};
  for (HeaderEntry& entry : header.entries) {
    const BytesView range = buffer.subspan(entry.begin, entry.end - entry.begin);
    file.tensors.push_back({.name = std::move(entry.name),
                            .dtype = entry.dtype,
                            .shape = std::move(entry.shape),
                            .bytes = Bytes(range.begin(), range.end())});
  }
  return file;
}

Bytes EncodeModel(const Params& params, const Metadata& metadata) {
  TensorFile file{.metadata = metadata, .tensors = {}};
  const std::vector<TensorSpec>& specs = params.layout()->tensors();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].role != Role::kAveraged) continue;
    const BytesView bytes = AsBytes(params.Tensor(i));
    file.tensors.push_back({.name = specs[i].name,
                            .shape = {specs[i].shape.begin(), specs[i].shape.end()},
                            .bytes = Bytes(bytes.begin(), bytes.end())});
  }
  return EncodeTensorFile(file);
}

Status WriteModel(const std::string& path, const Params& params, const Metadata& metadata) {
  return WriteFileAtomically(path, EncodeModel(params, metadata));
}

Result<TensorFile> ReadTensorFile(const std::string& path, std::uint64_t values) {
  const std::uint64_t limit = kSizeField + kLongestHeader + values * kLargestItem + kSpareBytes;
  SKEP_ASSIGN(const Bytes bytes, ReadFile(path, limit, 1302));
  auto file = DecodeTensorFile(bytes);
  if (!file) return std::move(file).error().Within(path);
  return file;
}

Result<Params> ReadModel(const std::string& path, LayoutPtr layout, Metadata* metadata,
                         std::vector<std::string>* notes) {
  SKEP_ASSIGN(TensorFile file, ReadTensorFile(path, layout->values()));
  Params params(std::move(layout));
  if (auto filled = FillByName(file, params, notes); !filled) {
    return std::move(filled).error().Within(path);
  }
  if (metadata != nullptr) *metadata = std::move(file.metadata);
  return params;
}

}  // namespace skep::model
