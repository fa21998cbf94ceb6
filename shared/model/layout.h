// Layout: which tensors lie where in the one flat parameter vector, and who they travel to.
//
// Offsets are contiguous, layers in order, weight before bias; only the start of the vector is
// aligned. A Layout is immutable and shared. Source: Skep protocol 1.0, section 4 (TensorSpec,
// layout_sha256).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"

namespace skep::model {

enum class DType : std::uint32_t { kF32 = 1, kF16 = 2, kBf16 = 3, kI8 = 4, kI32 = 5, kI64 = 6 };

enum class Role : std::uint32_t {
  kAveraged = 1,
  kPrivate = 2,   // stays on the device
  kToClient = 3,  // travels with the model only
  kToServer = 4,  // travels with the update only
};

struct TensorSpec {
  std::string name;  // [A-Za-z0-9_./:-]{1,64}, distinct within a layout
  DType dtype = DType::kF32;
  std::vector<std::uint32_t> shape;  // up to 8 dimensions, each >= 1; none = one value
  Role role = Role::kAveraged;
  float initial = 0;  // kPrivate: what every value starts from, on every device

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
  [[nodiscard]] std::uint64_t Count() const;  // product of the dimensions
};

class Layout {
 public:
  // 1..1,024 tensors, at most 2^34 values in all; else SKEP-1301 naming the tensor.
  [[nodiscard]] static Result<std::shared_ptr<const Layout>> Make(std::vector<TensorSpec> tensors);

  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return tensors_; }
  [[nodiscard]] std::uint64_t Offset(std::size_t tensor) const { return offsets_[tensor]; }
  [[nodiscard]] std::uint64_t values() const { return values_; }
  // Values of the tensors that a device receives (roles 1, 3) and sends back (roles 1, 4).
  [[nodiscard]] std::uint64_t model_values() const { return model_values_; }
  [[nodiscard]] std::uint64_t update_values() const { return update_values_; }
  // Values of the tensors that stay on the device (role 2).
  [[nodiscard]] std::uint64_t private_values() const { return private_values_; }
  // SHA-256 over names, types, roles and shapes; what private tensors start from follows from
  // these.
  [[nodiscard]] const Hash32& hash() const { return hash_; }

 private:
  Layout() = default;
  std::vector<TensorSpec> tensors_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t values_ = 0;
  std::uint64_t model_values_ = 0;
  std::uint64_t update_values_ = 0;
  std::uint64_t private_values_ = 0;
  Hash32 hash_;
};

using LayoutPtr = std::shared_ptr<const Layout>;

}  // namespace skep::model
