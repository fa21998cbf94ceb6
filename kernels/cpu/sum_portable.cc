// The reference of the integer loops: what every other set must equal, bit for bit.
#include <bit>
#include <cmath>

#include "kernels/sum_loops.h"

namespace skep::kernels {
namespace {

// Adding 1.5 * 2^52 leaves the nearest integer in the low mantissa bits. With |w x 2^S| <= 2^50 it
// cannot carry out.
constexpr double kRounder = 0x1.8p52;

// A weight with at most 29 significant bits times a float is exact in double.
constexpr std::uint64_t kBitsPastExact = (std::uint64_t{1} << 24) - 1;

std::int64_t RoundToInteger(double scaled_weight, float value) {
  // One fused operation: w * x is never rounded by itself, so every instruction set gives the same
  // integer.
  const double rounded = std::fma(scaled_weight, static_cast<double>(value), kRounder);
  return std::bit_cast<std::int64_t>(rounded) - std::bit_cast<std::int64_t>(kRounder);
}

// The same where the product is exact: fusing would change nothing, and a processor without a fused
// operation is spared its emulation. Example counts are such weights.
std::int64_t RoundExactProduct(double scaled_weight, float value) {
  const double rounded = scaled_weight * static_cast<double>(value) + kRounder;
  return std::bit_cast<std::int64_t>(rounded) - std::bit_cast<std::int64_t>(kRounder);
}

void Accumulate(std::int64_t* sum, const float* update, std::size_t count, double scaled_weight) {
  if ((std::bit_cast<std::uint64_t>(scaled_weight) & kBitsPastExact) == 0) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += RoundExactProduct(scaled_weight, update[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) sum[i] += RoundToInteger(scaled_weight, update[i]);
  }
}

void Merge(std::int64_t* sum, const std::int64_t* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += other[i];
}

void Step(const std::int64_t* sum, const float* old, float* model, std::size_t count,
          double unscale, double total, double rate) {
  for (std::size_t i = 0; i < count; ++i) {
    // Multiplying by a power of two is exact.
    const double mean = (static_cast<double>(sum[i]) * unscale) / total;
    model[i] = static_cast<float>(static_cast<double>(old[i]) + rate * mean);
  }
}

void BlockSquares(const float* values, std::size_t blocks, double* block_sums) {
  for (std::size_t b = 0; b < blocks; ++b) {
    double sum = 0;
    for (std::size_t i = 0; i < kNormBlock; ++i) {
      const double value = values[b * kNormBlock + i];
      sum += value * value;  // the square of a float is exact in double: fused or not, the same
    }
    block_sums[b] = sum;
  }
}

}  // namespace

const SumLoops kSumLoopsPortable{
    .accumulate = Accumulate, .merge = Merge, .step = Step, .block_squares = BlockSquares};

}  // namespace skep::kernels
