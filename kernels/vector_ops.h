// Vector operations on updates: their difference from the received model, their norm, whether they
// are finite.
//
// Same bits on every instruction set. Called by the client (difference, self-check) and at
// admission. Thread-safe: no state. Source: Skep protocol 1.0, section 9.2, B3 and B4.
#pragma once

#include <cstddef>
#include <span>

namespace skep::kernels {

// What admission asks about one update.
struct UpdateNorm {
  double l2 = 0;                     // meaningless unless not_finite == 0
  std::size_t not_finite = 0;        // how many values are NaN or infinite
  std::size_t first_not_finite = 0;  // index of the first of them; meaningless if there is none
};

// One pass over the values of one role. Squares in double, added in index order within blocks of
// 1,024 values; block sums added in order with Neumaier's compensation; then the square root.
// Subnormals and -0 are ordinary values.
[[nodiscard]] UpdateNorm MeasureUpdate(std::span<const float> update);

// difference = trained - received, in float. All of one size; `difference` may be `trained`.
void Difference(std::span<const float> trained, std::span<const float> received,
                std::span<float> difference);

}  // namespace skep::kernels
