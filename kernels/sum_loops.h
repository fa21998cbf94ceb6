// The loops of the exact sum and of the norms, one table an instruction set, all equal bit for bit.
//
// Plain types and pointers only: the files of the wider sets include this header and no other of
// the project, so that no inline function exists twice. Called by fixed_point.cc and vector_ops.cc.
// Thread-safe: constants. Source: Skep protocol 1.0, sections 9.2 (B4) and 9.3.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skep::kernels {

// Values of one block of a norm.
inline constexpr std::size_t kNormBlock = 1024;

struct SumLoops {
  // sum[i] += rne(scaled_weight * update[i]). Precondition: every product is finite and at most
  // 2^50.
  void (*accumulate)(std::int64_t* sum, const float* update, std::size_t count,
                     double scaled_weight);
  // sum[i] += other[i].
  void (*merge)(std::int64_t* sum, const std::int64_t* other, std::size_t count);
  // model[i] = float(double(old[i]) + rate * ((double(sum[i]) * unscale) / total)), each operation
  // rounded by itself. `model` may be `old`.
  void (*step)(const std::int64_t* sum, const float* old, float* model, std::size_t count,
               double unscale, double total, double rate);
  // block_sums[b] = the sum of squares of values[b * kNormBlock ..], added in index order, for
  // `blocks` whole blocks.
  void (*block_squares)(const float* values, std::size_t blocks, double* block_sums);
};

extern const SumLoops kSumLoopsPortable;
extern const SumLoops kSumLoopsAvx2;
extern const SumLoops kSumLoopsAvx512;

}  // namespace skep::kernels
