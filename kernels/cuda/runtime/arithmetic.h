// ProductArithmetic: how products round. Apart from cuda_device.cc, so that a check on a device can
// link another one and be seen to fail.
#pragma once

#include <cublas_v2.h>

namespace skep::kernels::cuda {

[[nodiscard]] cublasMath_t ProductArithmetic();

}  // namespace skep::kernels::cuda
