// idx files: arrays of images and labels as MNIST comes, plain or gzip.
//
// Knows the format and the usual names of the four files; what labels mean is the reader's. Files
// are not trusted: the size that a header claims is compared with the file before memory is taken.
// One thread. Source: docs/formats.md (idx); Y. LeCun's description of the MNIST files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace skep::data {

struct IdxArray {
  std::string path;
  std::vector<std::uint32_t> dimensions;  // 1 to 4, the first one counts rows
  bool is_integer = true;                 // what `numbers` holds
  std::vector<std::uint8_t> bytes;        // type u8
  std::vector<double> numbers;            // every other type
};

// SKEP-1201 unreadable; 1202 no idx file, another size than its header claims, a number that is not
// finite.
[[nodiscard]] Result<IdxArray> ReadIdx(const std::string& path);

// The two files of a part of a folder, by their usual names.
struct IdxFiles {
  std::string images;
  std::string labels;
};
// `part` is "train" or "t10k". Nothing if the folder holds neither file; SKEP-1201 if it holds only
// one of them.
[[nodiscard]] Result<std::optional<IdxFiles>> FindIdx(const std::string& folder,
                                                      const std::string& part);

}  // namespace skep::data
