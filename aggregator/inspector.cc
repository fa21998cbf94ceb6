#include "aggregator/inspector.h"

#include <cstring>
#include <span>

#include <fmt/format.h>

#include "kernels/vector_ops.h"
#include "shared/model/params.h"

namespace skep::aggregator {
namespace {

// The bytes as floats: in place where they are aligned for it, as they are in practice; else a
// copy.
std::span<const float> AsFloats(BytesView body, model::FloatVector& copy) {
  const std::size_t count = body.size() / sizeof(float);
  if (reinterpret_cast<std::uintptr_t>(body.data()) % alignof(float) == 0) {
    return {reinterpret_cast<const float*>(body.data()), count};
  }
  copy.resize(count);
  std::memcpy(copy.data(), body.data(), count * sizeof(float));
  return copy;
}

// "fc1.weight" (12 of 156,800, first 4,711): where in the update the values that are not finite
// lie.
std::string DescribeNotFinite(std::span<const float> update, const model::Layout& layout) {
  std::size_t offset = 0;
  for (const model::TensorSpec& tensor : layout.tensors()) {
    if (tensor.role != model::Role::kAveraged && tensor.role != model::Role::kToServer) continue;
    const std::size_t count = tensor.Count();
    const kernels::UpdateNorm part = kernels::MeasureUpdate(update.subspan(offset, count));
    if (part.not_finite > 0) {
      return fmt::format("update holds NaN or infinity in \"{}\" ({} of {}, first {})", tensor.name,
                         part.not_finite, count, part.first_not_finite);
    }
    offset += count;
  }
  return "update holds NaN or infinity";
}

}  // namespace

Inspection Inspect(BytesView body, const model::Layout& layout, const AdmissionLimits& limits) {
  const std::uint64_t expected = layout.update_values() * sizeof(float);
  if (body.size() != expected) {
    return {
        .code = 2101,
        .detail = fmt::format("update has {} bytes, the layout needs {}", body.size(), expected)};
  }
  model::FloatVector copy;
  const std::span<const float> update = AsFloats(body, copy);
  const kernels::UpdateNorm measured = kernels::MeasureUpdate(update);
  if (measured.not_finite > 0) return {.code = 2104, .detail = DescribeNotFinite(update, layout)};
  if (measured.l2 > limits.max_norm) {
    return {.code = 2105,
            .norm = measured.l2,
            .detail = fmt::format("update norm {:.4g} is above admission.max_norm {:.4g}",
                                  measured.l2, limits.max_norm)};
  }
  return {.norm = measured.l2, .detail = {}};
}

}  // namespace skep::aggregator
