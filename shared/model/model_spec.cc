#include "shared/model/model_spec.h"

#include <limits>
#include <utility>

#include "shared/base/try.h"
#include "shared/model/layer_parser.h"

namespace skep::model {
namespace {

constexpr std::size_t kMostInputSizes = 4;
constexpr std::size_t kMostLayers = 1024;

Result<std::uint32_t> ProductOf(const std::vector<std::uint32_t>& input) {
  if (input.empty() || input.size() > kMostInputSizes) {
    return Error{1301, "model.input has " + std::to_string(input.size()) + " sizes; 1 to 4",
                 "[values], [length, features] or [channels, height, width]"};
  }
  std::uint64_t product = 1;
  for (const std::uint32_t size : input) {
    product *= size;
    if (product == 0 || product > std::numeric_limits<std::uint32_t>::max()) {
      return Error{1301, "model.input: each size is at least 1, their product below 2^32",
                   "take the shape of one example"};
    }
  }
  return static_cast<std::uint32_t>(product);
}

Shape ShapeOf(const std::vector<std::uint32_t>& input, std::uint32_t product) {
  if (input.size() == 2) {
    return {.kind = Shape::Kind::kSequence, .channels = input[1], .width = input[0]};
  }
  if (input.size() == 3) {
    return {
        .kind = Shape::Kind::kImage, .channels = input[0], .height = input[1], .width = input[2]};
  }
  return {.kind = Shape::Kind::kValues, .channels = product};
}

// What a layout is refused for, said of the layers that it comes from.
Error Explained(Error error) {
  if (error.hint.empty()) {
    error.hint = error.message == "the model has no parameters"
                     ? "add a layer with weights, such as dense"
                     : "take fewer or smaller layers";
  }
  return std::move(error).Within("model.layers");
}

}  // namespace

Result<ModelSpec> ModelSpec::Parse(std::vector<std::uint32_t> input,
                                   std::vector<std::string> lines) {
  ModelSpec spec;
  SKEP_ASSIGN(spec.input_values_, ProductOf(input));
  if (lines.size() > kMostLayers) {
    return Error{1301, "model.layers has " + std::to_string(lines.size()) + " lines; at most 1024",
                 "take fewer layers"};
  }
  LayerParser parser(ShapeOf(input, spec.input_values_), input.size() == 1);
  for (std::string& line : lines) {
    // As the plan carries it: white space of any length is one space.
    line = LineWords(line).Text();
    SKEP_TRY(parser.Add(line));
  }
  SKEP_TRY(parser.End());
  Result<LayoutPtr> layout = Layout::Make(std::move(parser.tensors));
  if (!layout) return Explained(std::move(layout).error());
  spec.layout_ = std::move(layout).value();
  spec.output_ = parser.shape();
  spec.input_symbols_ = parser.input_symbols();
  spec.has_batch_norm_ = parser.has_batch_norm();
  spec.layers_ = std::move(parser.layers);
  spec.shapes_ = std::move(parser.shapes);
  spec.input_ = std::move(input);
  spec.lines_ = std::move(lines);
  return spec;
}

Result<ModelSpec> ModelSpec::WithPrivateNorms() const {
  std::vector<TensorSpec> tensors = layout_->tensors();
  bool has_norm = false;
  const auto keep = [&](std::size_t tensor, float initial) {
    tensors[tensor].role = Role::kPrivate;
    tensors[tensor].initial = initial;
  };
  for (const Layer& layer : layers_) {
    const auto* norm = std::get_if<NormLayer>(&layer);
    if (norm == nullptr) continue;
    has_norm = true;
    keep(norm->weight, 1);
    keep(norm->bias, 0);
    if (norm->kind != NormLayer::Kind::kBatch) continue;
    keep(norm->running_mean, 0);
    keep(norm->running_var, 1);
  }
  if (!has_norm) {
    return Error{1103, "personalization.method = \"fedbn\" needs a model with norm layers",
                 "model.normalization = \"batch\", or \"norm batch\" in model.layers"};
  }
  ModelSpec spec = *this;
  SKEP_ASSIGN(spec.layout_, Layout::Make(std::move(tensors)));
  return spec;
}

}  // namespace skep::model
