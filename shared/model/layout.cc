#include "shared/model/layout.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "shared/base/bytes.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::model {
namespace {

constexpr std::size_t kMostTensors = 1024;
constexpr std::size_t kMostDimensions = 8;
constexpr std::size_t kLongestName = 64;
constexpr std::uint64_t kMostValues = std::uint64_t{1} << 34;

bool IsTensorName(const std::string& name) {
  if (name.empty() || name.size() > kLongestName) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == ':' || c == '-';
  });
}

bool IsInteger(DType type) {
  return type == DType::kI8 || type == DType::kI32 || type == DType::kI64;
}

Error Refuse(std::size_t index, const std::string& name, const std::string& reason) {
  const std::string shown = IsTensorName(name) ? " \"" + name + "\"" : "";
  return Error{1301, "tensor " + std::to_string(index + 1) + shown + ": " + reason, ""};
}

// The number of values of one tensor, or nothing above the limit: the product is never formed past
// it.
Result<std::uint64_t> CountWithinLimit(const TensorSpec& tensor, std::size_t index) {
  std::uint64_t count = 1;
  for (const std::uint32_t size : tensor.shape) {
    if (size == 0) return Refuse(index, tensor.name, "a dimension is 0");
    count *= size;
    if (count > kMostValues) return Refuse(index, tensor.name, "more than 2^34 values");
  }
  return count;
}

Status CheckTensor(const TensorSpec& tensor, std::size_t index) {
  if (!IsTensorName(tensor.name)) {
    return Refuse(index, tensor.name, "a name is 1 to 64 of the characters A-Z a-z 0-9 _ . / : -");
  }
  if (tensor.dtype < DType::kF32 || tensor.dtype > DType::kI64) {
    return Refuse(index, tensor.name, "unknown type of values");
  }
  if (tensor.role < Role::kAveraged || tensor.role > Role::kToServer) {
    return Refuse(index, tensor.name, "unknown role");
  }
  if (IsInteger(tensor.dtype) && tensor.role != Role::kPrivate) {
    return Refuse(index, tensor.name, "integers are never averaged: role 2, or none of the layout");
  }
  if (tensor.shape.size() > kMostDimensions) {
    return Refuse(index, tensor.name, "more than 8 dimensions");
  }
  return Ok();
}

Hash32 HashOf(const std::vector<TensorSpec>& tensors) {
  Bytes bytes;
  for (const TensorSpec& tensor : tensors) {
    AppendLittle(bytes, static_cast<std::uint16_t>(tensor.name.size()));
    Append(bytes, AsBytes(tensor.name));
    bytes.push_back(static_cast<std::uint8_t>(tensor.dtype));
    bytes.push_back(static_cast<std::uint8_t>(tensor.role));
    bytes.push_back(static_cast<std::uint8_t>(tensor.shape.size()));
    for (const std::uint32_t size : tensor.shape) AppendLittle(bytes, size);
  }
  return Sha256::Of(bytes);
}

}  // namespace

std::uint64_t TensorSpec::Count() const {
  std::uint64_t count = 1;
  for (const std::uint32_t size : shape) count *= size;
  return count;
}

Result<std::shared_ptr<const Layout>> Layout::Make(std::vector<TensorSpec> tensors) {
  if (tensors.empty()) return Error{1301, "the model has no parameters", ""};
  if (tensors.size() > kMostTensors) {
    return Error{1301, std::to_string(tensors.size()) + " tensors; at most 1024", ""};
  }
  const std::shared_ptr<Layout> layout(new Layout());
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    SKEP_TRY(CheckTensor(tensor, i));
    SKEP_ASSIGN(const std::uint64_t count, CountWithinLimit(tensor, i));
    if (!names.insert(tensor.name).second) {
      return Refuse(i, tensor.name, "another tensor has this name");
    }
    layout->offsets_.push_back(layout->values_);
    layout->values_ += count;
    if (layout->values_ > kMostValues) {
      return Refuse(i, tensor.name, "more than 2^34 values up to here");
    }
    const bool is_averaged = tensor.role == Role::kAveraged;
    if (is_averaged || tensor.role == Role::kToClient) layout->model_values_ += count;
    if (is_averaged || tensor.role == Role::kToServer) layout->update_values_ += count;
    if (tensor.role == Role::kPrivate) layout->private_values_ += count;
  }
  layout->hash_ = HashOf(tensors);
  layout->tensors_ = std::move(tensors);
  return std::shared_ptr<const Layout>(layout);
}

}  // namespace skep::model
