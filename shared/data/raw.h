// RawData: what a reader found, before anything is scaled. The step between files and a Dataset.
//
// Not seen outside this folder. Inputs are bytes (images) or doubles; a NaN among them is a missing
// number that normalising replaces by the mean. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/data/data_spec.h"

namespace skep::data {

struct RawPart {
  std::vector<std::uint32_t> input_shape;
  std::size_t rows = 0;
  std::size_t values = 0;                // per row
  std::vector<std::uint8_t> bytes;       // rows x values, or empty
  std::vector<double> numbers;           // rows x values, or empty
  std::uint32_t labels_per_row = 1;      // next_token: one a place of the sequence
  std::vector<std::int32_t> labels;      // class index, or kNoLabel
  std::vector<std::uint32_t> owner;      // index into owner_names, or empty
  std::vector<std::string> owner_names;  // in order of first appearance
  std::vector<std::string> owners_without_rows;
  // Rows of the source before any was dropped, and which of them each row is; empty: all, in order.
  std::size_t source_rows = 0;
  std::vector<std::uint32_t> source_row;
};

struct RawData {
  RawPart train;
  std::optional<RawPart> test;
  DataSpec spec;
  bool is_array = false;  // one feature for every value
  std::vector<std::string> notes;
};

// The rows `chosen`, in that order. Owners keep the order of their first appearance among them.
[[nodiscard]] RawPart TakeRows(const RawPart& part, const std::vector<std::uint32_t>& chosen);

// Gives each row the owner at its place in `owner_of_source_row`; owners of dropped rows only have
// no rows.
void AssignOwners(RawPart& part, const std::vector<std::string>& owner_of_source_row);

// data_sha256: training x, y, client, then test x_test, y_test, client_test. Each: name, NUL, type,
// NUL, u32 rank, u64 dimensions, little-endian bytes. Types: u1 and f8 (inputs as read, one-hot),
// i4 (class indices), str (names, each ended by NUL). Dimensions of inputs: rows and the input's
// shape; of labels: rows, and labels a row where they are not one. A missing number is the NaN with
// bits 0x7ff8000000000000.
[[nodiscard]] Hash32 HashOf(const RawData& data);

}  // namespace skep::data
