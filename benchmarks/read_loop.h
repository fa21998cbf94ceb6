// The memory's ceiling: reading floats one after the other, as wide as an instruction set's
// registers.
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace skep::bench {

// The sum of `count` floats; what fills no step of the loop is left out.
using ReadLoop = float (*)(const float* values, std::size_t count);

// `isa` is available.
[[nodiscard]] ReadLoop ReadLoopFor(kernels::Isa isa);

}  // namespace skep::bench
