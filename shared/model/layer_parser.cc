#include "shared/model/layer_parser.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "shared/base/suggest.h"
#include "shared/base/try.h"

namespace skep::model {
namespace {

using Kind = Shape::Kind;

std::string Joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::optional<std::uint32_t> WholeNumber(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string ShapeText(const Shape& shape) {
  const auto text = [](std::uint32_t n) { return std::to_string(n); };
  switch (shape.kind) {
    case Kind::kValues:
      return text(shape.channels) + " values";
    case Kind::kSequence:
      return "a sequence of " + text(shape.width) + " x " + text(shape.channels);
    case Kind::kImage:
      return "an image of " + text(shape.channels) + " x " + text(shape.height) + " x " +
             text(shape.width);
  }
  return "";
}

// floor((size + 2 pad - kernel) / stride) + 1, or 0 where no window fits.
std::uint32_t ConvolvedSize(std::uint32_t size, std::uint32_t kernel, std::uint32_t stride,
                            std::uint32_t pad) {
  const std::uint64_t padded = std::uint64_t{size} + 2 * std::uint64_t{pad};
  if (padded < kernel) return 0;
  const std::uint64_t convolved = (padded - kernel) / stride + 1;
  return convolved > std::numeric_limits<std::uint32_t>::max()
             ? 0
             : static_cast<std::uint32_t>(convolved);
}

bool Fits(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return a <= kMost && b <= kMost && a * b <= kMost && a * b * c / c == a * b && a * b * c <= kMost;
}

}  // namespace

// The words of a line after the first, taken from the front.
struct LayerParser::Words {
  std::string kind;
  std::vector<std::string> rest;
  std::size_t next = 0;

  explicit Words(const std::string& line) {
    std::vector<std::string> all(1);
    for (const char c : line) {
      if (c != ' ' && c != '\t') {
        all.back() += c;
      } else if (!all.back().empty()) {
        all.emplace_back();
      }
    }
    if (all.back().empty() && all.size() > 1) all.pop_back();
    kind = all.front();
    rest.assign(all.begin() + 1, all.end());
  }
  [[nodiscard]] bool AtEnd() const { return next == rest.size(); }
  [[nodiscard]] std::string Take() { return AtEnd() ? std::string() : rest[next++]; }
  [[nodiscard]] std::optional<std::uint32_t> TakeCount() {
    const std::optional<std::uint32_t> number = WholeNumber(Take());
    return number && *number > 0 ? number : std::nullopt;
  }
  // The word, wherever it stands; takes it out.
  [[nodiscard]] bool TakeFlag(std::string_view word) {
    for (std::size_t i = next; i < rest.size(); ++i) {
      if (rest[i] != word) continue;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }
  // The count after the word; 0 where the word stands without one, nothing without the word.
  [[nodiscard]] std::optional<std::uint32_t> TakeOption(std::string_view word) {
    for (std::size_t i = next; i < rest.size(); ++i) {
      if (rest[i] != word) continue;
      const auto at = rest.begin() + static_cast<std::ptrdiff_t>(i);
      const std::uint32_t count = i + 1 < rest.size() ? WholeNumber(rest[i + 1]).value_or(0) : 0;
      rest.erase(at, i + 1 < rest.size() ? at + 2 : at + 1);
      return count;
    }
    return std::nullopt;
  }
};

std::vector<std::string_view> LayerWords() {
  return {"dense",     "conv",      "conv1d",  "relu",       "tanh",      "sigmoid",  "gelu",
          "maxpool",   "maxpool1d", "avgpool", "globalpool", "flatten",   "dropout",  "norm",
          "embedding", "positions", "lstm",    "gru",        "attention", "residual", "add"};
}

LayerParser::LayerParser(const Shape& input, bool is_single_size)
    : shape_(input), is_single_size_(is_single_size), is_data_order_(true) {}

Error LayerParser::Refuse(const std::string& reason, const std::string& hint) const {
  return Error{1301,
               "model.layers, line " + std::to_string(number_) + " \"" + line_ + "\": " + reason,
               hint};
}

Status LayerParser::Add(const std::string& line) {
  ++number_;
  line_ = line;
  Words words(line);
  SKEP_TRY(Dispatch(words));
  return words.AtEnd() ? Ok() : RefuseRest(words.rest[words.next]);
}

// A word that no rule took: misspelt, or twice, or of another layer.
Status LayerParser::RefuseRest(const std::string& word) const {
  const std::vector<std::string_view> options{"nobias", "same",   "valid",  "stride",
                                              "groups", "causal", "symbols"};
  if (std::find(options.begin(), options.end(), word) != options.end()) {
    return Refuse("\"" + word + "\" has no place here");
  }
  const std::string suggestion = Suggest(word, options);
  return Refuse("unknown word \"" + word + "\"",
                suggestion.empty() ? "" : "did you mean \"" + suggestion + "\"?");
}

Status LayerParser::Dispatch(Words& words) {
  const std::string& kind = words.kind;
  // These two leave an image of the data as it is: they see its values only.
  if (kind != "flatten" && kind != "dense") EnsureChannelLast();
  if (kind == "dense") return AddDense(words);
  if (kind == "conv") return AddConv(words);
  if (kind == "conv1d") return AddConv1d(words);
  if (kind == "relu") return AddActivation(Activation::kRelu);
  if (kind == "tanh") return AddActivation(Activation::kTanh);
  if (kind == "sigmoid") return AddActivation(Activation::kSigmoid);
  if (kind == "gelu") return AddActivation(Activation::kGelu);
  if (kind == "maxpool") return AddPool(words, Kind::kImage, true);
  if (kind == "maxpool1d") return AddPool(words, Kind::kSequence, true);
  if (kind == "avgpool") return AddPool(words, shape_.kind, false);
  if (kind == "globalpool") return AddGlobalPool();
  if (kind == "flatten") return AddFlatten();
  if (kind == "dropout") return AddDropout(words);
  if (kind == "norm") return AddNorm(words);
  if (kind == "embedding") return AddEmbedding(words);
  if (kind == "positions") return AddPositions();
  if (kind == "lstm") return AddRecurrent(words, RecurrentLayer::Kind::kLstm);
  if (kind == "gru") return AddRecurrent(words, RecurrentLayer::Kind::kGru);
  if (kind == "attention") return AddAttention(words);
  if (kind == "residual") return AddResidual();
  if (kind == "add") return AddAdd();
  const std::string suggestion = Suggest(kind, LayerWords());
  return Refuse("unknown word \"" + kind + "\"", suggestion.empty()
                                                     ? "known: " + Joined(LayerWords())
                                                     : "did you mean \"" + suggestion + "\"?");
}

Status LayerParser::End() const {
  if (open_.empty()) return Ok();
  return Error{1301, "model.layers: a \"residual\" has no \"add\"", ""};
}

void LayerParser::Push(Layer layer) {
  layers.push_back(layer);
  shapes.push_back(shape_);
}

std::string LayerParser::NextName(const std::string& kind) {
  return kind + std::to_string(++ordinals_[kind]);
}

std::size_t LayerParser::AddTensor(const std::string& name, std::vector<std::uint32_t> shape) {
  tensors.push_back({.name = name, .shape = std::move(shape)});
  return tensors.size() - 1;
}

void LayerParser::EnsureChannelLast() {
  if (!is_data_order_) return;
  is_data_order_ = false;
  if (shape_.kind != Kind::kImage || shape_.channels == 1 || shape_.Pixels() == 1) return;
  Push(TransposeLayer{
      .pixels = shape_.Pixels(), .channels = shape_.channels, .to_channel_last = true});
}

void LayerParser::Flatten() {
  const Shape in = shape_;
  const bool turns = !is_data_order_ && in.channels > 1 && in.Pixels() > 1;
  is_data_order_ = false;
  shape_ = {.kind = Kind::kValues, .channels = in.Values()};
  if (!turns) return;
  Push(TransposeLayer{.pixels = in.Pixels(), .channels = in.channels, .to_channel_last = false});
}

Status LayerParser::AddFlatten() {
  Flatten();
  return Ok();
}

Status LayerParser::NeedSequence() const {
  if (shape_.kind == Kind::kSequence) return Ok();
  return Refuse("needs a sequence [length, features]; here flow " + ShapeText(shape_));
}

Status LayerParser::AddDense(Words& words) {
  if (words.AtEnd()) return Refuse("\"dense\" needs the number of its outputs");
  const std::string number = words.Take();
  const std::uint32_t outputs = WholeNumber(number).value_or(0);
  if (outputs == 0) return Refuse("\"" + number + "\" is no number of outputs; at least 1");
  const bool has_bias = !words.TakeFlag("nobias");
  if (shape_.kind == Kind::kImage) Flatten();
  is_data_order_ = false;
  if (!Fits(shape_.Pixels(), outputs, 1)) return Refuse("more than 2^32 values flow out");
  DenseLayer dense{.positions = shape_.Pixels(),
                   .inputs = shape_.channels,
                   .outputs = outputs,
                   .has_bias = has_bias};
  const std::string name = NextName("fc");
  dense.weight = AddTensor(name + ".weight", {outputs, dense.inputs});
  if (has_bias) dense.bias = AddTensor(name + ".bias", {outputs});
  shape_.channels = outputs;
  Push(dense);
  return Ok();
}

Status LayerParser::AddConv(Words& words) {
  const std::optional<std::uint32_t> outputs = words.TakeCount();
  if (!outputs) return Refuse("\"conv\" needs the number of its output channels, at least 1");
  const std::string size = words.Take();
  const auto cross = size.find('x');
  ConvLayer conv;
  if (cross != std::string::npos) {
    conv.kernel_height = WholeNumber(std::string_view(size).substr(0, cross)).value_or(0);
    conv.kernel_width = WholeNumber(std::string_view(size).substr(cross + 1)).value_or(0);
  }
  if (cross == std::string::npos || conv.kernel_height == 0 || conv.kernel_width == 0) {
    return Refuse("\"" + size + "\" is no size of a window", "write it as 3x3");
  }
  if (shape_.kind != Kind::kImage) {
    return Refuse("needs an image; here flow " + ShapeText(shape_),
                  "say its shape: model.input = [channels, height, width]");
  }
  const bool is_same = words.TakeFlag("same");
  if (words.TakeFlag("valid") && is_same) return Refuse("\"same\" and \"valid\" contradict");
  const std::optional<std::uint32_t> groups = words.TakeOption("groups");
  conv.groups = groups.value_or(1);
  if (conv.groups == 0 || shape_.channels % conv.groups != 0 || *outputs % conv.groups != 0) {
    return Refuse("\"groups\" needs a number that divides " + std::to_string(shape_.channels) +
                  " and " + std::to_string(*outputs) + " channels");
  }
  conv.out = {.kind = Kind::kImage, .channels = *outputs};
  return AddConvolution(words, conv, is_same, true);
}

Status LayerParser::AddConv1d(Words& words) {
  const std::optional<std::uint32_t> outputs = words.TakeCount();
  const std::optional<std::uint32_t> size = words.TakeCount();
  if (!outputs || !size) {
    return Refuse("\"conv1d\" needs its output channels and its window, each at least 1");
  }
  SKEP_TRY(NeedSequence());
  const bool is_same = words.TakeFlag("same");
  if (words.TakeFlag("valid") && is_same) return Refuse("\"same\" and \"valid\" contradict");
  ConvLayer conv;
  conv.kernel_width = *size;
  conv.out = {.kind = Kind::kSequence, .channels = *outputs};
  return AddConvolution(words, conv, is_same, false);
}

Status LayerParser::AddConvolution(Words& words, ConvLayer conv, bool is_same, bool is_image) {
  const std::optional<std::uint32_t> stride = words.TakeOption("stride");
  conv.stride = stride.value_or(1);
  if (conv.stride == 0) return Refuse("\"stride\" needs a number, at least 1");
  conv.has_bias = !words.TakeFlag("nobias");
  conv.in = shape_;
  if (is_same) {
    conv.pad_height = conv.kernel_height / 2;
    conv.pad_width = conv.kernel_width / 2;
  }
  conv.out.height =
      is_image ? ConvolvedSize(shape_.height, conv.kernel_height, conv.stride, conv.pad_height) : 1;
  conv.out.width = ConvolvedSize(shape_.width, conv.kernel_width, conv.stride, conv.pad_width);
  if (conv.out.height == 0 || conv.out.width == 0) {
    return Refuse("its window is larger than what flows in, " + ShapeText(shape_));
  }
  if (!Fits(conv.out.height, conv.out.width, conv.out.channels)) {
    return Refuse("more than 2^32 values flow out");
  }
  const std::string name = NextName("conv");
  std::vector<std::uint32_t> shape{conv.out.channels, conv.in.channels / conv.groups};
  if (is_image) shape.push_back(conv.kernel_height);
  shape.push_back(conv.kernel_width);
  conv.weight = AddTensor(name + ".weight", std::move(shape));
  if (conv.has_bias) conv.bias = AddTensor(name + ".bias", {conv.out.channels});
  shape_ = conv.out;
  Push(conv);
  return Ok();
}

Status LayerParser::AddActivation(Activation kind) {
  Push(ActivationLayer{.kind = kind, .shape = shape_});
  return Ok();
}

Status LayerParser::AddPool(Words& words, Shape::Kind kind, bool is_maximum) {
  const std::optional<std::uint32_t> size = words.TakeCount();
  if (!size) return Refuse("\"" + words.kind + "\" needs the size of its window, at least 1");
  if (shape_.kind == Kind::kValues || shape_.kind != kind) {
    return Refuse("does not fit what flows in, " + ShapeText(shape_),
                  shape_.kind == Kind::kSequence ? "for a sequence it is maxpool1d" : "");
  }
  PoolLayer pool{.is_maximum = is_maximum, .in = shape_, .out = {}, .window_width = *size};
  if (kind == Kind::kImage) pool.window_height = *size;
  shape_.height /= pool.window_height;
  shape_.width /= pool.window_width;
  if (shape_.Pixels() == 0) {
    return Refuse("its window is larger than what flows in, " + ShapeText(pool.in));
  }
  pool.out = shape_;
  Push(pool);
  return Ok();
}

Status LayerParser::AddGlobalPool() {
  if (shape_.kind == Kind::kValues) {
    return Refuse("needs an image or a sequence; here flow " + ShapeText(shape_));
  }
  PoolLayer pool{.is_maximum = false,
                 .in = shape_,
                 .out = {},
                 .window_height = shape_.height,
                 .window_width = shape_.width};
  shape_ = {.kind = Kind::kValues, .channels = shape_.channels};
  pool.out = shape_;
  Push(pool);
  return Ok();
}

Status LayerParser::AddDropout(Words& words) {
  const std::string text = words.Take();
  double probability = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), probability);
  const bool is_number = failure == std::errc() && end == text.data() + text.size();
  if (!is_number || !(probability >= 0 && probability < 1)) {
    return Refuse("\"dropout\" needs a probability in [0, 1)");
  }
  Push(DropoutLayer{.probability = probability,
                    .index = static_cast<std::uint32_t>(number_ - 1),
                    .shape = shape_});
  return Ok();
}

Status LayerParser::AddNorm(Words& words) {
  const std::string word = words.Take();
  NormLayer norm{.shape = shape_};
  if (word == "batch") {
    norm.kind = NormLayer::Kind::kBatch;
    has_batch_norm_ = true;
  } else if (word == "layer") {
    norm.kind = shape_.kind == Kind::kSequence ? NormLayer::Kind::kLayer : NormLayer::Kind::kGroup;
  } else if (word == "group") {
    norm.groups = words.TakeCount().value_or(0);
    if (norm.groups == 0 || shape_.channels % norm.groups != 0) {
      return Refuse("\"group\" needs a number that divides " + std::to_string(shape_.channels) +
                    " channels");
    }
  } else {
    return Refuse("\"norm\" needs batch, layer or group G");
  }
  const std::string name = NextName("norm");
  norm.weight = AddTensor(name + ".weight", {shape_.channels});
  norm.bias = AddTensor(name + ".bias", {shape_.channels});
  if (norm.kind == NormLayer::Kind::kBatch) {
    norm.running_mean = AddTensor(name + ".running_mean", {shape_.channels});
    norm.running_var = AddTensor(name + ".running_var", {shape_.channels});
  }
  Push(norm);
  return Ok();
}

Status LayerParser::AddEmbedding(Words& words) {
  const std::optional<std::uint32_t> features = words.TakeCount();
  const std::uint32_t symbols = words.TakeOption("symbols").value_or(0);
  if (!features || symbols == 0) {
    return Refuse("\"embedding\" needs its features and its symbols",
                  "write embedding 8 symbols 65");
  }
  if (!layers.empty() || number_ != 1 || !is_single_size_) {
    return Refuse("an embedding stands first, over an input [length] of symbols");
  }
  if (!Fits(shape_.channels, *features, 1)) return Refuse("more than 2^32 values flow out");
  EmbeddingLayer embedding{.length = shape_.channels, .symbols = symbols, .features = *features};
  embedding.weight = AddTensor(NextName("embedding") + ".weight", {symbols, *features});
  symbols_ = symbols;
  shape_ = {.kind = Kind::kSequence, .channels = *features, .width = embedding.length};
  Push(embedding);
  return Ok();
}

Status LayerParser::AddPositions() {
  SKEP_TRY(NeedSequence());
  PositionsLayer positions{.length = shape_.width, .features = shape_.channels};
  positions.weight =
      AddTensor(NextName("positions") + ".weight", {positions.length, positions.features});
  Push(positions);
  return Ok();
}

Status LayerParser::AddRecurrent(Words& words, RecurrentLayer::Kind kind) {
  const std::optional<std::uint32_t> hidden = words.TakeCount();
  constexpr std::uint32_t kMostHidden = 1U << 20U;
  if (!hidden || *hidden > kMostHidden) {
    return Refuse("\"" + words.kind + "\" needs its hidden values, 1 to 1048576");
  }
  SKEP_TRY(NeedSequence());
  if (!Fits(shape_.width, *hidden, 4)) return Refuse("more than 2^32 values flow out");
  RecurrentLayer layer{
      .kind = kind, .length = shape_.width, .inputs = shape_.channels, .hidden = *hidden};
  const std::string name = NextName(words.kind);
  const std::uint32_t rows = layer.gates() * *hidden;
  layer.weight_ih = AddTensor(name + ".weight_ih", {rows, layer.inputs});
  layer.weight_hh = AddTensor(name + ".weight_hh", {rows, *hidden});
  layer.bias = AddTensor(name + ".bias", {rows});
  if (kind == RecurrentLayer::Kind::kGru) layer.bias_hn = AddTensor(name + ".bias_hn", {*hidden});
  shape_.channels = *hidden;
  Push(layer);
  return Ok();
}

Status LayerParser::AddAttention(Words& words) {
  const std::optional<std::uint32_t> heads = words.TakeCount();
  SKEP_TRY(NeedSequence());
  if (!heads || shape_.channels % *heads != 0) {
    return Refuse("\"attention\" needs a number of heads that divides " +
                  std::to_string(shape_.channels) + " features");
  }
  constexpr std::uint32_t kMostFeatures = 1U << 20U;
  if (shape_.channels > kMostFeatures) return Refuse("more than 1048576 features");
  AttentionLayer layer{.length = shape_.width,
                       .features = shape_.channels,
                       .heads = *heads,
                       .is_causal = words.TakeFlag("causal")};
  const std::string name = NextName("attention");
  const std::uint32_t width = layer.features;
  layer.weight_qkv = AddTensor(name + ".weight_qkv", {3 * width, width});
  layer.bias_qkv = AddTensor(name + ".bias_qkv", {3 * width});
  layer.weight_out = AddTensor(name + ".weight_out", {width, width});
  layer.bias_out = AddTensor(name + ".bias_out", {width});
  Push(layer);
  return Ok();
}

Status LayerParser::AddResidual() {
  open_.push_back({open_.size(), shape_});
  Push(ResidualLayer{.slot = open_.back().slot, .shape = shape_});
  return Ok();
}

Status LayerParser::AddAdd() {
  if (open_.empty()) return Refuse("there is no \"residual\" before it");
  const Residual kept = open_.back();
  open_.pop_back();
  const auto stride_of = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<std::uint32_t>((from + to - 1) / to);
  };
  AddLayer add{.slot = kept.slot, .kept = kept.shape, .shape = shape_};
  add.stride = stride_of(kept.shape.width, shape_.width);
  const bool fits =
      kept.shape.kind == shape_.kind && kept.shape.channels <= shape_.channels &&
      stride_of(kept.shape.width, add.stride) == shape_.width &&
      (shape_.kind != Kind::kImage || stride_of(kept.shape.height, add.stride) == shape_.height);
  if (!fits) {
    return Refuse("cannot add " + ShapeText(kept.shape) + " to " + ShapeText(shape_));
  }
  Push(add);
  return Ok();
}

}  // namespace skep::model
