// Every named architecture in whole simulations: each learns, and gives the same bits for any
// number of workers. What it did is printed.
#include <array>
#include <set>

#include <fmt/format.h>

#include "shared/base/rng.h"
#include "shared/model/model_spec.h"
#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

constexpr int kValues = 256;
constexpr int kRows = 160;

// Three classes of stripes: of 1, 16 and 64 values. They are textures of an image of 16 or 8 wide
// and rhythms of a window.
std::string Stripes() {
  constexpr std::array kWidths{1, 16, 64};
  RandomStream stream(3, {.purpose = Purpose::kSyntheticData});
  std::string text;
  for (int i = 0; i < kValues; ++i) text += fmt::format("x{},", i);
  text += "outcome\n";
  for (std::size_t row = 0; row < kRows; ++row) {
    const int width = kWidths[row % kWidths.size()];
    for (int i = 0; i < kValues; ++i) {
      text += fmt::format("{:.3f},", 0.3 * stream.Normal() + (i / width % 2 == 0 ? 1.0 : -1.0));
    }
    text += fmt::format("{}\n", row % kWidths.size());
  }
  return text;
}

// Twelve roles who count in letters, each from a letter of its own.
std::string Counting() {
  std::string text;
  for (int role = 0; role < 12; ++role) {
    text += fmt::format("R{}:\n", role);
    for (int line = 0; line < 10; ++line) {
      for (int i = 0; i < 15; ++i) text += static_cast<char>('a' + (role + line + i) % 6);
      text += '\n';
    }
    text += '\n';
  }
  return text;
}

// An experiment on plays.txt.
std::string PlaysExperiment() {
  return R"toml(schema = 1
name = "plays"
seed = 7
[data]
path = "plays.txt"
format = "plays"
[model]
input = [16]
[training]
clients_per_round = 4
client_eval_every = 0
metrics = ["accuracy", "loss"]
[client]
batch_size = 4
)toml";
}

struct Trial {
  std::string name;
  std::vector<std::string> sets;
  double learns = 0.8;  // accuracy, where chance is a third; at text a sixth
};

std::vector<Trial> NamedArchitectures() {
  const std::string small = "model.input=[4, 8, 8]";
  return {{"softmax", {"model.architecture=softmax"}},
          {"mlp", {"model.architecture=mlp"}},
          {"2nn", {"model.architecture=2nn"}},
          {"fedavg-cnn", {"model.architecture=fedavg-cnn", small}},
          {"pfl-cnn", {"model.architecture=pfl-cnn", small}},
          {"lenet", {"model.architecture=lenet", "model.input=[1, 16, 16]"}, 0.5},
          {"resnet8", {"model.architecture=resnet8", small}},
          {"resnet20", {"model.architecture=resnet20", small}},
          {"har-cnn", {"model.architecture=har-cnn", "model.input=[64, 4]"}},
          {"char-lstm", {"model.architecture=char-lstm"}, 0.4},
          {"tiny-transformer", {"model.architecture=tiny-transformer"}}};
}

bool IsText(const Trial& trial) {
  return trial.name == "char-lstm" || trial.name == "tiny-transformer";
}

// The folders of both experiments.
class Trials {
 public:
  Trials() {
    (void)stripes_.folder().Write("table.csv", Stripes());
    (void)plays_.folder().Write("plays.txt", Counting());
    (void)plays_.folder().Write("experiment.toml", PlaysExperiment());
  }
  [[nodiscard]] Plan PlanOf(const Trial& trial) const {
    std::vector<std::string> sets = trial.sets;
    sets.insert(sets.end(),
                {"run.device=cpu", "training.rounds=3", "training.client_eval_every=0",
                 "client.local_epochs=2", "client.optimizer=adam", "client.learning_rate=0.003"});
    return (IsText(trial) ? plays_ : stripes_).MakePlanWith(sets);
  }

 private:
  ExperimentFolder stripes_;
  ExperimentFolder plays_;
};

Outcome RunWith(const Plan& plan, std::size_t jobs) {
  SimulationSetup setup = MakeSetup(plan);
  setup.jobs = jobs;
  return RunToEnd(std::move(setup));
}

TEST_CASE("every named architecture learns in a simulation", "[slow]") {
  const Trials trials;
  std::set<std::string> tried;
  for (const Trial& trial : NamedArchitectures()) {
    INFO(trial.name);
    const Plan plan = trials.PlanOf(trial);
    const Outcome outcome = RunWith(plan, 2);
    REQUIRE(outcome.end.state == EndState::kFinished);
    REQUIRE(outcome.recording.rounds.size() == 3);
    const Metrics& first = outcome.recording.rounds.front().metrics;
    const Metrics& last = outcome.recording.rounds.back().metrics;
    fmt::print("{:<17}{:>10} parameters, loss {:.3f} then {:.3f}, accuracy {:.3f}\n", trial.name,
               plan.spec->model.layout()->values(), first.at("train/loss").value(),
               last.at("train/loss").value(), last.at("test/accuracy").value());
    CHECK(last.at("train/loss").value() < first.at("train/loss").value());
    CHECK(last.at("test/accuracy").value() > trial.learns);
    CHECK(outcome.recording.rounds.back().counts.ok == 4);
    tried.insert(trial.name);
  }
  for (const std::string& name : model::PresetNames()) {
    INFO(name << " was not tried");
    CHECK(tried.contains(name));
  }
}

TEST_CASE("one, two and four workers give the same bits for every kind of layer", "[slow]") {
  const Trials trials;
  std::vector<Trial> all = NamedArchitectures();
  all.push_back({"batch norm",
                 {"model.architecture=lenet", "model.input=[1, 16, 16]",
                  "model.normalization=batch", "client.batch_tail=merge"}});
  all.push_back({"gru",
                 {"model.architecture=layers", "model.input=[64, 4]",
                  "model.layers=[\"gru 8\", \"norm layer\", \"globalpool\", \"dropout "
                  "0.2\", \"dense 3\"]"}});
  for (const Trial& trial : all) {
    INFO(trial.name);
    Plan plan = trials.PlanOf(trial);
    const Outcome one = RunWith(plan, 1);
    REQUIRE(one.end.state == EndState::kFinished);
    CHECK(one.end.model != plan.spec->initial_model);
    for (const std::size_t jobs : {2U, 4U}) {
      const Outcome more = RunWith(plan, jobs);
      INFO(jobs << " workers");
      CHECK(more.end.model == one.end.model);
      CHECK(more.end.result_sha256 == one.end.result_sha256);
    }
  }
}

}  // namespace
}  // namespace skep::simulator
