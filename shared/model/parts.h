// Parts of a model: what a device receives, what it sends, and what it keeps for itself.
//
// A part is the raw little-endian bytes of its tensors, one after another in layout order; the
// whole vector has every tensor at its offset. Pure functions, any thread. Source: Skep protocol
// 1.0, section 4 (roles).
#pragma once

#include <cstdint>
#include <span>

#include "shared/base/bytes.h"
#include "shared/model/layout.h"

namespace skep::model {

enum class Part {
  kModel,    // roles 1 and 3
  kUpdate,   // roles 1 and 4
  kPrivate,  // role 2
};

[[nodiscard]] bool IsIn(Part part, Role role);
[[nodiscard]] std::uint64_t ValuesOf(const Layout& layout, Part part);

// The bytes of a part of `all`, which has layout.values() values.
[[nodiscard]] Bytes TakePart(const Layout& layout, Part part, std::span<const float> all);
// The reverse; other tensors keep their values. Precondition: `bytes` has the size of the part.
void PutPart(const Layout& layout, Part part, BytesView bytes, std::span<float> all);
// What every device starts from, into the private tensors.
void FillPrivate(const Layout& layout, std::span<float> all);

}  // namespace skep::model
