#include "benchmarks/fma_loop.h"

namespace skep::bench {
namespace {

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
typedef float Sixteen __attribute__((vector_size(64)));

// Chains that do not wait for each other: enough for two units of a latency of five.
constexpr std::size_t kChains = 12;

// A macro, as a template is lowered to the registers of the file before it is inlined. Each chain
// starts elsewhere: equal ones would be computed once.
// NOLINTBEGIN(bugprone-macro-parentheses): types
#define SKEP_FMA_LOOP(Vector)                                                                      \
  Vector chain[kChains];                                                                           \
  for (std::size_t i = 0; i < kChains; ++i) chain[i] = Vector{} + (static_cast<float>(i) + 0.25F); \
  const Vector factor = Vector{} + 0.999F;                                                         \
  const Vector term = Vector{} + 0.001F;                                                           \
  for (std::size_t i = 0; i < steps; ++i) {                                                        \
    _Pragma("GCC unroll 12") for (Vector & sum : chain) {                                          \
      sum = sum * factor + term;                                                                   \
    }                                                                                              \
  }                                                                                                \
  Vector total{};                                                                                  \
  for (const Vector& sum : chain) total += sum;                                                    \
  return total[0]
// NOLINTEND(bugprone-macro-parentheses)

float RunPortable(std::size_t steps) {
  SKEP_FMA_LOOP(Four);
}
#ifdef SKEP_X86_KERNELS
[[gnu::target("avx2,fma")]] float RunAvx2(std::size_t steps) {
  SKEP_FMA_LOOP(Eight);
}
[[gnu::target("avx512f,fma")]] float RunAvx512(std::size_t steps) {
  SKEP_FMA_LOOP(Sixteen);
}
#endif

}  // namespace

FmaLoop FmaLoopFor(kernels::Isa isa) {
  constexpr double kFlopsPerLane = 2.0 * kChains;
#ifdef SKEP_X86_KERNELS
  if (isa == kernels::Isa::kAvx2) return {RunAvx2, 8 * kFlopsPerLane};
  if (isa == kernels::Isa::kAvx512) return {RunAvx512, 16 * kFlopsPerLane};
#endif
  static_cast<void>(isa);
  return {RunPortable, 4 * kFlopsPerLane};
}

}  // namespace skep::bench
