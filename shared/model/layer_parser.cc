#include "shared/model/layer_parser.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "shared/base/suggest.h"
#include "shared/base/try.h"
#include "shared/model/layer_forms.h"

namespace skep::model {
namespace {

using Kind = Shape::Kind;

constexpr const char* kFewer = "take fewer outputs, or pool before this line";

std::string Joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
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

// A line as messages show it.
std::string Shortened(const std::string& line) {
  constexpr std::size_t kShown = 80;
  if (line.size() <= kShown) return line;
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return line.substr(0, end) + "...";
}

bool Fits(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return a <= kMost && b <= kMost && a * b <= kMost && a * b * c / c == a * b && a * b * c <= kMost;
}

}  // namespace

LayerParser::LayerParser(const Shape& input, bool is_single_size)
    : shape_(input), is_single_size_(is_single_size), is_data_order_(true) {}

Error LayerParser::Refuse(const std::string& reason, const std::string& hint) const {
  const LayerForm* form = FindLayerForm(kind_);
  const std::string usual = form == nullptr ? "" : "write it as " + std::string(form->form);
  return Error{
      1301,
      "model.layers, line " + std::to_string(number_) + " \"" + Shortened(line_) + "\": " + reason,
      hint.empty() ? usual : hint};
}

// How what flows here could be of the kind that is wanted.
std::string LayerParser::ShapeHint(Kind wanted) const {
  const bool is_sequence = shape_.kind == Kind::kSequence;
  if (is_sequence && kind_ == "conv") return "for a sequence it is conv1d";
  if (is_sequence && kind_ == "maxpool") return "for a sequence it is maxpool1d";
  if (shape_.kind == Kind::kImage && kind_ == "conv1d") return "for an image it is conv";
  if (shape_.kind == Kind::kImage && kind_ == "maxpool1d") return "for an image it is maxpool";
  if (shape_.kind == Kind::kValues && !flattened_by_.empty()) {
    return flattened_by_ + " made plain values: put this line before that one";
  }
  if (wanted == Kind::kImage) return "say its shape: model.input = [channels, height, width]";
  return "say its shape: model.input = [length, features], or begin with an embedding of symbols";
}

Status LayerParser::Add(const std::string& line) {
  // So that no line is longer than a text of the plan: the longest has nine words.
  constexpr std::size_t kLongestWord = 24;
  ++number_;
  line_ = line;
  LineWords words(line);
  kind_ = words.kind;
  if (words.LongestWord() > kLongestWord) {
    return Refuse("no word of a layer is longer than 24 letters",
                  "skep-simulator explain layers shows the form of every line");
  }
  const Kind before = shape_.kind;
  SKEP_TRY(Dispatch(words));
  if (!words.AtEnd()) return RefuseRest(words.rest[words.next]);
  if (before != Kind::kValues && shape_.kind == Kind::kValues) {
    flattened_by_ = "line " + std::to_string(number_) + " \"" + line_ + "\"";
  }
  return Ok();
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

Status LayerParser::Dispatch(LineWords& words) {
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
  return Error{1301, "model.layers: a \"residual\" has no \"add\"",
               "put add where what it keeps is added"};
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
  return Refuse("needs a sequence [length, features]; here flow " + ShapeText(shape_),
                ShapeHint(Kind::kSequence));
}

Status LayerParser::AddDense(LineWords& words) {
  if (words.AtEnd()) return Refuse("\"dense\" needs the number of its outputs");
  const std::string number = words.Take();
  const std::uint32_t outputs = WholeNumber(number).value_or(0);
  if (outputs == 0) return Refuse("\"" + number + "\" is no number of outputs; at least 1");
  const bool has_bias = !words.TakeFlag("nobias");
  if (shape_.kind == Kind::kImage) Flatten();
  is_data_order_ = false;
  if (!Fits(shape_.Pixels(), outputs, 1)) return Refuse("more than 2^32 values flow out", kFewer);
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

Status LayerParser::AddConv(LineWords& words) {
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
    return Refuse("needs an image; here flow " + ShapeText(shape_), ShapeHint(Kind::kImage));
  }
  const bool is_same = words.TakeFlag("same");
  if (words.TakeFlag("valid") && is_same) return Refuse("\"same\" and \"valid\" contradict");
  const std::optional<std::uint32_t> groups = words.TakeOption("groups");
  conv.groups = groups.value_or(1);
  if (conv.groups == 0 || shape_.channels % conv.groups != 0 || *outputs % conv.groups != 0) {
    return Refuse("\"groups\" needs a number that divides " + std::to_string(shape_.channels) +
                      " and " + std::to_string(*outputs) + " channels",
                  "leave it out: one group always fits");
  }
  conv.out = {.kind = Kind::kImage, .channels = *outputs};
  return AddConvolution(words, conv, is_same, true);
}

Status LayerParser::AddConv1d(LineWords& words) {
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

Status LayerParser::AddConvolution(LineWords& words, ConvLayer conv, bool is_same, bool is_image) {
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
    return Refuse("its window is larger than what flows in, " + ShapeText(shape_),
                  "take a smaller window, or same");
  }
  if (!Fits(conv.out.height, conv.out.width, conv.out.channels)) {
    return Refuse("more than 2^32 values flow out", kFewer);
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

Status LayerParser::AddPool(LineWords& words, Shape::Kind kind, bool is_maximum) {
  const std::optional<std::uint32_t> size = words.TakeCount();
  if (!size) return Refuse("\"" + words.kind + "\" needs the size of its window, at least 1");
  if (shape_.kind == Kind::kValues || shape_.kind != kind) {
    return Refuse("does not fit what flows in, " + ShapeText(shape_),
                  ShapeHint(is_maximum ? kind : Kind::kImage));
  }
  PoolLayer pool{.is_maximum = is_maximum, .in = shape_, .out = {}, .window_width = *size};
  if (kind == Kind::kImage) pool.window_height = *size;
  shape_.height /= pool.window_height;
  shape_.width /= pool.window_width;
  if (shape_.Pixels() == 0) {
    return Refuse("its window is larger than what flows in, " + ShapeText(pool.in),
                  "take a smaller window");
  }
  pool.out = shape_;
  Push(pool);
  return Ok();
}

Status LayerParser::AddGlobalPool() {
  if (shape_.kind == Kind::kValues) {
    return Refuse("needs an image or a sequence; here flow " + ShapeText(shape_),
                  ShapeHint(Kind::kImage));
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

Status LayerParser::AddDropout(LineWords& words) {
  const std::string text = words.Take();
  double probability = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), probability);
  const bool is_number = failure == std::errc() && end == text.data() + text.size();
  // Beyond it hardly a value would be left, and those that are would be scaled without bound.
  constexpr double kMostDropped = 0.999;
  if (!is_number || !(probability >= 0 && probability <= kMostDropped)) {
    return Refuse("\"dropout\" needs a probability from 0 to 0.999");
  }
  Push(DropoutLayer{.probability = probability,
                    .index = static_cast<std::uint32_t>(number_ - 1),
                    .shape = shape_});
  return Ok();
}

Status LayerParser::AddNorm(LineWords& words) {
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
      constexpr std::uint32_t kUsual = 8;
      return Refuse(
          "\"group\" needs a number that divides " + std::to_string(shape_.channels) + " channels",
          "norm group " + std::to_string(std::gcd(kUsual, shape_.channels)) + " fits");
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

Status LayerParser::AddEmbedding(LineWords& words) {
  const std::string first = "an embedding stands first, over an input [length] of symbols";
  if (number_ != 1) return Refuse(first, "put it in line 1");
  if (!is_single_size_) return Refuse(first, "say the length: model.input = [length]");
  const std::optional<std::uint32_t> features = words.TakeCount();
  const std::uint32_t symbols = words.TakeOption("symbols").value_or(0);
  if (!features || symbols == 0) {
    return Refuse("\"embedding\" needs its features and its symbols",
                  "write embedding 8 symbols 65");
  }
  if (!Fits(shape_.channels, *features, 1)) return Refuse("more than 2^32 values flow out", kFewer);
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

Status LayerParser::AddRecurrent(LineWords& words, RecurrentLayer::Kind kind) {
  const std::optional<std::uint32_t> hidden = words.TakeCount();
  constexpr std::uint32_t kMostHidden = 1U << 20U;
  if (!hidden || *hidden > kMostHidden) {
    return Refuse("\"" + words.kind + "\" needs its hidden values, 1 to 1048576");
  }
  SKEP_TRY(NeedSequence());
  if (!Fits(shape_.width, *hidden, 4)) return Refuse("more than 2^32 values flow out", kFewer);
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

Status LayerParser::AddAttention(LineWords& words) {
  const std::optional<std::uint32_t> heads = words.TakeCount();
  SKEP_TRY(NeedSequence());
  if (!heads || shape_.channels % *heads != 0) {
    constexpr std::uint32_t kUsual = 4;
    return Refuse("\"attention\" needs a number of heads that divides " +
                      std::to_string(shape_.channels) + " features",
                  "attention " + std::to_string(std::gcd(kUsual, shape_.channels)) + " fits");
  }
  constexpr std::uint32_t kMostFeatures = 1U << 20U;
  if (shape_.channels > kMostFeatures) return Refuse("more than 1048576 features", kFewer);
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
  if (open_.empty())
    return Refuse("there is no \"residual\" before it", "put residual where what it adds flows in");
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
    return Refuse("cannot add " + ShapeText(kept.shape) + " to " + ShapeText(shape_),
                  "what is added has the same shape, or more places and no more channels");
  }
  Push(add);
  return Ok();
}

}  // namespace skep::model
