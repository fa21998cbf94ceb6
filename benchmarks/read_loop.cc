#include "benchmarks/read_loop.h"

#include <cstring>

namespace skep::bench {
namespace {

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
typedef float Sixteen __attribute__((vector_size(64)));

constexpr std::size_t kChains = 8;

// A macro, as a template is lowered to the registers of the file before it is inlined.
// NOLINTBEGIN(bugprone-macro-parentheses): types
#define SKEP_READ_LOOP(Vector)                                                    \
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);                  \
  Vector chain[kChains] = {};                                                     \
  for (std::size_t i = 0; i + kChains * kLanes <= count; i += kChains * kLanes) { \
    _Pragma("GCC unroll 8") for (std::size_t c = 0; c < kChains; ++c) {           \
      Vector read;                                                                \
      std::memcpy(&read, values + i + c * kLanes, sizeof(Vector));                \
      chain[c] += read;                                                           \
    }                                                                             \
  }                                                                               \
  Vector total{};                                                                 \
  for (const Vector& sum : chain) total += sum;                                   \
  return total[0]
// NOLINTEND(bugprone-macro-parentheses)

float ReadPortable(const float* values, std::size_t count) {
  SKEP_READ_LOOP(Four);
}
#ifdef SKEP_X86_KERNELS
[[gnu::target("avx2")]] float ReadAvx2(const float* values, std::size_t count) {
  SKEP_READ_LOOP(Eight);
}
[[gnu::target("avx512f")]] float ReadAvx512(const float* values, std::size_t count) {
  SKEP_READ_LOOP(Sixteen);
}
#endif

}  // namespace

ReadLoop ReadLoopFor(kernels::Isa isa) {
#ifdef SKEP_X86_KERNELS
  if (isa == kernels::Isa::kAvx2) return ReadAvx2;
  if (isa == kernels::Isa::kAvx512) return ReadAvx512;
#endif
  static_cast<void>(isa);
  return ReadPortable;
}

}  // namespace skep::bench
