// Products that round to TF32: a check on a device must turn red over this library.
#include "kernels/cuda/runtime/arithmetic.h"

namespace skep::kernels::cuda {

cublasMath_t ProductArithmetic() {
  return CUBLAS_TF32_TENSOR_OP_MATH;
}

}  // namespace skep::kernels::cuda
