// safetensors files: models and checkpoints. Files are untrusted input.
//
// Writing is deterministic: same tensors and metadata, same bytes. Reading checks every size before it takes memory.
// Source: docs/formats.md; the safetensors format description (huggingface/safetensors).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/params.h"

namespace skep::model {

using Metadata = std::map<std::string, std::string>;

struct FileTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  Bytes bytes;  // row-major, little-endian
};

struct TensorFile {
  Metadata metadata;
  std::vector<FileTensor> tensors;
};

// The file's bytes: entries sorted by item size (descending), then name; header padded to a multiple of 8.
[[nodiscard]] Bytes EncodeTensorFile(const TensorFile& file);
// SKEP-1302 names what is wrong and where (offset or tensor).
[[nodiscard]] Result<TensorFile> DecodeTensorFile(BytesView bytes);

// All averaged tensors of `params` with `metadata`, written to a temporary name, synced and renamed. SKEP-4001.
[[nodiscard]] Status WriteModel(const std::string& path, const Params& params, const Metadata& metadata);
// Reads into `layout`: names and shapes must match (SKEP-1301 names the tensor); other tensors are an error.
[[nodiscard]] Result<Params> ReadModel(const std::string& path, LayoutPtr layout, Metadata* metadata = nullptr);

}  // namespace skep::model
