// Products in each form that layers ask for: A plain or transposed, B plain or transposed, onto
// what is there or not, with matrices that lie within wider ones.
#include <array>
#include <limits>

#include "tests/gpu/operations.h"

namespace skep::gpu {
namespace {

using kernels::Gemm;

struct Form {
  bool transpose_a;
  bool transpose_b;
  float alpha;
  float beta;
};

// C of product p, row i, column j.
Bound Product(const Gemm& g, const Floats& a, const Floats& b, float before, std::uint64_t p,
              std::uint64_t i, std::uint64_t j) {
  double sum = 0;
  double size = 0;
  for (std::uint64_t k = 0; k < g.k; ++k) {
    const double left = a[p * g.a_stride + (g.transpose_a ? i * g.lda + k : k * g.lda + i)];
    const double right = b[p * g.b_stride + (g.transpose_b ? k * g.ldb + j : j * g.ldb + k)];
    sum += left * right;
    size += std::abs(left * right);
  }
  const double added = g.beta == 0 ? 0 : static_cast<double>(g.beta) * static_cast<double>(before);
  const double scale = g.alpha;
  return {scale * sum + added, (g.k + 8.0) * (std::abs(scale) * size + std::abs(added))};
}

void TryProduct(Bench& b, std::uint64_t n, const Form& form) {
  const auto k = static_cast<std::uint32_t>(std::max<std::uint64_t>(n, 1));
  constexpr std::uint32_t kM = 7;
  constexpr std::uint32_t kN = 5;
  Gemm g{.transpose_a = form.transpose_a,
         .transpose_b = form.transpose_b,
         .m = kM,
         .n = kN,
         .k = k,
         .alpha = form.alpha,
         .beta = form.beta,
         .a = {},
         .lda = (form.transpose_a ? k : kM) + 2,
         .a_stride = 0,
         .b = {},
         .ldb = (form.transpose_b ? kN : k) + 1,
         .b_stride = 0,
         .c = {},
         .ldc = kM + 3,
         .c_stride = (kM + 3) * kN + 4,
         .batch = kLanes};
  g.a_stride = std::uint64_t{g.lda} * (form.transpose_a ? kM : k) + 5;
  g.b_stride = std::uint64_t{g.ldb} * (form.transpose_b ? k : kN) + 3;
  const Floats left = b.Random(kLanes * g.a_stride);
  const Floats right = b.Random(kLanes * g.b_stride);
  Floats before = b.Random(kLanes * g.c_stride);
  if (form.beta == 0) {  // is not read
    before.assign(before.size(), std::numeric_limits<float>::quiet_NaN());
  }
  const auto c = b.Put(before);
  g.a = b.Put(left);
  g.b = b.Put(right);
  g.c = c;
  b.Multiply(g);
  const Floats got = b.Take(c, before.size());
  for (std::uint64_t at = 0; at < got.size(); ++at) {
    const std::uint64_t p = at / g.c_stride;
    const std::uint64_t i = at % g.c_stride % g.ldc;
    const std::uint64_t j = at % g.c_stride / g.ldc;
    const bool is_result = i < g.m && j < g.n;
    b.Compare("c", at, got[at],
              is_result ? Product(g, left, right, before[at], p, i, j) : Bound(before[at]));
  }
}

void TryForward(Bench& b, std::uint64_t n) {
  TryProduct(b, n, {true, false, 1, 0});
  TryProduct(b, n, {true, false, 1, 1});
}

void TryInputGradient(Bench& b, std::uint64_t n) {
  TryProduct(b, n, {false, false, 1, 0});
  TryProduct(b, n, {false, false, 1, 1});
}

void TryWeightGradient(Bench& b, std::uint64_t n) {
  TryProduct(b, n, {false, true, 1, 0});
  TryProduct(b, n, {false, true, -0.3F, 1});
}

constexpr std::array kOperations{Operation{"product TN", false, TryForward},
                                 Operation{"product NN", false, TryInputGradient},
                                 Operation{"product NT", false, TryWeightGradient}};

}  // namespace

std::span<const Operation> ProductOperations() {
  return kOperations;
}

}  // namespace skep::gpu
