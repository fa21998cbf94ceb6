// LayerParser: lines of the `layers` syntax, one after another, to layers and tensors.
//
// For ModelSpec::Parse alone. One thread. Errors: SKEP-1301, naming the line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/layers.h"
#include "shared/model/layout.h"
#include "shared/model/line_words.h"

namespace skep::model {

class LayerParser {
 public:
  // What flows into the first layer; `is_single_size`: [length] or [values].
  LayerParser(const Shape& input, bool is_single_size);

  [[nodiscard]] Status Add(const std::string& line);
  // After the last line.
  [[nodiscard]] Status End() const;

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::uint32_t input_symbols() const { return symbols_; }
  [[nodiscard]] bool has_batch_norm() const { return has_batch_norm_; }
  std::vector<Layer> layers;
  std::vector<Shape> shapes;  // what flows out of each layer
  std::vector<TensorSpec> tensors;

 private:
  struct Residual {
    std::size_t slot;
    Shape shape;
  };

  [[nodiscard]] Error Refuse(const std::string& reason, const std::string& hint = "") const;
  [[nodiscard]] std::string ShapeHint(Shape::Kind wanted) const;
  [[nodiscard]] Status RefuseRest(const std::string& word) const;
  [[nodiscard]] Status Dispatch(LineWords& words);
  [[nodiscard]] Status AddDense(LineWords& words);
  [[nodiscard]] Status AddConv(LineWords& words);
  [[nodiscard]] Status AddConv1d(LineWords& words);
  [[nodiscard]] Status AddConvolution(LineWords& words, ConvLayer conv, bool is_same,
                                      bool is_image);
  [[nodiscard]] Status AddActivation(Activation kind);
  [[nodiscard]] Status AddPool(LineWords& words, Shape::Kind kind, bool is_maximum);
  [[nodiscard]] Status AddGlobalPool();
  [[nodiscard]] Status AddFlatten();
  [[nodiscard]] Status AddDropout(LineWords& words);
  [[nodiscard]] Status AddNorm(LineWords& words);
  [[nodiscard]] Status AddEmbedding(LineWords& words);
  [[nodiscard]] Status AddPositions();
  [[nodiscard]] Status AddRecurrent(LineWords& words, RecurrentLayer::Kind kind);
  [[nodiscard]] Status AddAttention(LineWords& words);
  [[nodiscard]] Status AddResidual();
  [[nodiscard]] Status AddAdd();

  // Channel-last order from here on (images arrive channel-major).
  void EnsureChannelLast();
  // Plain values: in channel-major order, or in that of the data where nothing came before.
  void Flatten();
  [[nodiscard]] Status NeedSequence() const;
  void Push(Layer layer);
  std::string NextName(const std::string& kind);
  std::size_t AddTensor(const std::string& name, std::vector<std::uint32_t> shape);

  Shape shape_;
  bool is_single_size_;     // of the input: an embedding may read it as a sequence of symbols
  bool is_data_order_;      // nothing came before: an image is channel-major
  std::size_t number_ = 0;  // of the line, from 1
  std::string line_;
  std::string kind_;          // its first word
  std::string flattened_by_;  // the line that made plain values of an image or a sequence
  std::uint32_t symbols_ = 0;
  bool has_batch_norm_ = false;
  std::map<std::string, std::uint32_t> ordinals_;
  std::vector<Residual> open_;
};

}  // namespace skep::model
