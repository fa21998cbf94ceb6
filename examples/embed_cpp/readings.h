// The application's own data: four vibration values of a machine a reading, and whether a bearing
// was worn. Made up here, so that the project runs as it is: put your own in their place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <skep/client.hpp>
#include <utility>
#include <vector>

class Readings : public skep::DataSource {
 public:
  Readings() : order_(kRows) { std::iota(order_.begin(), order_.end(), std::size_t{0}); }

  std::size_t count(skep::TaskView) override { return kRows; }

  // The same seed must give the same order on every run of the program.
  void rewind(skep::TaskView, std::uint64_t seed) override {
    std::sort(order_.begin(), order_.end());
    for (std::size_t i = kRows - 1; i > 0; --i) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      std::swap(order_[i], order_[(seed >> 33) % (i + 1)]);
    }
    taken_ = 0;
  }

  void next(skep::TaskView, std::size_t max_rows, skep::Batch& out) override {
    x_.clear();
    is_worn_.clear();
    for (; taken_ < kRows && is_worn_.size() < max_rows; ++taken_) {
      const std::size_t i = order_[taken_];
      const bool is_worn = i % 2 != 0;
      for (std::size_t j = 0; j < kColumns; ++j)
        x_.push_back(static_cast<float>((i * 37 + j * 11) % 100) / 100.0F +
                     (is_worn ? 0.5F : 0.0F));
      is_worn_.push_back(is_worn ? 1 : 0);
    }
    out.x = x_.data(), out.x_dtype = SKEP_F32, out.x_cols = kColumns;
    out.y = is_worn_.data(), out.y_dtype = SKEP_I64, out.y_cols = 1;
    out.rows = is_worn_.size();
  }

 private:
  static constexpr std::size_t kRows = 412;
  static constexpr std::size_t kColumns = 4;
  std::vector<std::size_t> order_;     // of the rows in this epoch
  std::size_t taken_ = 0;              // rows of it that were handed out
  std::vector<float> x_;               // a batch
  std::vector<std::int64_t> is_worn_;  // its classes
};
