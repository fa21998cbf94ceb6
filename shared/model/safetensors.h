// safetensors files: models and checkpoints. Files are untrusted input.
//
// Writing is deterministic: same tensors and metadata, same bytes. Reading checks every size before
// it takes memory. Source: docs/formats.md; the safetensors format description
// (huggingface/safetensors).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/params.h"

namespace skep::model {

using Metadata = std::map<std::string, std::string>;

// Types of values that files may hold; a layout has fewer (DType).
enum class FileType { kF64, kI64, kF32, kI32, kF16, kBf16, kI16, kI8, kU8, kBool };

[[nodiscard]] std::uint64_t ItemSize(FileType type);  // bytes

struct FileTensor {
  std::string name;
  FileType dtype = FileType::kF32;
  std::vector<std::uint64_t> shape;
  Bytes bytes;  // row-major, little-endian
};

struct TensorFile {
  Metadata metadata;
  std::vector<FileTensor> tensors;
};

// The file's bytes: entries sorted by item size (descending), then name; header padded to a
// multiple of 8.
[[nodiscard]] Bytes EncodeTensorFile(const TensorFile& file);
// SKEP-1302 names what is wrong and where (offset or tensor).
[[nodiscard]] Result<TensorFile> DecodeTensorFile(BytesView bytes);

// A file with the tensors of a model of so many values. SKEP-1302, also where it is far larger.
[[nodiscard]] Result<TensorFile> ReadTensorFile(const std::string& path, std::uint64_t values);

// All averaged tensors of `params` with `metadata`, as a file's bytes.
[[nodiscard]] Bytes EncodeModel(const Params& params, const Metadata& metadata);
// The same, written to a temporary name, synced and renamed. SKEP-4001.
[[nodiscard]] Status WriteModel(const std::string& path, const Params& params,
                                const Metadata& metadata);
// Reads into the averaged tensors of `layout`: names and shapes must match, values must be finite
// (SKEP-1301 names the tensors). F64, F16 and BF16 are converted. Other tensors are an error,
// except integers (counters of foreign training programs): they are skipped and named in `notes`.
[[nodiscard]] Result<Params> ReadModel(const std::string& path, LayoutPtr layout,
                                       Metadata* metadata = nullptr,
                                       std::vector<std::string>* notes = nullptr);

}  // namespace skep::model
