// Presets: their lines, tensors and parameter counts; and what a specification says of itself.
#include <numeric>

#include "shared/model/model_spec.h"
#include "tests/support/catch.h"

namespace skep::model {
namespace {

using Sizes = std::vector<std::uint32_t>;

Result<std::vector<std::string>> LinesOf(const std::string& name, Sizes input,
                                         std::uint32_t classes, const Sizes& hidden = {64}) {
  return PresetLines(name, {.input = std::move(input), .classes = classes, .hidden = hidden});
}

ModelSpec Preset(const std::string& name, const Sizes& input, std::uint32_t classes) {
  return ModelSpec::Parse(input, LinesOf(name, input, classes).value()).value();
}

ModelSpec Wished(const std::string& name, const PresetWishes& wishes) {
  return ModelSpec::Parse(wishes.input, PresetLines(name, wishes).value()).value();
}

std::vector<std::string> NamesOf(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : spec.layout()->tensors()) names.push_back(tensor.name);
  return names;
}

Sizes ShapeOf(const ModelSpec& spec, const std::string& name) {
  for (const TensorSpec& tensor : spec.layout()->tensors()) {
    if (tensor.name == name) return tensor.shape;
  }
  FAIL("no tensor " << name);
  return {};
}

TEST_CASE("presets have the parameter counts of their definitions", "[unit]") {
  struct Counted {
    const char* name;
    Sizes input;
    std::uint32_t classes;
    std::uint64_t parameters;
  };
  const std::vector<Counted> all{{"softmax", {60}, 10, 610},
                                 {"softmax", {784}, 10, 7'850},
                                 {"2nn", {1, 28, 28}, 10, 199'210},
                                 {"mlp", {13}, 2, 13 * 64 + 64 + 64 * 2 + 2},
                                 {"fedavg-cnn", {1, 28, 28}, 10, 1'663'370},
                                 {"lenet", {1, 28, 28}, 10, 44'426},
                                 {"lenet", {3, 32, 32}, 10, 62'006},
                                 {"pfl-cnn", {3, 32, 32}, 10, 1'626'442},
                                 {"char-lstm", {80}, 65, 813'897},
                                 {"resnet8", {3, 32, 32}, 10, 75'290},
                                 {"resnet20", {3, 32, 32}, 10, 269'722},
                                 {"har-cnn", {128, 6}, 5, 249'637},
                                 {"tiny-transformer", {80}, 65, 113'601}};
  for (const Counted& one : all) {
    INFO(one.name);
    const ModelSpec spec = Preset(one.name, one.input, one.classes);
    CHECK(spec.layout()->values() == one.parameters);
    CHECK(spec.outputs() == one.classes);
    CHECK(spec.layers().size() == spec.shapes().size());
  }
}

TEST_CASE("the 2nn preset is a list of layers with the tensors in order", "[unit]") {
  const ModelSpec spec = Preset("2nn", {784}, 10);
  CHECK(spec.lines() ==
        std::vector<std::string>{"dense 200", "relu", "dense 200", "relu", "dense 10"});
  CHECK(NamesOf(spec) == std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight",
                                                  "fc2.bias", "fc3.weight", "fc3.bias"});
  CHECK(ShapeOf(spec, "fc1.weight") == Sizes{200, 784});
  CHECK(spec.positions() == 1);
  CHECK(spec.input_symbols() == 0);
}

TEST_CASE("the convolutional presets name convolutions and dense layers apart", "[unit]") {
  const ModelSpec fedavg = Preset("fedavg-cnn", {1, 28, 28}, 10);
  CHECK(NamesOf(fedavg) == std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight",
                                                    "conv2.bias", "fc1.weight", "fc1.bias",
                                                    "fc2.weight", "fc2.bias"});
  CHECK(ShapeOf(fedavg, "conv2.weight") == Sizes{64, 32, 5, 5});
  CHECK(ShapeOf(fedavg, "fc1.weight") == Sizes{512, 3136});
  const ModelSpec lenet = Preset("lenet", {3, 32, 32}, 10);
  CHECK(ShapeOf(lenet, "fc1.weight") == Sizes{120, 400});
  const ModelSpec pfl = Preset("pfl-cnn", {3, 32, 32}, 10);
  CHECK(ShapeOf(pfl, "fc1.weight") == Sizes{128, 12544});
  const ModelSpec har = Preset("har-cnn", {128, 6}, 5);
  CHECK(ShapeOf(har, "conv1.weight") == Sizes{32, 6, 5});
  CHECK(ShapeOf(har, "fc1.weight") == Sizes{128, 1856});
}

TEST_CASE("char-lstm answers at every place of its input", "[unit]") {
  const ModelSpec spec = Preset("char-lstm", {80}, 65);
  CHECK(spec.positions() == 80);
  CHECK(spec.input_symbols() == 65);
  CHECK(spec.input_values() == 80);
  CHECK(NamesOf(spec) == std::vector<std::string>{"embedding1.weight", "lstm1.weight_ih",
                                                  "lstm1.weight_hh", "lstm1.bias",
                                                  "lstm2.weight_ih", "lstm2.weight_hh",
                                                  "lstm2.bias", "fc1.weight", "fc1.bias"});
  CHECK(ShapeOf(spec, "embedding1.weight") == Sizes{65, 8});
  CHECK(ShapeOf(spec, "lstm1.weight_ih") == Sizes{1024, 8});
  CHECK(ShapeOf(spec, "lstm2.weight_ih") == Sizes{1024, 256});
}

TEST_CASE("tiny-transformer has two blocks before norm, and one norm after them", "[unit]") {
  const ModelSpec spec = Preset("tiny-transformer", {80}, 65);
  const std::vector<std::string> names = NamesOf(spec);
  const std::vector<std::string> first{"embedding1.weight",
                                       "positions1.weight",
                                       "norm1.weight",
                                       "norm1.bias",
                                       "attention1.weight_qkv",
                                       "attention1.bias_qkv",
                                       "attention1.weight_out",
                                       "attention1.bias_out",
                                       "norm2.weight",
                                       "norm2.bias",
                                       "fc1.weight",
                                       "fc1.bias",
                                       "fc2.weight",
                                       "fc2.bias"};
  REQUIRE(names.size() == 30);
  CHECK(std::vector<std::string>(names.begin(), names.begin() + 14) == first);
  CHECK(names[26] == "norm5.weight");
  CHECK(names[28] == "fc5.weight");
  CHECK(ShapeOf(spec, "attention1.weight_qkv") == Sizes{192, 64});
  CHECK(spec.positions() == 80);
}

TEST_CASE("the residual presets halve twice and have no biases of convolutions", "[unit]") {
  const ModelSpec spec = Preset("resnet8", {3, 32, 32}, 10);
  const auto strides = std::accumulate(
      spec.layers().begin(), spec.layers().end(), 0U, [](std::uint32_t sum, const Layer& layer) {
        const auto* conv = std::get_if<ConvLayer>(&layer);
        return conv == nullptr ? sum : sum + conv->stride - 1 + (conv->has_bias ? 100U : 0U);
      });
  CHECK(strides == 2);
  const AddLayer* last = nullptr;
  for (const Layer& layer : spec.layers()) {
    if (const auto* add = std::get_if<AddLayer>(&layer)) last = add;
  }
  REQUIRE(last != nullptr);
  CHECK(last->stride == 2);
  CHECK(last->kept.channels == 32);
  CHECK(last->shape == Shape{Shape::Kind::kImage, 64, 8, 8});
}

TEST_CASE("equal products of the input size give the same layout", "[unit]") {
  const Hash32 hash = Preset("2nn", {784}, 10).layout()->hash();
  for (const Sizes& input :
       {Sizes{1, 28, 28}, Sizes{28, 28}, Sizes{4, 14, 14}, Sizes{2, 2, 14, 14}})
    CHECK(Preset("2nn", input, 10).layout()->hash() == hash);
}

TEST_CASE("a perceptron over windows reads them in the order of the data", "[unit]") {
  const ModelSpec spec = Preset("mlp", {128, 6}, 5);
  CHECK(spec.lines() == std::vector<std::string>{"flatten", "dense 64", "relu", "dense 5"});
  CHECK(std::get<DenseLayer>(spec.layers()[0]).inputs == 768);
  CHECK(std::get<DenseLayer>(spec.layers()[0]).positions == 1);
  CHECK(spec.positions() == 1);
}

TEST_CASE("presets take the activation and the normalisation that are wished for", "[unit]") {
  const ModelSpec mlp = Wished("mlp", {.input = {4},
                                       .classes = 3,
                                       .hidden = {12, 7},
                                       .activation = "gelu",
                                       .normalization = "group"});
  CHECK(mlp.lines() == std::vector<std::string>{"dense 12", "norm group 4", "gelu", "dense 7",
                                                "norm group 1", "gelu", "dense 3"});
  CHECK_FALSE(mlp.has_batch_norm());
  const ModelSpec lenet = Wished("lenet", {.input = {1, 28, 28},
                                           .classes = 10,
                                           .hidden = {},
                                           .activation = "tanh",
                                           .normalization = "batch"});
  CHECK(lenet.has_batch_norm());
  CHECK(lenet.lines()[1] == "norm batch");
  CHECK(lenet.lines()[2] == "tanh");
  CHECK(ShapeOf(lenet, "norm1.running_var") == Sizes{6});
}

TEST_CASE("running statistics are averaged like weights", "[unit]") {
  const ModelSpec spec = ModelSpec::Parse({4}, {"dense 3", "norm batch"}).value();
  for (const TensorSpec& tensor : spec.layout()->tensors()) CHECK(tensor.role == Role::kAveraged);
}

TEST_CASE("the residual presets have group norm where none is wished for", "[unit]") {
  const PresetWishes wishes{.input = {3, 32, 32}, .classes = 10, .hidden = {}};
  CHECK(PresetLines("resnet20", wishes).value()[1] == "norm group 8");
  PresetWishes batch = wishes;
  batch.normalization = "batch";
  CHECK(PresetLines("resnet20", batch).value()[1] == "norm batch");
}

TEST_CASE("a preset refuses an input of another kind and says which it takes", "[unit]") {
  const auto refusal = [](const std::string& name, const Sizes& input) {
    const auto lines = LinesOf(name, input, 10);
    REQUIRE_FALSE(lines.has_value());
    CHECK(lines.error().code == 1301);
    return lines.error().message + " / " + lines.error().hint;
  };
  CHECK(refusal("lenet", {784}) ==
        "model.architecture \"lenet\" does not take an input of 1 size / "
        "it takes an image: model.input = [channels, height, width]");
  CHECK(refusal("har-cnn", {768}) ==
        "model.architecture \"har-cnn\" does not take an input of 1 size / "
        "it takes windows: model.input = [length, features]");
  CHECK(refusal("char-lstm", {80, 1}) ==
        "model.architecture \"char-lstm\" does not take an input of 2 sizes / "
        "it takes symbols: model.input = [length]");
}

TEST_CASE("a preset needs the number of classes", "[unit]") {
  const auto lines = LinesOf("char-lstm", {80}, 0);
  REQUIRE_FALSE(lines.has_value());
  CHECK(lines.error().code == 1301);
  CHECK(lines.error().message == "model.architecture \"char-lstm\" needs the number of classes");
}

TEST_CASE("an unknown preset is refused with those there are", "[unit]") {
  const auto lines = LinesOf("vgg", {784}, 10);
  REQUIRE_FALSE(lines.has_value());
  CHECK(lines.error().code == 1102);
  CHECK(lines.error().message == "there is no model \"vgg\"");
  CHECK(lines.error().hint ==
        "known: softmax, mlp, 2nn, fedavg-cnn, lenet, pfl-cnn, resnet8, resnet20, char-lstm, "
        "har-cnn, tiny-transformer, layers");
}

TEST_CASE("a model without parameters and an input without values are refused", "[unit]") {
  const auto refusal = [](const Sizes& input, std::vector<std::string> lines) {
    const auto spec = ModelSpec::Parse(input, std::move(lines));
    REQUIRE_FALSE(spec.has_value());
    CHECK(spec.error().code == 1301);
    return spec.error().message;
  };
  CHECK(refusal({4}, {"relu"}) == "model.layers: the model has no parameters");
  CHECK(refusal({4}, {}) == "model.layers: the model has no parameters");
  CHECK(refusal({}, {"dense 1"}) == "model.input has 0 sizes; 1 to 4");
  CHECK(refusal({1, 1, 1, 1, 1}, {"dense 1"}) == "model.input has 5 sizes; 1 to 4");
  const std::string sizes = "model.input: each size is at least 1, their product below 2^32";
  CHECK(refusal({0}, {"dense 1"}) == sizes);
  CHECK(refusal({65536, 65536}, {"dense 1"}) == sizes);
  CHECK(refusal({4}, std::vector<std::string>(1025, "relu")) ==
        "model.layers has 1025 lines; at most 1024");
  CHECK(refusal({4}, std::vector<std::string>(600, "dense 4")) ==
        "model.layers: 1200 tensors; at most 1024");
  CHECK(refusal({4}, {"dense 4294967295", "dense 4294967295"}) ==
        "model.layers: tensor 2 \"fc1.bias\": more than 2^34 values up to here");
}

}  // namespace
}  // namespace skep::model
