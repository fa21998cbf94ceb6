// [model] and the optimiser of [client]: what is read, and what contradicts.
#include <string>
#include <vector>

#include "shared/config/experiment.h"
#include "tests/support/catch.h"

namespace skep::config {
namespace {

Loaded<Experiment> Load(const std::string& text) {
  auto loaded = ParseExperiment(text, "e.toml", {});
  INFO(FormatProblems(loaded.problems(), {.program = "x"}));
  REQUIRE(loaded.has_value());
  return std::move(loaded).value();
}

ModelConfig Model(const std::string& rows) {
  return Load("[model]\n" + rows).value.model;
}
ClientTraining Client(const std::string& rows) {
  return Load("[client]\n" + rows).value.client;
}

// "code place: message" of the only problem.
std::string Problem(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto loaded = ParseExperiment(text, "e.toml", {.sets = sets});
  REQUIRE_FALSE(loaded.has_value());
  REQUIRE(loaded.problems().size() == 1);
  const auto& problem = loaded.problems()[0];
  return std::to_string(problem.code) + " " + problem.place.Text() + ": " + problem.message;
}

TEST_CASE("every named architecture is accepted", "[unit]") {
  for (const char* name : {"softmax", "mlp", "2nn", "fedavg-cnn", "lenet", "pfl-cnn", "resnet8",
                           "resnet20", "char-lstm", "har-cnn", "tiny-transformer"}) {
    INFO(name);
    CHECK(Model("architecture = \"" + std::string(name) + "\"\n").architecture == name);
  }
}

TEST_CASE("two architectures have names of other frameworks, with a note", "[unit]") {
  const auto linear = Load("[model]\narchitecture = \"linear\"\n");
  CHECK(linear.value.model.architecture == "softmax");
  CHECK(linear.value.model.init == "zeros");
  CHECK(linear.notes.size() == 1);
  CHECK(Model("architecture = \"cifar-cnn\"\n").architecture == "pfl-cnn");
}

TEST_CASE("a list of layers is kept as it is written", "[unit]") {
  const ModelConfig model = Model(
      "architecture = \"layers\"\nlayers = [\"conv 8 3x3 same\", \"relu\", \"dense 10\"]\n"
      "input = [1, 28, 28]\n");
  CHECK(model.layers == std::vector<std::string>{"conv 8 3x3 same", "relu", "dense 10"});
  CHECK(model.input == std::vector<std::uint32_t>{1, 28, 28});
  CHECK(model.init == "fan-in");
}

TEST_CASE("activation, normalization and loss are read", "[unit]") {
  const ModelConfig model = Model(
      "architecture = \"lenet\"\nactivation = \"gelu\"\nnormalization = \"batch\"\n"
      "loss = \"binary_cross_entropy\"\n");
  CHECK(model.activation == "gelu");
  CHECK(model.normalization == "batch");
  CHECK(model.loss == "binary_cross_entropy");
  const ModelConfig plain = Model("architecture = \"2nn\"\n");
  CHECK(plain.activation == "relu");
  CHECK(plain.normalization == "none");
  CHECK(plain.loss == "auto");
}

TEST_CASE("activation and normalization are for presets that have them", "[unit]") {
  CHECK(Problem("[model]\narchitecture = \"char-lstm\"\nactivation = \"tanh\"\n") ==
        "1103 e.toml:3:1: \"model.activation\" is only for \"model.architecture\" = \"mlp\", "
        "\"2nn\", \"fedavg-cnn\", \"lenet\", \"pfl-cnn\", \"resnet8\", \"resnet20\" or "
        "\"har-cnn\"; it is \"char-lstm\"");
  CHECK(Problem("[model]\narchitecture = \"softmax\"\nnormalization = \"batch\"\n").substr(0, 4) ==
        "1103");
}

TEST_CASE("the optimisers of a client are read", "[unit]") {
  CHECK(Client("").optimizer == "sgd");
  for (const char* name : {"sgd", "adam", "adamw"}) {
    CHECK(Client("optimizer = \"" + std::string(name) + "\"\nweight_decay = 0.01\n").optimizer ==
          name);
  }
  const ClientTraining sgd = Client("momentum = 0.9\nnesterov = true\ngradient_clip = 2.5\n");
  CHECK(sgd.momentum == 0.9);
  CHECK(sgd.nesterov);
  CHECK(sgd.gradient_clip == 2.5);
}

TEST_CASE("momentum is for sgd", "[unit]") {
  CHECK(Problem("[client]\noptimizer = \"adam\"\nmomentum = 0.9\n") ==
        "1103 e.toml:3:1: \"client.momentum\" is only for \"client.optimizer\" = \"sgd\"; it is "
        "\"adam\"");
  CHECK(Client("optimizer = \"adamw\"\n").momentum == 0);
  CHECK_FALSE(Client("optimizer = \"adamw\"\n").nesterov);
  CHECK(Problem("[client]\nnesterov = true\n") ==
        "1103 e.toml:2:12: \"client.nesterov\" = true needs \"client.momentum\" above 0");
}

TEST_CASE("an optimiser, a loss or an initialiser that is none is refused", "[unit]") {
  CHECK(Problem("[client]\noptimizer = \"rmsprop\"\n").substr(0, 4) == "1102");
  CHECK(Problem("[model]\nloss = \"hinge\"\n").substr(0, 4) == "1102");
  CHECK(Problem("[model]\ninit = \"orthogonal\"\n").substr(0, 4) == "1102");
  CHECK(Problem("[model]\narchitecture = \"mlp\"\nactivation = \"swish\"\n").substr(0, 4) ==
        "1102");
}

TEST_CASE("init and initial_model exclude each other", "[unit]") {
  CHECK(Problem("[model]\ninit = \"he\"\ninitial_model = \"m.safetensors\"\n").substr(0, 4) ==
        "1103");
}

TEST_CASE("an effective configuration of a model reads back as the same", "[unit]") {
  const auto first = Load(
      "[model]\narchitecture = \"lenet\"\nactivation = \"tanh\"\nnormalization = \"group\"\n"
      "loss = \"mse\"\n[client]\noptimizer = \"adam\"\n");
  const auto again = Load(first.effective.AsToml());
  CHECK(again.value.model.activation == "tanh");
  CHECK(again.value.model.normalization == "group");
  CHECK(again.value.model.loss == "mse");
  CHECK(again.value.client.optimizer == "adam");
  CHECK(again.effective.ConfigHash() == first.effective.ConfigHash());
}

}  // namespace
}  // namespace skep::config
