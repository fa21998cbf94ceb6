#include "kernels/cuda/runtime/arithmetic.h"

namespace skep::kernels::cuda {

// Single precision throughout, no tensor cores: TF32 keeps 11 of a float's 24 bits.
cublasMath_t ProductArithmetic() {
  return CUBLAS_PEDANTIC_MATH;
}

}  // namespace skep::kernels::cuda
