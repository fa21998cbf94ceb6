// The JSON header of a safetensors file: what the format's rules demand of it, read as a stream.
//
// Knows names, types, shapes and ranges; the bytes themselves are read by safetensors.cc, its only
// caller. Source: docs/formats.md; the safetensors format description (huggingface/safetensors).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/safetensors.h"

namespace skep::model {

struct HeaderEntry {
  std::string name;
  FileType dtype = FileType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // range within the buffer
  std::uint64_t end = 0;
};

struct Header {
  Metadata metadata;
  std::vector<HeaderEntry> entries;  // in the file's order
};

// `json` starts with '{' and may end in spaces. SKEP-1302: no valid UTF-8 JSON, duplicate keys,
// unknown or missing keys, an unknown type, a range that is not its shape's size, ranges that do
// not cover `buffer_size` bytes exactly.
[[nodiscard]] Result<Header> ParseHeader(std::string_view json, std::uint64_t buffer_size);

[[nodiscard]] std::string_view TypeName(FileType type);

}  // namespace skep::model
