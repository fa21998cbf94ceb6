// The plan as it travels: what a device must do for a task.
//
// Names, numbers and lists as the protocol has them, well formed but not yet understood: the layout
// is not a model::Layout, the parameters are not yet a trainer's. Plain values, no thread rules.
// Source: Skep protocol 1.0, section 4 (Plan).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace skep::wire {

// Values are those of model::DType and model::Role, which this layer cannot name.
enum class TensorType : std::uint32_t {
  kF32 = 1,
  kF16 = 2,
  kBf16 = 3,
  kI8 = 4,
  kI32 = 5,
  kI64 = 6,
};
enum class TensorRole : std::uint32_t { kAveraged = 1, kPrivate = 2, kToClient = 3, kToServer = 4 };

struct TensorSpec {
  std::string name{};
  TensorType dtype = TensorType::kF32;
  std::vector<std::uint32_t> shape{};  // none = one value
  TensorRole role = TensorRole::kAveraged;

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// One setting of the trainer: a number, or a text.
struct Param {
  std::string key{};
  double number = 0;
  std::string text{};

  friend bool operator==(const Param&, const Param&) = default;
};

enum class DataTask : std::uint32_t { kClassification = 1, kRegression = 2, kNextToken = 3 };
enum class FeatureKind : std::uint32_t { kNumeric = 1, kCategorical = 2 };

struct Feature {
  std::string name{};
  FeatureKind kind = FeatureKind::kNumeric;
  double offset = 0;
  double scale = 1;  // 0 on the wire, or absent, is 1
  std::vector<std::string> categories{};

  friend bool operator==(const Feature&, const Feature&) = default;
};

struct DataSpec {
  DataTask task = DataTask::kClassification;
  std::vector<Feature> features{};
  std::vector<std::string> classes{};
  std::string label{};

  friend bool operator==(const DataSpec&, const DataSpec&) = default;
};

// What a device must do. The layout it lists is not yet a model::Layout.
struct Plan {
  std::uint32_t schema = 1;
  std::vector<TensorSpec> layout{};
  std::vector<Param> params{};
  std::vector<std::string> metrics{};
  std::optional<DataSpec> data{};

  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace skep::wire
