#include <algorithm>
#include <cmath>
#include <set>

#include "shared/base/rng.h"
#include "shared/model/model_spec.h"
#include "tests/support/catch.h"

namespace skep::model {
namespace {

ModelSpec Preset(const std::string& name, std::vector<std::uint32_t> input, std::uint32_t classes) {
  return ModelSpec::Parse(std::move(input), PresetLines(name, {64}, classes).value()).value();
}

Error RefusalOf(std::vector<std::string> lines) {
  const auto spec = ModelSpec::Parse({4}, std::move(lines));
  REQUIRE_FALSE(spec.has_value());
  return spec.error();
}

TEST_CASE("presets have the parameter counts of their definitions", "[unit]") {
  CHECK(Preset("softmax", {60}, 10).layout()->values() == 610);
  CHECK(Preset("softmax", {784}, 10).layout()->values() == 7850);
  CHECK(Preset("2nn", {1, 28, 28}, 10).layout()->values() == 199210);
  CHECK(Preset("mlp", {13}, 2).layout()->values() == 13 * 64 + 64 + 64 * 2 + 2);
}

TEST_CASE("the 2nn preset is a list of layers with the tensors in order", "[unit]") {
  const ModelSpec spec = Preset("2nn", {784}, 10);
  CHECK(spec.lines() ==
        std::vector<std::string>{"dense 200", "relu", "dense 200", "relu", "dense 10"});
  std::vector<std::string> names;
  for (const TensorSpec& tensor : spec.layout()->tensors()) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
                                          "fc3.weight", "fc3.bias"});
  CHECK(spec.layout()->tensors()[0].shape == std::vector<std::uint32_t>{200, 784});
  CHECK(spec.outputs() == 10);
  CHECK(std::get<DenseLayer>(spec.layers()[4]).weight == 4);
}

TEST_CASE("equal products of the input size give the same layout", "[unit]") {
  CHECK(Preset("2nn", {784}, 10).layout()->hash() ==
        Preset("2nn", {1, 28, 28}, 10).layout()->hash());
}

TEST_CASE("a dense layer without bias has one tensor", "[unit]") {
  const ModelSpec spec = ModelSpec::Parse({2, 2}, {"flatten", "dense 3 nobias"}).value();
  REQUIRE(spec.layout()->tensors().size() == 1);
  CHECK(spec.layout()->values() == 12);
  CHECK_FALSE(std::get<DenseLayer>(spec.layers()[1]).has_bias);
}

TEST_CASE("a layer that this build lacks is refused by name, with those it has", "[unit]") {
  const Error error = RefusalOf({"dense 4", "conv 32 5x5 same"});
  CHECK(error.code == 1019);
  CHECK(error.message ==
        "model.layers, line 2 \"conv 32 5x5 same\": this build has no layer \"conv\"");
  CHECK(error.hint == "it has dense, relu, flatten");
}

TEST_CASE("an unknown preset is refused with those this build has", "[unit]") {
  const auto lines = PresetLines("lenet", {}, 10);
  REQUIRE_FALSE(lines.has_value());
  CHECK(lines.error().code == 1019);
  CHECK(lines.error().message == "this build has no model \"lenet\"");
  CHECK(lines.error().hint == "it has softmax, mlp, 2nn, layers");
}

TEST_CASE("an unknown word is refused by line", "[unit]") {
  const Error layer = RefusalOf({"dens 4"});
  CHECK(layer.code == 1301);
  CHECK(layer.message == "model.layers, line 1 \"dens 4\": unknown word \"dens\"");
  CHECK(layer.hint == "did you mean \"dense\"?");
  CHECK(RefusalOf({"pooling 2"}).hint == "known: dense, relu, flatten");
  const Error option = RefusalOf({"dense 4 nobais"});
  CHECK(option.message == "model.layers, line 1 \"dense 4 nobais\": unknown word \"nobais\"");
  CHECK(option.hint == "did you mean \"nobias\"?");
}

TEST_CASE("numbers of outputs that are none are refused", "[unit]") {
  for (const char* line : {"dense", "dense 0", "dense -1", "dense 1.5", "dense x",
                           "dense 4294967296", "relu 3", "dense 4 nobias nobias", ""}) {
    INFO(line);
    CHECK(RefusalOf({line}).code == 1301);
  }
}

TEST_CASE("a model without parameters and an input without values are refused", "[unit]") {
  CHECK(RefusalOf({"relu"}).message == "the model has no parameters");
  CHECK(RefusalOf({}).code == 1301);
  for (const std::vector<std::uint32_t>& input :
       {std::vector<std::uint32_t>{}, {0}, {1, 1, 1, 1, 1}, {65536, 65536}}) {
    const auto spec = ModelSpec::Parse(input, {"dense 1"});
    REQUIRE_FALSE(spec.has_value());
    CHECK(spec.error().code == 1301);
  }
}

TEST_CASE("layers whose weights exceed the limit are refused", "[unit]") {
  CHECK(RefusalOf({"dense 4294967295", "dense 4294967295"}).code == 1301);
}

TEST_CASE("fan-in draws weights and biases in layout order, rounded once", "[unit]") {
  const ModelSpec spec = ModelSpec::Parse({3}, {"dense 2", "relu", "dense 2"}).value();
  const Params params = InitialParams(spec, Initialiser::kFanIn, 42);
  RandomStream stream(42, {.purpose = Purpose::kInitialWeights});
  for (std::size_t i = 0; i < params.values().size(); ++i) {
    const double bound = 1.0 / std::sqrt(i < 8 ? 3.0 : 2.0);
    REQUIRE(params.values()[i] == static_cast<float>((2.0 * stream.Uniform() - 1.0) * bound));
  }
}

TEST_CASE("glorot and he leave biases at zero and keep their variances", "[unit]") {
  const ModelSpec spec = ModelSpec::Parse({300}, {"dense 200"}).value();
  for (const Initialiser initialiser : {Initialiser::kGlorot, Initialiser::kHe}) {
    const Params params = InitialParams(spec, initialiser, 1);
    double squares = 0;
    for (const float w : params.Tensor(0)) squares += double{w} * w;
    const double expected = initialiser == Initialiser::kGlorot ? 2.0 / 500 : 2.0 / 300;
    CHECK(squares / 60000 == Approx(expected).epsilon(0.03));
    const auto bias = params.Tensor(1);
    CHECK(std::all_of(bias.begin(), bias.end(), [](float b) { return b == 0; }));
  }
}

TEST_CASE("zeros is all zeros, and another seed gives other weights", "[unit]") {
  const ModelSpec spec = Preset("softmax", {10}, 3);
  const Params zeros = InitialParams(spec, Initialiser::kZeros, 1);
  CHECK(std::all_of(zeros.values().begin(), zeros.values().end(), [](float v) { return v == 0; }));
  const auto hash = [&](std::uint64_t seed) {
    return InitialParams(spec, Initialiser::kFanIn, seed).ModelHash();
  };
  CHECK(hash(1) == hash(1));
  CHECK_FALSE(hash(1) == hash(2));
}

}  // namespace
}  // namespace skep::model
