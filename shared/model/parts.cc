#include "shared/model/parts.h"

#include <algorithm>
#include <cstring>

#include "shared/base/check.h"

namespace skep::model {

bool IsIn(Part part, Role role) {
  switch (part) {
    case Part::kModel:
      return role == Role::kAveraged || role == Role::kToClient;
    case Part::kUpdate:
      return role == Role::kAveraged || role == Role::kToServer;
    case Part::kPrivate:
      return role == Role::kPrivate;
  }
  return false;
}

std::uint64_t ValuesOf(const Layout& layout, Part part) {
  switch (part) {
    case Part::kModel:
      return layout.model_values();
    case Part::kUpdate:
      return layout.update_values();
    case Part::kPrivate:
      return layout.private_values();
  }
  return 0;
}

Bytes TakePart(const Layout& layout, Part part, std::span<const float> all) {
  SKEP_CHECK(all.size() == layout.values());
  const std::uint64_t values = ValuesOf(layout, part);
  if (values == layout.values()) {
    const BytesView bytes = AsBytes(all);
    return {bytes.begin(), bytes.end()};
  }
  Bytes taken;
  taken.reserve(values * sizeof(float));
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (IsIn(part, tensor.role)) {
      Append(taken, AsBytes(all.subspan(layout.Offset(i), tensor.Count())));
    }
  }
  return taken;
}

void PutPart(const Layout& layout, Part part, BytesView bytes, std::span<float> all) {
  SKEP_CHECK(all.size() == layout.values());
  SKEP_CHECK(bytes.size() == ValuesOf(layout, part) * sizeof(float));
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (!IsIn(part, tensor.role)) continue;
    const std::span<float> to = all.subspan(layout.Offset(i), tensor.Count());
    std::memcpy(to.data(), bytes.data(), to.size_bytes());
    bytes = bytes.subspan(to.size_bytes());
  }
}

void FillPrivate(const Layout& layout, std::span<float> all) {
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (tensor.role != Role::kPrivate) continue;
    const std::span<float> values = all.subspan(layout.Offset(i), tensor.Count());
    std::fill(values.begin(), values.end(), tensor.initial);
  }
}

}  // namespace skep::model
