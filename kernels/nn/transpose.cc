#include <algorithm>

#include "kernels/nn/layers.h"

namespace skep::kernels {
namespace {

// Columns of one pass: as many cache lines of the result are open at a time.
constexpr std::size_t kColumns = 16;

// to[j][i] = from[i][j].
void Turn(const float* from, std::size_t rows, std::size_t columns, float* to) {
  for (std::size_t first = 0; first < columns; first += kColumns) {
    const std::size_t last = std::min(columns, first + kColumns);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = first; j < last; ++j) to[j * rows + i] = from[i * columns + j];
    }
  }
}

class Transpose final : public Layer {
 public:
  explicit Transpose(const model::TransposeLayer& layer)
      : rows_(layer.to_channel_last ? layer.channels : layer.pixels),
        columns_(layer.to_channel_last ? layer.pixels : layer.channels) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    for (std::size_t r = 0; r < pass.rows; ++r) {
      Turn(x.data + r * x.stride, rows_, columns_, y.data + r * y.stride);
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink&) override {
    if (back.dx.data == nullptr) return;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      Turn(back.dy.data + r * back.dy.stride, columns_, rows_, back.dx.data + r * back.dx.stride);
    }
    if (back.x_is_rectified) ApplyReluGradient(back.x, back.dx, pass.rows, rows_ * columns_);
  }

 private:
  std::size_t rows_;  // of what flows in
  std::size_t columns_;
};

}  // namespace

std::unique_ptr<Layer> MakeTranspose(const model::TransposeLayer& layer, const LayerContext&) {
  return std::make_unique<Transpose>(layer);
}

}  // namespace skep::kernels
