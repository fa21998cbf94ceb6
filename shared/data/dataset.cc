#include "shared/data/dataset.h"

#include <algorithm>
#include <array>

namespace skep::data {
namespace {

constexpr std::size_t kByteValues = 256;

struct ByteTable {
  double offset = 0;
  double scale = 0;  // no data set has it: the first use fills the table
  std::array<float, kByteValues> value{};
};

// One table a thread: a division for each pixel would cost more than the copy.
const std::array<float, kByteValues>& TableFor(double offset, double scale) {
  thread_local ByteTable table;
  if (table.offset != offset || table.scale != scale) {
    for (std::size_t byte = 0; byte < kByteValues; ++byte) {
      table.value[byte] = static_cast<float>((static_cast<double>(byte) - offset) / scale);
    }
    table.offset = offset;
    table.scale = scale;
  }
  return table.value;
}

}  // namespace

void Dataset::Gather(std::span<const std::uint32_t> chosen, float* x, std::int32_t* y) const {
  for (const std::uint32_t row : chosen) {
    y = std::copy_n(labels.data() + std::size_t{row} * labels_per_row, labels_per_row, y);
  }
  if (!floats.empty()) {
    for (const std::uint32_t row : chosen) {
      x = std::copy_n(floats.data() + row * values, values, x);
    }
    return;
  }
  const auto& table = TableFor(byte_offset, byte_scale);
  for (const std::uint32_t row : chosen) {
    const std::uint8_t* const from = bytes.data() + row * values;
    for (std::size_t i = 0; i < values; ++i) x[i] = table[from[i]];
    x += values;
  }
}

}  // namespace skep::data
