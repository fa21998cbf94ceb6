#include "kernels/vector_ops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/backend.h"
#include "kernels/sum_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

// Blocks measured in one call of the loop.
constexpr std::size_t kBlocksAtOnce = 64;

// Neumaier 1974: the error of every addition is kept and added at the end.
class CompensatedSum {
 public:
  void Add(double value) {
    const double next = sum_ + value;
    if (std::abs(sum_) >= std::abs(value)) {
      error_ += (sum_ - next) + value;
    } else {
      error_ += (value - next) + sum_;
    }
    sum_ = next;
  }
  [[nodiscard]] double Total() const { return sum_ + error_; }

 private:
  double sum_ = 0;
  double error_ = 0;
};

double SumOfSquares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

void CountNotFinite(std::span<const float> block, std::size_t first_index, UpdateNorm& norm) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (std::isfinite(block[i])) continue;
    if (norm.not_finite == 0) norm.first_not_finite = first_index + i;
    ++norm.not_finite;
  }
}

}  // namespace

UpdateNorm MeasureUpdate(std::span<const float> update) {
  static const SumLoops& loops = SumLoopsFor(DetectIsa());
  UpdateNorm norm;
  CompensatedSum squares;
  // A block of finite floats has a finite sum of squares (2^10 * 2^256 at most), and only such a
  // block has one.
  const auto take = [&](std::size_t begin, std::size_t size, double sum) {
    if (!std::isfinite(sum)) CountNotFinite(update.subspan(begin, size), begin, norm);
    squares.Add(sum);
  };

  std::array<double, kBlocksAtOnce> sums;
  const std::size_t whole = update.size() / kNormBlock;
  for (std::size_t first = 0; first < whole; first += kBlocksAtOnce) {
    const std::size_t blocks = std::min(kBlocksAtOnce, whole - first);
    loops.block_squares(update.data() + first * kNormBlock, blocks, sums.data());
    for (std::size_t b = 0; b < blocks; ++b) take((first + b) * kNormBlock, kNormBlock, sums[b]);
  }
  const std::size_t rest = whole * kNormBlock;
  if (rest < update.size()) take(rest, update.size() - rest, SumOfSquares(update.subspan(rest)));
  norm.l2 = std::sqrt(squares.Total());
  return norm;
}

void Difference(std::span<const float> trained, std::span<const float> received,
                std::span<float> difference) {
  SKEP_CHECK(trained.size() == received.size() && difference.size() == trained.size());
  for (std::size_t i = 0; i < trained.size(); ++i) difference[i] = trained[i] - received[i];
}

}  // namespace skep::kernels
