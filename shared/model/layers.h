// Layers of a model with their geometry, as ModelSpec derives them from its lines.
//
// One example flows as `pixels` places of `channels` values each, channel last: an image by rows
// and columns, a sequence by time, plain values as one place. So a dense layer over a sequence, a
// 1x1 convolution and a dense layer over values are one operation, and flattening an image, which
// is channel-major in this field, is a transposition that stands in the list by itself.
//
// Plain values. Tensors are named by their index in the layout. Source: docs/reference
// (model.layers) and docs/models.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

namespace skep::model {

struct Shape {
  enum class Kind { kValues, kSequence, kImage };
  Kind kind = Kind::kValues;
  std::uint32_t channels = 1;  // features of a sequence, number of plain values
  std::uint32_t height = 1;    // of an image
  std::uint32_t width = 1;     // of an image; length of a sequence

  [[nodiscard]] std::uint32_t Pixels() const { return height * width; }
  [[nodiscard]] std::uint32_t Values() const { return height * width * channels; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// y = x W^T + b at each of `positions` places. PyTorch: Linear.
struct DenseLayer {
  std::uint32_t positions = 1;
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  bool has_bias = true;
  std::size_t weight = 0;  // [outputs, inputs]
  std::size_t bias = 0;    // [outputs]; meaningless without a bias
};

// Cross-correlation with zeros around the image. PyTorch: Conv2d, Conv1d (height 1).
struct ConvLayer {
  Shape in;
  Shape out;
  std::uint32_t kernel_height = 1;
  std::uint32_t kernel_width = 1;
  std::uint32_t stride = 1;
  std::uint32_t pad_height = 0;  // rows of zeros on each side
  std::uint32_t pad_width = 0;
  std::uint32_t groups = 1;  // divides the channels of both sides
  bool has_bias = true;
  std::size_t weight = 0;  // [out, in / groups, height, width]; conv1d: [out, in, width]
  std::size_t bias = 0;    // [out]; meaningless without a bias
};

enum class Activation { kRelu, kTanh, kSigmoid, kGelu };  // gelu: x Phi(x), exact

struct ActivationLayer {
  Activation kind = Activation::kRelu;
  Shape shape;
};

// Channel-major to channel-last order of one example, or back.
struct TransposeLayer {
  std::uint32_t pixels = 1;
  std::uint32_t channels = 1;
  bool to_channel_last = false;
};

// Windows without overlap; places that fill no window are left out. The average over everything
// (globalpool) is one window.
struct PoolLayer {
  bool is_maximum = true;
  Shape in;
  Shape out;
  std::uint32_t window_height = 1;
  std::uint32_t window_width = 1;
};

// In training a value is 0 with this probability, else divided by 1 - probability.
struct DropoutLayer {
  double probability = 0;
  std::uint32_t index = 0;  // of its line, from 0: part of the key of its draws
  Shape shape;
};

// y = (x - mean) / sqrt(variance + 1e-5) * weight + bias, one weight and bias a channel. Mean and
// variance (divided by the count) run over: the batch and all places, a channel (kBatch);
// `groups` groups of channels at all places, an example (kGroup; an image or plain values of
// `norm layer` are one group); the channels of a place (kLayer, on sequences).
struct NormLayer {
  enum class Kind { kBatch, kGroup, kLayer };
  Kind kind = Kind::kGroup;
  Shape shape;
  std::uint32_t groups = 1;  // kGroup
  std::size_t weight = 0;    // [channels], as are the others
  std::size_t bias = 0;
  std::size_t running_mean = 0;  // kBatch: used by evaluation, moved by 0.1 a step
  std::size_t running_var = 0;   // kBatch: likewise, of the variance divided by count - 1
};

// Symbols are whole numbers in [0, symbols).
struct EmbeddingLayer {
  std::uint32_t length = 0;
  std::uint32_t symbols = 0;
  std::uint32_t features = 0;
  std::size_t weight = 0;  // [symbols, features]
};

// Adds a learned vector to each place.
struct PositionsLayer {
  std::uint32_t length = 0;
  std::uint32_t features = 0;
  std::size_t weight = 0;  // [length, features]
};

// One layer over the whole sequence, state 0 before it. PyTorch: LSTM (gates in the order input,
// forget, cell, output), with the sum of its two biases; GRU (reset, update, new), likewise, but
// for the new gate, whose recurrent bias is multiplied by the reset gate and stands alone.
struct RecurrentLayer {
  enum class Kind { kLstm, kGru };
  Kind kind = Kind::kLstm;
  std::uint32_t length = 0;
  std::uint32_t inputs = 0;
  std::uint32_t hidden = 0;
  std::size_t weight_ih = 0;  // [gates * hidden, inputs]
  std::size_t weight_hh = 0;  // [gates * hidden, hidden]
  std::size_t bias = 0;       // [gates * hidden]
  std::size_t bias_hn = 0;    // kGru: [hidden]

  [[nodiscard]] std::uint32_t gates() const { return kind == Kind::kLstm ? 4 : 3; }
};

// Self-attention of `heads` heads over a sequence; a place sees itself and, if causal, only places
// before it. Scores are divided by sqrt(features / heads). PyTorch: MultiheadAttention.
struct AttentionLayer {
  std::uint32_t length = 0;
  std::uint32_t features = 0;
  std::uint32_t heads = 1;  // divides features
  bool is_causal = false;
  std::size_t weight_qkv = 0;  // [3 * features, features]: queries, keys, values
  std::size_t bias_qkv = 0;    // [3 * features]
  std::size_t weight_out = 0;  // [features, features]
  std::size_t bias_out = 0;    // [features]
};

// Keeps the value that the AddLayer of the same slot adds. Slots nest like brackets: one that is
// free again is used again.
struct ResidualLayer {
  std::size_t slot = 0;
  Shape shape;
};
// Adds the kept value: every stride-th row and column of it, zeros in channels that it lacks.
// Source: He et al. 2016, section 3.3, option A.
struct AddLayer {
  std::size_t slot = 0;
  Shape kept;
  Shape shape;
  std::uint32_t stride = 1;
};

using Layer = std::variant<DenseLayer, ConvLayer, ActivationLayer, TransposeLayer, PoolLayer,
                           DropoutLayer, NormLayer, EmbeddingLayer, PositionsLayer, RecurrentLayer,
                           AttentionLayer, ResidualLayer, AddLayer>;

}  // namespace skep::model
