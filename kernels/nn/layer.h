// Layer: one operation of a network on the CPU, with an explicit forward and backward pass over the
// flat parameter vector.
//
// A layer knows its geometry and where its tensors lie; values, gradients and parameters belong to
// the Network that calls it. It holds what its backward pass needs of the forward one, and scratch,
// allocated when it is made. One thread; no randomness but what Pass names. What a row of an output
// is does not depend on the other rows, except in training with batch norm. Not for apps: they
// train through client/trainer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/backend.h"
#include "shared/model/layers.h"
#include "shared/model/layout.h"

namespace skep::kernels {

// Values of a batch: example r starts at data + r * stride, its values in the order of
// shared/model/layers.h.
struct Rows {
  float* data = nullptr;
  std::size_t stride = 0;
};
struct ConstRows {
  const float* data = nullptr;
  std::size_t stride = 0;
  ConstRows() = default;
  ConstRows(const float* at, std::size_t step) : data(at), stride(step) {}
  ConstRows(const Rows& rows) : data(rows.data), stride(rows.stride) {}  // NOLINT
};

// One batch.
struct Pass {
  std::span<const float> params;  // of the whole model
  std::size_t rows;
  bool is_training;        // dropout acts, batch norm uses the batch
  std::uint64_t step_key;  // training: of the draws of this local step (purpose 5)
};

// Where gradients of parameters go, in layout order: values = fma(scale, G, values) if `accumulate`
// (a step of plain SGD without a buffer), else values = G.
struct Sink {
  std::span<float> values;
  bool accumulate;
  float scale;
};

struct BackwardPass {
  ConstRows x;  // as in the forward pass, likewise y
  ConstRows y;
  Rows dy;  // may be overwritten
  Rows dx;  // data null: nobody asks for it
  // x is the output of a ReLU whose derivative is to be applied to dx: 0 where x is not above 0.
  bool x_is_rectified;
};

class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  virtual void Forward(const Pass& pass, ConstRows x, Rows y) = 0;
  // After Forward in training with the same pass. `pass.params` may be what `sink` changes: dx is
  // that of the parameters before.
  virtual void Backward(const Pass& pass, const BackwardPass& backward, const Sink& sink) = 0;
  // After the backward pass of a step, before the next: what training moves besides gradients
  // (running statistics).
  virtual void EndStep(std::span<float> params) { static_cast<void>(params); }
};

struct LayerContext {
  Isa isa;
  const model::Layout& layout;
  std::size_t training_rows;  // at most so many in a batch of training
  std::size_t capacity;       // at most so many in any batch
  bool rectify = false;       // the layer does the ReLU behind it (PlannedStage)

  [[nodiscard]] std::size_t Offset(std::size_t tensor) const {
    return static_cast<std::size_t>(layout.Offset(tensor));
  }
};

// Not for ResidualLayer and AddLayer, which the Network itself is.
[[nodiscard]] std::unique_ptr<Layer> MakeLayer(const model::Layer& layer,
                                               const LayerContext& context);

// dx = 0 where x is not above 0: for layers that cannot do it as they write.
void ApplyReluGradient(ConstRows x, Rows dx, std::size_t rows, std::size_t values);

}  // namespace skep::kernels
