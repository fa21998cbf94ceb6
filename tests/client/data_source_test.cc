// What a device trains on: its own file, or its part of an experiment's data.
#include <filesystem>
#include <set>

#include "client/agent/settings.h"
#include "client/cli/data_source.h"
#include "client/embed/task.h"
#include "shared/data/experiment_data.h"
#include "shared/data/reader.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::cli {
namespace {

using test::TemporaryFolder;

std::string Sites() {
  std::string table = "site,a,b,y\n";
  for (int row = 0; row < 60; ++row) {
    table += std::string(row % 3 == 0 ? "north" : "south") + "," + std::to_string(row) + "," +
             std::to_string(row * row % 17) + (row % 2 == 0 ? ",no\n" : ",yes\n");
  }
  return table;
}

std::string Experiment(const std::string& more) {
  return "schema = 1\nseed = 7\n[data]\npath = \"sites.csv\"\nlabel = \"y\"\n"
         "client_test_fraction = 0.25\n" +
         more + "\n[model]\narchitecture = \"softmax\"\n[training]\nclients_per_round = 2\n";
}

config::ClientConfig PartOf(const std::filesystem::path& experiment, std::uint32_t part) {
  config::ClientConfig config;
  config.experiment = experiment.string();
  config.part = part;
  return config;
}

// As it reaches a data source.
std::optional<data::DataSpec> AsTold(const std::optional<wire::DataSpec>& spec) {
  return ReadDataSpec(embed::DataSpecJson(spec)).value();
}

std::optional<data::DataSpec> Spec() {
  return AsTold(wire::DataSpec{.task = wire::DataTask::kClassification,
                               .features = {{.name = "b", .offset = 1, .scale = 2}, {.name = "a"}},
                               .classes = {"no", "yes"},
                               .label = "y"});
}

TEST_CASE("part k holds the rows of the simulator's client k, in its order", "[unit]") {
  const TemporaryFolder place;
  (void)place.Write("sites.csv", Sites());
  const auto file =
      place.Write("experiment.toml",
                  Experiment("client_column = \"site\"\npartition = \"iid\"\nnum_clients = 4"));
  const auto loaded =
      config::LoadExperiment(file.string(), {.sets = {}, .program = config::Program::kSimulator});
  REQUIRE(loaded.has_value());
  const config::Experiment& experiment = loaded->value;
  const auto source = data::Load(data::DataOptionsOf(experiment.data, experiment.seed)).value();
  const auto split =
      data::Split(*source.train, 2, data::PartitionOptionsOf(experiment.data, experiment.seed))
          .value();
  for (ClientNumber part = 0; part < 4; ++part) {
    const LocalData local = LoadLocalData(PartOf(file, part), 99, std::nullopt).value();
    const data::ClientPart& expected = split.clients[part];
    REQUIRE(local.rows.train.size() == expected.train.size());
    REQUIRE(local.rows.test.size() == expected.test.size());
    CHECK(local.rows.dataset->rows == expected.train.size() + expected.test.size());
    std::vector<float> ours(2 * expected.train.size());
    std::vector<float> theirs(ours.size());
    std::vector<std::int32_t> our_labels(expected.train.size());
    std::vector<std::int32_t> their_labels(expected.train.size());
    local.rows.dataset->Gather(local.rows.train, ours.data(), our_labels.data());
    source.train->Gather(expected.train, theirs.data(), their_labels.data());
    CHECK(ours == theirs);
    CHECK(our_labels == their_labels);
  }
}

TEST_CASE("without a part the client number counts; a part that is not there is 1102", "[unit]") {
  const TemporaryFolder place;
  (void)place.Write("sites.csv", Sites());
  const auto file = place.Write("experiment.toml", Experiment("client_column = \"site\""));
  config::ClientConfig config = PartOf(file, 0);
  config.part.reset();
  const LocalData north = LoadLocalData(config, 0, std::nullopt).value();
  const LocalData south = LoadLocalData(config, 1, std::nullopt).value();
  CHECK(std::set<std::string>{north.owner, south.owner} == std::set<std::string>{"north", "south"});
  CHECK(north.rows.dataset->rows != south.rows.dataset->rows);
  const auto third = LoadLocalData(config, 2, std::nullopt);
  REQUIRE_FALSE(third.has_value());
  CHECK(third.error().code == 1102);
}

TEST_CASE("a file of one's own is matched to the plan by name and scaled by it", "[unit]") {
  const TemporaryFolder place;
  config::ClientConfig config;
  config.data.path = place.Write("own.csv", "a,y,b\n5,yes,3\n6,no,9\n").string();
  config.data.label = "y";
  config.data.test_fraction = 0;
  const LocalData local = LoadLocalData(config, 0, Spec()).value();
  REQUIRE(local.rows.train.size() == 2);
  std::vector<float> x(4);
  std::vector<std::int32_t> y(2);
  const std::vector<std::uint32_t> rows{0, 1};
  local.rows.dataset->Gather(rows, x.data(), y.data());
  const bool is_in_file_order = x[1] == 5;
  CHECK(x == (is_in_file_order ? std::vector<float>{1, 5, 4, 6} : std::vector<float>{4, 6, 1, 5}));
  CHECK(y ==
        (is_in_file_order ? std::vector<std::int32_t>{1, 0} : std::vector<std::int32_t>{0, 1}));
}

TEST_CASE("data that do not suit the plan are 7414, and no value of theirs is told", "[unit]") {
  const TemporaryFolder place;
  config::ClientConfig config;
  config.data.label = "y";
  for (const char* table : {"a,y\n1,yes\n", "a,b,y\n1,2,perhaps\n", "a,b,y\n1,secret,yes\n"}) {
    config.data.path = place.Write("own.csv", table).string();
    const auto local = LoadLocalData(config, 0, Spec());
    REQUIRE_FALSE(local.has_value());
    CHECK(local.error().code == 7414);
    CHECK(local.error().message.find("secret") == std::string::npos);
    CHECK(local.error().message.find("perhaps") == std::string::npos);
  }
}

constexpr const char* kPlay = "A:\nab\nba\n\nB:\nbb\na\naab\n";

wire::Plan TextPlan() {
  wire::Plan plan;
  plan.data = wire::DataSpec{.task = wire::DataTask::kNextToken,
                             .features = {{.name = "x"}},
                             .classes = {"U+000A", "a", "b"},
                             .label = ""};
  return plan;
}

TEST_CASE("a device reads its role of a play with all labels of a line", "[unit]") {
  const TemporaryFolder place;
  (void)place.Write("play.txt", kPlay);
  const auto file = place.Write(
      "experiment.toml", "[data]\npath = \"play.txt\"\nformat = \"plays\"\nshuffle = false\n");
  const wire::Plan plan = TextPlan();
  const LocalData local = LoadLocalData(PartOf(file, 1), 0, AsTold(plan.data), 3).value();
  CHECK(local.owner == "B");
  const data::Dataset& rows = *local.rows.dataset;
  CHECK(rows.labels_per_row == 3);
  CHECK(rows.rows == 2);
  CHECK(rows.bytes == std::vector<std::uint8_t>{0, 2, 2, 0, 1, 0});
  CHECK(rows.labels == std::vector<std::int32_t>{2, 2, 0, 1, 0, -1});
}

TEST_CASE("a play of one's own is cut to the length of the plan", "[unit]") {
  const TemporaryFolder place;
  config::ClientConfig config;
  config.data.path = place.Write("play.txt", kPlay).string();
  config.data.format = "plays";
  const wire::Plan plan = TextPlan();
  const LocalData local = LoadLocalData(config, 0, AsTold(plan.data), 2).value();
  CHECK(local.rows.dataset->input_shape == std::vector<std::uint32_t>{2});
  CHECK(local.rows.train.size() == 5);
  CHECK(local.rows.test.size() == 4);
  wire::Plan unknown = plan;
  unknown.data->classes = {"U+000A", "a"};
  const auto refused = LoadLocalData(config, 0, AsTold(unknown.data), 2);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 7414);
}

TEST_CASE("a description of data survives the way to a data source, bit for bit", "[unit]") {
  const wire::DataSpec spec{
      .task = wire::DataTask::kClassification,
      .features = {{.name = "a \"quoted\" name", .offset = 0.1, .scale = 1.0 / 3},
                   {.name = "colour",
                    .kind = wire::FeatureKind::kCategorical,
                    .categories = {"rosé", "red"}}},
      .classes = {"no", "yes"},
      .label = "y"};
  const data::DataSpec told = AsTold(spec).value();
  CHECK(told.task == data::Task::kClassification);
  CHECK(told.label == "y");
  CHECK(told.classes == spec.classes);
  REQUIRE(told.features.size() == 2);
  CHECK(told.features[0].name == spec.features[0].name);
  CHECK(told.features[0].offset == 0.1);
  CHECK(told.features[0].scale == 1.0 / 3);
  CHECK_FALSE(told.features[0].is_categorical);
  CHECK(told.features[1].is_categorical);
  CHECK(told.features[1].categories == spec.features[1].categories);
  CHECK_FALSE(AsTold(std::nullopt).has_value());
  for (const char* damaged : {"{", "[]", "{\"task\":1}", "{\"task\":\"x\"}"}) {
    CHECK(ReadDataSpec(damaged).error().code == 7414);
  }
}

TEST_CASE("no data, and data that are not there, have their numbers", "[unit]") {
  config::ClientConfig config;
  CHECK(LoadLocalData(config, 0, std::nullopt).error().code == 7402);
  config.data.path = "/nowhere/at/all.csv";
  CHECK(LoadLocalData(config, 0, std::nullopt).error().code == 1201);
  config.data.path.clear();
  config.experiment = "/nowhere/experiment.toml";
  CHECK(LoadLocalData(config, 0, std::nullopt).error().code == 1010);
}

TEST_CASE("the instruction set is the experiment's where it pins one", "[unit]") {
  const TemporaryFolder place;
  const auto file = place.Write("experiment.toml", Experiment("") + "[run]\nisa = \"portable\"\n");
  CHECK(TrainingIsa(PartOf(file, 0)).value() == "portable");
  CHECK(TrainingIsa(config::ClientConfig{}).value() == "auto");
}

TEST_CASE("a clock that shows a time before this version is not right", "[unit]") {
  CHECK(agent::CheckClock(1'000'000'000'000).error().code == 3106);
  CHECK(agent::CheckClock(1'800'000'000'000).has_value());
}

}  // namespace
}  // namespace skep::cli
