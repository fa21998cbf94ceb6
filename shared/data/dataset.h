// Dataset: examples in memory, read once, shared read-only by all clients of a simulation.
//
// Images stay bytes (one byte a value); tables are floats, already scaled and one-hot. A client is
// a list of row numbers, never a copy. Reading is single-threaded; a finished Dataset may be read
// from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/data/data_spec.h"

namespace skep::data {

// The label of a place that does not count.
inline constexpr std::int32_t kNoLabel = -1;

class Dataset {
 public:
  std::vector<std::uint32_t> input_shape;  // {784}, {1, 28, 28}, {13}
  std::size_t rows = 0;
  std::size_t values = 0;           // per row: product of input_shape
  std::vector<std::uint8_t> bytes;  // rows x values, or empty
  std::vector<float> floats;  // rows x values, or empty; exactly one of the two holds the inputs
  // Inputs from bytes: float((byte - byte_offset) / byte_scale).
  double byte_offset = 0;
  double byte_scale = 1;
  std::uint32_t labels_per_row = 1;      // next_token: one a place of the sequence
  std::vector<std::int32_t> labels;      // rows x labels_per_row class indices; -1: does not count
  std::vector<std::uint32_t> owner;      // index into owner_names per row, or empty without owners
  std::vector<std::string> owner_names;  // in order of first appearance
  std::vector<std::string>
      owners_without_rows;  // named in the data, but no row of theirs is usable

  [[nodiscard]] std::span<const std::int32_t> LabelsOf(std::size_t row) const {
    return {labels.data() + row * labels_per_row, labels_per_row};
  }

  // Copies the inputs of `chosen` rows to `x` (chosen.size() x values, row-major) and their labels
  // to `y` (chosen.size() x labels_per_row).
  void Gather(std::span<const std::uint32_t> chosen, float* x, std::int32_t* y) const;
};

// What reading a data source yields. Train and test share the specification.
struct LoadedData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;  // null without a test part
  DataSpec spec;
  Hash32 hash;                     // data_sha256 of docs/formats.md, before normalisation
  std::vector<std::string> notes;  // warnings for the user, complete sentences
};

}  // namespace skep::data
