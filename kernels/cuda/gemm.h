// Gemm: every matrix product on a device, as one value.
//
// Column-major, as cuBLAS counts: C = alpha op(A) op(B) + beta C for each of `batch` products,
// whose matrices lie `*_stride` elements apart. A row-major matrix is its transpose here, so a
// row-major y = x W^T (y [rows, outputs], x [rows, inputs], W [outputs, inputs]) is C = y with m =
// outputs, n = rows, k = inputs, A = W transposed, B = x plain. Single precision without
// tensor-core rounding. What a device computes differs from one to the other in the order of
// additions only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/device_ptr.h"

namespace skep::kernels {

struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  float alpha = 1;
  float beta = 0;  // 0: C is not read
  DevicePtr<const float> a;
  std::uint32_t lda = 0;  // of A as it lies: at least m, transposed k
  std::uint64_t a_stride = 0;
  DevicePtr<const float> b;
  std::uint32_t ldb = 0;  // at least k, transposed n
  std::uint64_t b_stride = 0;
  DevicePtr<float> c;
  std::uint32_t ldc = 0;       // at least m
  std::uint64_t c_stride = 0;  // products do not overlap
  std::uint32_t batch = 1;
};

}  // namespace skep::kernels
