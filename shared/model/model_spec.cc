#include "shared/model/model_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "shared/base/rng.h"
#include "shared/base/suggest.h"
#include "shared/base/try.h"

namespace skep::model {
namespace {

constexpr std::array<std::string_view, 3> kLayerWords{"dense", "relu", "flatten"};
// Words of the `layers` syntax that other builds may know.
constexpr std::array<std::string_view, 18> kForeignWords{
    "conv",      "conv1d",  "tanh",       "sigmoid",   "gelu",     "maxpool",
    "maxpool1d", "avgpool", "globalpool", "dropout",   "norm",     "embedding",
    "positions", "lstm",    "gru",        "attention", "residual", "add"};
constexpr std::array<std::string_view, 3> kPresets{"softmax", "mlp", "2nn"};
constexpr std::uint32_t kWidthOf2nn = 200;
constexpr std::size_t kMostInputSizes = 4;
constexpr std::size_t kMostLayers = 1024;

template <class Range>
bool Contains(const Range& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <class Range>
std::string Joined(const Range& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::vector<std::string> WordsOf(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c != ' ' && c != '\t') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty() && words.size() > 1) words.pop_back();
  return words;
}

// Builds layers and tensors line by line; `width` is the number of values that flow between two
// layers.
class Builder {
 public:
  explicit Builder(std::uint32_t width) : width_(width) {}

  Status Add(const std::string& line) {
    ++number_;
    line_ = line;
    const std::vector<std::string> words = WordsOf(line);
    const std::string& kind = words[0];
    if (kind == "dense") return AddDense(words);
    if (Contains(kLayerWords, kind)) return AddPlain(words);
    if (Contains(kForeignWords, kind)) {
      return Error{1019, Place() + "this build has no layer \"" + kind + "\"",
                   "it has " + Joined(kLayerWords)};
    }
    return UnknownWord(kind, {kLayerWords.begin(), kLayerWords.end()});
  }

  std::vector<Layer> layers;
  std::vector<TensorSpec> tensors;
  [[nodiscard]] std::uint32_t width() const { return width_; }

 private:
  [[nodiscard]] std::string Place() const {
    return "model.layers, line " + std::to_string(number_) + " \"" + line_ + "\": ";
  }
  [[nodiscard]] Error Refuse(const std::string& reason) const {
    return Error{1301, Place() + reason, ""};
  }
  [[nodiscard]] Error UnknownWord(const std::string& word,
                                  const std::vector<std::string_view>& known) const {
    const std::string suggestion = Suggest(word, known);
    return Error{
        1301, Place() + "unknown word \"" + word + "\"",
        suggestion.empty() ? "known: " + Joined(known) : "did you mean \"" + suggestion + "\"?"};
  }

  Status AddPlain(const std::vector<std::string>& words) {
    if (words.size() > 1) return Refuse("\"" + words[0] + "\" takes no words");
    if (words[0] == "relu") {
      layers.emplace_back(ReluLayer{.width = width_});
    } else {
      layers.emplace_back(FlattenLayer{.width = width_});
    }
    return Ok();
  }

  Status AddDense(const std::vector<std::string>& words) {
    if (words.size() < 2) return Refuse("\"dense\" needs the number of its outputs");
    const std::string& number = words[1];
    DenseLayer dense{.inputs = width_};
    const auto [end, failure] =
        std::from_chars(number.data(), number.data() + number.size(), dense.outputs);
    if (failure != std::errc() || end != number.data() + number.size() || dense.outputs == 0) {
      return Refuse("\"" + number + "\" is no number of outputs; at least 1");
    }
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i] != "nobias") return UnknownWord(words[i], {"nobias"});
      if (!dense.has_bias) return Refuse("\"nobias\" twice");
      dense.has_bias = false;
    }
    const std::string name = "fc" + std::to_string(++dense_layers_);
    dense.weight = tensors.size();
    tensors.push_back({.name = name + ".weight", .shape = {dense.outputs, width_}});
    if (dense.has_bias) {
      dense.bias = tensors.size();
      tensors.push_back({.name = name + ".bias", .shape = {dense.outputs}});
    }
    width_ = dense.outputs;
    layers.emplace_back(dense);
    return Ok();
  }

  std::uint32_t width_;
  std::size_t number_ = 0;
  std::size_t dense_layers_ = 0;
  std::string line_;
};

Result<std::uint32_t> ProductOf(const std::vector<std::uint32_t>& input) {
  if (input.empty() || input.size() > kMostInputSizes) {
    return Error{1301, "model.input has " + std::to_string(input.size()) + " sizes; 1 to 4", ""};
  }
  std::uint64_t product = 1;
  for (const std::uint32_t size : input) {
    product *= size;
    if (product == 0 || product > std::numeric_limits<std::uint32_t>::max()) {
      return Error{1301, "model.input: each size is at least 1, their product below 2^32", ""};
    }
  }
  return static_cast<std::uint32_t>(product);
}

// Half the width of the uniform distribution, or the deviation of the normal one (`he`).
double Spread(const DenseLayer& dense, Initialiser initialiser) {
  const auto fan_in = static_cast<double>(dense.inputs);
  const auto fan_out = static_cast<double>(dense.outputs);
  switch (initialiser) {
    case Initialiser::kFanIn:
      return 1.0 / std::sqrt(fan_in);
    case Initialiser::kGlorot:
      return std::sqrt(6.0 / (fan_in + fan_out));
    case Initialiser::kHe:
      return std::sqrt(2.0 / fan_in);
    case Initialiser::kZeros:
      return 0;
  }
  return 0;
}

void Draw(RandomStream& stream, Initialiser initialiser, double spread, std::span<float> values) {
  for (float& value : values) {
    const double drawn =
        initialiser == Initialiser::kHe ? stream.Normal() : 2.0 * stream.Uniform() - 1.0;
    value = static_cast<float>(drawn * spread);
  }
}

}  // namespace

Result<ModelSpec> ModelSpec::Parse(std::vector<std::uint32_t> input,
                                   std::vector<std::string> lines) {
  ModelSpec spec;
  SKEP_ASSIGN(spec.input_values_, ProductOf(input));
  if (lines.size() > kMostLayers) {
    return Error{1301, std::to_string(lines.size()) + " layers; at most 1024", ""};
  }
  Builder builder(spec.input_values_);
  for (const std::string& line : lines) SKEP_TRY(builder.Add(line));
  SKEP_ASSIGN(spec.layout_, Layout::Make(std::move(builder.tensors)));
  spec.outputs_ = builder.width();
  spec.layers_ = std::move(builder.layers);
  spec.input_ = std::move(input);
  spec.lines_ = std::move(lines);
  return spec;
}

Result<std::vector<std::string>> PresetLines(const std::string& architecture,
                                             const std::vector<std::uint32_t>& hidden,
                                             std::uint32_t classes) {
  if (!Contains(kPresets, architecture)) {
    return Error{1019, "this build has no model \"" + architecture + "\"",
                 "it has " + Joined(kPresets) + ", layers"};
  }
  std::vector<std::uint32_t> widths;
  if (architecture == "mlp") widths = hidden;
  if (architecture == "2nn") widths = {kWidthOf2nn, kWidthOf2nn};
  std::vector<std::string> lines;
  for (const std::uint32_t width : widths) {
    lines.push_back("dense " + std::to_string(width));
    lines.emplace_back("relu");
  }
  lines.push_back("dense " + std::to_string(classes));
  return lines;
}

std::vector<std::string> PresetNames() {
  return {kPresets.begin(), kPresets.end()};
}

Params InitialParams(const ModelSpec& spec, Initialiser initialiser, std::uint64_t run_seed) {
  Params params(spec.layout());
  if (initialiser == Initialiser::kZeros) return params;
  RandomStream stream(run_seed, {.purpose = Purpose::kInitialWeights});
  for (const Layer& layer : spec.layers()) {
    const auto* dense = std::get_if<DenseLayer>(&layer);
    if (dense == nullptr) continue;
    const double spread = Spread(*dense, initialiser);
    Draw(stream, initialiser, spread, params.Tensor(dense->weight));
    if (initialiser == Initialiser::kFanIn && dense->has_bias) {
      Draw(stream, initialiser, spread, params.Tensor(dense->bias));
    }
  }
  return params;
}

}  // namespace skep::model
