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

// "code place: message / hint" of an error that something else than the configuration found.
std::string Located(const std::string& text, const Error& error,
                    std::initializer_list<std::string_view> keys = {},
                    const std::vector<std::string>& sets = {}) {
  auto loaded = ParseExperiment(text, "e.toml", {.sets = sets});
  REQUIRE(loaded.has_value());
  const auto problem = ProblemOf(error, loaded->effective, keys);
  return std::to_string(problem.code) + " " + problem.place.Text() + ": " + problem.message;
}

TEST_CASE("an error is shown at the key that it names, if the file gives it", "[unit]") {
  const std::string text =
      "[model]\narchitecture = \"layers\"\nlayers = [\"relu\",\n  \"dense 3\", \"\u00e9\", \"x\"]\n"
      "[client]\nbatch_size = 7\n";
  const auto at = [&](const std::string& message, const std::string& hint = "") {
    const std::string shown = Located(text, {1301, message, hint}, {"model.architecture"});
    return shown.substr(5, shown.find(": ") - 5);
  };
  CHECK(at("client.batch_size is 7: no") == "e.toml:6:14");
  CHECK(at("no key", "raise client.batch_size.") == "e.toml:6:14");
  CHECK(at("no key", "model.input is not given") == "e.toml:2:16");
  CHECK(at("client.batch_size_limit is another key") == "e.toml:2:16");
  CHECK(at("client.batch_size before model.layers") == "e.toml:6:14");
  CHECK(at("model.layers: as a whole") == "e.toml:3:10");
  CHECK(at("model.layers, line 1 \"relu\": no") == "e.toml:3:11");
  CHECK(at("model.layers, line 2 \"dense 3\": no") == "e.toml:4:3");
  CHECK(at("model.layers, line 4 \"x\": no") == "e.toml:4:19");
  CHECK(at("model.layers, line 9 \"x\": no") == "e.toml:3:10");
  CHECK(Located("[model]\ninit = \"he\"\n", {1301, "nothing", ""}) == "1301 e.toml: nothing");
  CHECK(Located("", {1301, "nothing", ""}, {"model.layers"}) == "1301 : nothing");
}

TEST_CASE("an item of an option's list has its place, too, with the caret beneath", "[unit]") {
  auto loaded = ParseExperiment(
      "", "e.toml",
      {.sets = {"seed=1", "model.architecture=layers", "model.layers = [\"relu\", \"dense 3\"]"}});
  REQUIRE(loaded.has_value());
  const Error error{1301, "model.layers, line 2 \"dense 3\": no", "yes"};
  CHECK(FormatProblems({ProblemOf(error, loaded->effective)}, {.program = "x"}) ==
        "error[SKEP-1301]: --set:3:25: model.layers, line 2 \"dense 3\": no\n"
        "    3 | model.layers = [\"relu\", \"dense 3\"]\n"
        "      |                         ^^^^^^^^^ yes\n"
        "   x explain SKEP-1301   ·   x explain model\n");
}

TEST_CASE("items of a line that is too long to show are placed at their list", "[unit]") {
  const std::string text =
      "[model]\narchitecture = \"layers\"\nlayers = [" + std::string(5000, ' ') + "\"relu\"]\n";
  CHECK(Located(text, {1301, "model.layers, line 1: no", ""}) ==
        "1301 e.toml:3:10: model.layers, line 1: no");
}

TEST_CASE("a step size that vanishes is refused by its first round", "[unit]") {
  const std::string start = "[training]\nrounds = 50\n[client]\nlearning_rate = 0.1\n";
  CHECK(Problem(start + "schedule = \"step\"\nlearning_rate_decay = 0.001\n") ==
        "1103 e.toml:6:23: \"client.learning_rate_decay\" = 0.001 makes the step size of round 14 "
        "1e-40: too small for any weight to change");
  // The same rate, decayed less often.
  const ClientTraining seldom =
      Client("schedule = \"step\"\nlearning_rate_decay = 0.001\ndecay_every = 4\n");
  CHECK(FirstIdleRound(seldom, 52) == 0);
  CHECK(FirstIdleRound(seldom, 53) == 53);
  CHECK(FirstIdleRound(seldom, 1'000'000) == 53);
  CHECK(Problem(start + "schedule = \"exponential\"\nlearning_rate_decay = 1e-300\n")
            .find("of round 2 ") != std::string::npos);
  const ClientTraining cosine = Client("schedule = \"cosine\"\n");
  CHECK(FirstIdleRound(cosine, 1'000'000) == 0);
  CHECK(LearningRateOf(cosine, 10, 6) == Approx(0.05));
  CHECK(Problem("[client]\nlearning_rate = 1e-300\n") ==
        "1102 e.toml:2:17: \"client.learning_rate\" is 1e-300: too small for any weight to change");
}

TEST_CASE("keys of a decay say that a constant schedule ignores them", "[unit]") {
  for (const char* row : {"learning_rate_decay = 0.5", "decay_every = 3"}) {
    const auto loaded = Load("[client]\n" + std::string(row) + "\n");
    REQUIRE(loaded.notes.size() == 1);
    CHECK(loaded.notes[0].text.ends_with(
        "is only for \"client.schedule\" = \"exponential\" or \"step\"; it is \"constant\": it has "
        "no effect"));
  }
  CHECK(Problem("", {"client.learning_rate_decay=0.5"}).substr(0, 12) == "1103 --set:1");
}

TEST_CASE("what judges the shared model has no meaning with fedbn", "[unit]") {
  const std::string fedbn = "[personalization]\nmethod = \"fedbn\"\n";
  const std::string said = " judges the shared model, which fedbn leaves without norm layers";
  const auto loaded = Load(fedbn + "[training]\ntarget = 0.8\n");
  REQUIRE(loaded.notes.size() == 1);
  CHECK(loaded.notes[0].text == "\"training.target\"" + said + ": it has no effect");
  CHECK(Problem(fedbn, {"training.target=0.8"}) == "1103 --set:1:17: \"training.target\"" + said);
  CHECK(Problem(fedbn + "[training]\npatience = 3\n") ==
        "1103 e.toml:4:12: \"training.patience\"" + said);
  CHECK(Problem(fedbn + "[training]\ntarget = 0.8\nstop_at_target = true\n") ==
        "1103 e.toml:5:18: \"training.stop_at_target\"" + said);
  CHECK(Load("[training]\ntarget = 0.8\n").notes.empty());
}

TEST_CASE("values of a device are checked where they stand", "[unit]") {
  for (const char* name : {"auto", "cpu", "cuda", "cuda:0", "cuda:12"}) {
    CHECK(Load("[run]\ndevice = \"" + std::string(name) + "\"\n").value.run.device == name);
  }
  CHECK(Problem("[run]\ndevice = \"cuda:\"\n") ==
        "1102 e.toml:2:10: \"run.device\" is \"cuda:\"; allowed \"auto\", \"cpu\", \"cuda\", "
        "\"cuda:N\"");
  CHECK(Problem("[run]\ngpu_memory_limit = \"0MiB\"\n") ==
        "1102 e.toml:2:20: \"run.gpu_memory_limit\" is \"0MiB\"; allowed at least \"1KiB\" or "
        "\"auto\"");
}

TEST_CASE("a product of sizes beyond 64 bits is not printed as what is left of it", "[unit]") {
  auto loaded = Load("[model]\ninput = [1000000000, 1000000000, 1000000000, 1000000000]\n");
  DataFacts facts;
  facts.input = {784};
  const auto problems = FinishExperiment(loaded, facts);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message ==
        "\"model.input\" is [1000000000, 1000000000, 1000000000, 1000000000] (more than 2^32 "
        "values); an example of the data has 784");
  // 2^32 x 2^32 is 0 in 64 bits, and 784 x 2^64 would look like what is wanted.
  auto wrapped = Load("[model]\ninput = [65536, 65536, 65536, 65536]\n");
  CHECK(FinishExperiment(wrapped, facts).size() == 1);
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
