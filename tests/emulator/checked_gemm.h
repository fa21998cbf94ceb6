// MultiplyChecked: the plain matrix product, and what cuBLAS would do wrong without a word.
#pragma once

#include "kernels/cuda/gemm.h"
#include "tests/emulator/memory.h"

namespace skep::emulator {

// Faults: leading dimensions too small, a range outside its allocation, products that overlap, a
// result over its own operands. Sums in double, in order of k: a product does not depend on the
// others.
// `in_tf32` is a planted fault: operands lose 13 of their bits, as tensor cores round them.
void MultiplyChecked(Memory& memory, const kernels::Gemm& gemm, bool in_tf32 = false);

}  // namespace skep::emulator
