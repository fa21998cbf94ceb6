// All kernels. A kernel's number is its place here, the same for programs and for libskep-cuda.so,
// which are built together.
#pragma once

#include "kernels/body/dense_body.h"
#include "kernels/body/kernel.h"

namespace skep::kernels {

using Kernels = KernelPack<body::AddBias, body::SumRows, body::RectifyGradient>;

}  // namespace skep::kernels
