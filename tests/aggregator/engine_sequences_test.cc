// From a file of sequences to a run: text for char-lstm, windows of a sensor for har-cnn.
#include "aggregator/engine/run_spec.h"
#include "shared/data/experiment_data.h"
#include "shared/wire/codec.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::aggregator {
namespace {

config::Experiment ParsedIn(const test::TemporaryFolder& folder, const std::string& toml) {
  const auto file = folder.Write("e.toml", toml);
  auto loaded =
      config::LoadExperiment(file.string(), {.sets = {}, .program = config::Program::kSimulator});
  REQUIRE(loaded.has_value());
  return std::move(loaded).value().value;
}

RunInputs InputsOf(const data::LoadedData& loaded) {
  RunInputs inputs;
  inputs.population = "bees";
  inputs.data = loaded.spec;
  inputs.input_shape = loaded.train->input_shape;
  inputs.labels_per_row = loaded.train->labels_per_row;
  return inputs;
}

Result<RunSpec> RunOf(config::Experiment experiment) {
  const data::LoadedData loaded = data::Load(data::DataOptionsOf(experiment.data, 0)).value();
  experiment.training.invited = 1;
  return MakeRunSpec(experiment, InputsOf(loaded));
}

// `columns` numbers and a label in each of `rows` rows.
std::string Windows(std::size_t columns, std::size_t rows) {
  std::string csv;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < columns; ++i) csv += std::to_string((row + i) % 7) + ".5,";
    csv += row % 2 == 0 ? "walk\n" : "run\n";
  }
  return csv;
}

TEST_CASE("768 columns of a table are 128 times of six channels for har-cnn", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("w.csv", Windows(768, 10));
  const std::string toml =
      "[data]\npath = \"w.csv\"\npartition = \"iid\"\nnum_clients = 2\n"
      "[model]\narchitecture = \"har-cnn\"\n";
  const RunSpec spec = RunOf(ParsedIn(folder, toml + "input = [128, 6]\n")).value();
  CHECK(spec.model.input() == std::vector<std::uint32_t>{128, 6});
  // Two classes in place of five: three rows of 128 weights and a bias less.
  CHECK(spec.model.layout()->values() == 249637 - 3 * 129);
  CHECK(wire::EncodePlan(spec.plan).has_value());

  const auto other = RunOf(ParsedIn(folder, toml + "input = [128, 9]\n"));
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().code == 1301);
}

TEST_CASE("the plan of a play carries its symbols, its task and the length", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("p.txt", "A:\nab c\nb\n");
  const std::string toml =
      "[data]\npath = \"p.txt\"\nformat = \"plays\"\n[model]\narchitecture = \"char-lstm\"\n";
  const RunSpec spec = RunOf(ParsedIn(folder, toml)).value();
  CHECK(spec.model.input() == std::vector<std::uint32_t>{80});
  CHECK(spec.model.positions() == 80);
  CHECK(spec.model.outputs() == 5);
  const wire::Plan plan = wire::DecodePlan(wire::EncodePlan(spec.plan).value()).value();
  CHECK(plan.data->task == wire::DataTask::kNextToken);
  CHECK(plan.data->classes == std::vector<std::string>{"U+000A", "U+0020", "a", "b", "c"});
  const RunSpec shorter = RunOf(ParsedIn(folder, toml + "input = [12]\n")).value();
  CHECK(shorter.model.positions() == 12);
}

TEST_CASE("plays are natural clients without a column that says so", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string plays = "[data]\npath = \"p.txt\"\nformat = \"plays\"\n";
  CHECK(ParsedIn(folder, plays).data.partition == "natural");
  CHECK(ParsedIn(folder, plays + "partition = \"natural\"\n").data.partition == "natural");
  CHECK(ParsedIn(folder, plays + "partition = \"iid\"\n").data.partition == "iid");
  CHECK(ParsedIn(folder, plays).data.text_length == 80);
  CHECK(ParsedIn(folder, plays + "[model]\ninput = [40]\n").data.text_length == 40);
}

}  // namespace
}  // namespace skep::aggregator
