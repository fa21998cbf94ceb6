// DataSpec: what the inputs and classes of a model mean. It travels in the plan, so that two sites
// cannot number their labels differently.
//
// Plain values; matching is by name. Source: Skep protocol 1.0, section 4 (DataSpec).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace skep::data {

enum class Task : std::uint32_t { kClassification = 1, kRegression = 2, kNextToken = 3 };

struct Feature {
  std::string name;
  bool is_categorical = false;
  double offset = 0;  // numeric: input = float((x - offset) / scale)
  double scale = 1;
  std::vector<std::string> categories;  // categorical: one-hot in this order

  friend bool operator==(const Feature&, const Feature&) = default;
};

struct DataSpec {
  Task task = Task::kClassification;
  // In input order. Inputs without names (images): one numeric feature "x" that stands for every
  // value.
  std::vector<Feature> features;
  std::vector<std::string> classes;  // by index
  std::string label;                 // name of the label column, or empty

  friend bool operator==(const DataSpec&, const DataSpec&) = default;
  // Width of one example: 1 per numeric feature, the number of categories per categorical one. For
  // an unnamed input `x`, 0.
  [[nodiscard]] std::uint32_t InputValues() const;
  [[nodiscard]] bool IsUnnamedArray() const;  // the single feature "x"
};

// A name of a column or class: 1..64 bytes of UTF-8 without control characters and without white
// space at either end.
[[nodiscard]] bool IsLabel(std::string_view text);

// The section [data] that states this specification (features, classes, categories, scaling), ready
// to paste into a configuration.
[[nodiscard]] std::string DataSpecToml(const DataSpec& spec);

}  // namespace skep::data
