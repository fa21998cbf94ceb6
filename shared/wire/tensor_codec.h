// Update bodies: how the values of an update are written as bytes.
//
// Tensors follow one another in layout order without padding; nothing here knows a layout. The
// sizes of every encoding are here, because admission judges them before one byte has come; this
// file writes and reads plain f32 only. Whether values are finite or small enough is admission's
// question.
//
// Called by update pipelines and admission. Pure functions, any thread.
// Source: Skep protocol 1.0, section 9.1.
#pragma once

#include <cstdint>
#include <span>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::wire {

// Bytes of a body of `values` values, with `kept` of them in a top-k body (1..values; else not
// looked at). SKEP-2112 for an encoding without a body here; SKEP-2101 for `kept` out of range.
// Precondition: values <= 2^34.
[[nodiscard]] Result<std::uint64_t> BodySize(Encoding encoding, std::uint64_t values,
                                             std::uint64_t kept = 0);

// Whether `size` is the size of such a body; for top-k, for some number of kept values. SKEP-2112,
// SKEP-2101.
[[nodiscard]] Status CheckBodySize(Encoding encoding, std::uint64_t values, std::uint64_t size);

// Encoding 1.
[[nodiscard]] Bytes EncodeF32(std::span<const float> values);
// SKEP-2101 unless `body` holds exactly values.size() numbers; `values` unchanged then.
[[nodiscard]] Status DecodeF32(BytesView body, std::span<float> values);

}  // namespace skep::wire
