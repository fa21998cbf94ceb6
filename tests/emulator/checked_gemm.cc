#include "tests/emulator/checked_gemm.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace skep::emulator {
namespace {

using kernels::Gemm;

// Elements from the first to the last of a column-major matrix.
std::uint64_t Extent(std::uint64_t rows, std::uint64_t columns, std::uint64_t leading) {
  return rows == 0 || columns == 0 ? 0 : (columns - 1) * leading + rows;
}

struct Extents {
  std::uint64_t a;
  std::uint64_t b;
  std::uint64_t c;
};

bool IsSound(Memory& memory, const Gemm& g, const Extents& extent) {
  const auto refuse = [&](const char* why) {
    memory.Report(fmt::format("product {} x {} x {}, batch {}: {}", g.m, g.n, g.k, g.batch, why));
    return false;
  };
  if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return refuse("an empty side");
  if (g.lda < (g.transpose_a ? g.k : g.m)) return refuse("lda is too small");
  if (g.ldb < (g.transpose_b ? g.n : g.k)) return refuse("ldb is too small");
  if (g.ldc < g.m) return refuse("ldc is too small");
  if (g.batch > 1 && g.c_stride < extent.c) return refuse("its results overlap");
  const auto meets = [&](std::uint64_t at, std::uint64_t stride, std::uint64_t size) {
    const std::uint64_t end = at + ((g.batch - 1) * stride + size) * sizeof(float);
    const std::uint64_t c_end =
        g.c.address + ((g.batch - 1) * g.c_stride + extent.c) * sizeof(float);
    return at < c_end && g.c.address < end;
  };
  if (meets(g.a.address, g.a_stride, extent.a) || meets(g.b.address, g.b_stride, extent.b)) {
    return refuse("the result lies over an operand");
  }
  return true;
}

// 10 bits after the point.
double InTf32(float value) {
  return static_cast<double>(
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1FFFU));
}

}  // namespace

void MultiplyChecked(Memory& memory, const Gemm& g, bool in_tf32) {
  const Extents extent{g.transpose_a ? Extent(g.k, g.m, g.lda) : Extent(g.m, g.k, g.lda),
                       g.transpose_b ? Extent(g.n, g.k, g.ldb) : Extent(g.k, g.n, g.ldb),
                       Extent(g.m, g.n, g.ldc)};
  if (!IsSound(memory, g, extent)) return;
  for (std::uint32_t p = 0; p < g.batch; ++p) {
    const auto* a = static_cast<const float*>(memory.Open(
        g.a.address + p * g.a_stride * sizeof(float), extent.a * sizeof(float), "product, A"));
    const auto* b = static_cast<const float*>(memory.Open(
        g.b.address + p * g.b_stride * sizeof(float), extent.b * sizeof(float), "product, B"));
    auto* c = static_cast<float*>(memory.Open(g.c.address + p * g.c_stride * sizeof(float),
                                              extent.c * sizeof(float), "product, C"));
    if (a == nullptr || b == nullptr || c == nullptr) return;
    for (std::uint64_t j = 0; j < g.n; ++j) {
      for (std::uint64_t i = 0; i < g.m; ++i) {
        double sum = 0;
        for (std::uint64_t k = 0; k < g.k; ++k) {
          const float left = g.transpose_a ? a[i * g.lda + k] : a[k * g.lda + i];
          const float right = g.transpose_b ? b[k * g.ldb + j] : b[j * g.ldb + k];
          sum += in_tf32 ? InTf32(left) * InTf32(right)
                         : static_cast<double>(left) * static_cast<double>(right);
        }
        const double before = g.beta == 0 ? 0 : static_cast<double>(c[j * g.ldc + i]);
        c[j * g.ldc + i] = static_cast<float>(static_cast<double>(g.alpha) * sum +
                                              static_cast<double>(g.beta) * before);
      }
    }
  }
}

}  // namespace skep::emulator
