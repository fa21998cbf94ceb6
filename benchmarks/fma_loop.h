// The processor's ceiling: fused multiply-adds on registers alone, as wide as an instruction set's.
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace skep::bench {

struct FmaLoop {
  float (*run)(std::size_t steps);
  double flops_per_step;
};

// `isa` is available.
[[nodiscard]] FmaLoop FmaLoopFor(kernels::Isa isa);

}  // namespace skep::bench
