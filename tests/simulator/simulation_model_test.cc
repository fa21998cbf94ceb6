// Models beyond tables in a simulation: each trains, and what cannot train is refused when it is
// planned.
#include <set>

#include "client/trainer.h"
#include "shared/base/rng.h"
#include "shared/model/safetensors.h"
#include "simulator/failure_lines.h"
#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

// 64 numbers a row, three classes that differ in their first numbers.
std::string WideTable(int rows) {
  RandomStream stream(3, {.purpose = Purpose::kSyntheticData});
  std::string text;
  for (int i = 0; i < 64; ++i) text += "x" + std::to_string(i) + ",";
  text += "outcome\n";
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < 64; ++i) {
      text += std::to_string(stream.Normal() + (i % 3 == row % 3 ? 1.0 : 0.0)) + ",";
    }
    text += std::to_string(row % 3) + "\n";
  }
  return text;
}

class WideFolder : public ExperimentFolder {
 public:
  explicit WideFolder(int rows = 160) { (void)folder().Write("table.csv", WideTable(rows)); }
};

constexpr std::uint64_t kFourGib = std::uint64_t{4} << 30U;

// The first problem of a plan that is refused, on a machine with 4 GiB free.
config::Problem Refusal(const ExperimentFolder& folder, std::vector<std::string> sets) {
  auto prepared =
      Prepare({.file = folder.path("experiment.toml"), .sets = std::move(sets), .folder = ""});
  if (!prepared.has_value()) return prepared.problems().front();
  const auto plan = MakePlan(std::move(prepared).value(), RunId{}, kernels::ChooseDevice, kFourGib);
  REQUIRE_FALSE(plan.has_value());
  return plan.problems().front();
}

TEST_CASE("architectures of tables, images and windows train, each to its own model", "[unit]") {
  const WideFolder folder;
  const std::vector<std::vector<std::string>> models{
      {"model.architecture=softmax"},
      {"model.architecture=mlp", "model.normalization=batch", "client.batch_tail=merge"},
      {"model.architecture=2nn", "model.activation=gelu"},
      {"model.architecture=fedavg-cnn", "model.input=[1, 8, 8]"},
      {"model.architecture=resnet8", "model.input=[1, 8, 8]"},
      {"model.architecture=har-cnn", "model.input=[16, 4]"},
      {"model.architecture=layers", "model.input=[16, 4]",
       "model.layers=[\"gru 8\", \"globalpool\", \"dropout 0.2\", \"dense 3\"]"}};
  std::set<std::string> seen;
  for (const std::vector<std::string>& model : models) {
    INFO(model[0]);
    std::vector<std::string> sets = model;
    sets.insert(sets.end(), {"training.rounds=2", "training.client_eval_every=1"});
    const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith(sets)));
    CHECK(outcome.end.state == EndState::kFinished);
    REQUIRE(outcome.recording.rounds.size() == 2);
    CHECK(outcome.recording.rounds[1].counts.ok == 4);
    CHECK(seen.insert(outcome.end.model.Hex()).second);
  }
}

TEST_CASE("the optimisers and losses of a client give models of their own", "[unit]") {
  const ExperimentFolder folder;
  std::set<std::string> seen;
  for (const char* choice :
       {"client.optimizer=sgd", "client.optimizer=adam", "client.optimizer=adamw",
        "client.momentum=0.9", "model.loss=mse", "model.loss=binary_cross_entropy"}) {
    INFO(choice);
    const Outcome outcome = RunToEnd(
        MakeSetup(folder.MakePlanWith({choice, "training.rounds=3", "client.weight_decay=0.01"})));
    CHECK(outcome.recording.rounds.at(0).counts.ok == 4);
    CHECK(seen.insert(outcome.end.model.Hex()).second);
  }
}

TEST_CASE("batch norm with a batch of one row is refused by client and rows", "[unit]") {
  // 12 clients of 8 training rows each: a fifth is held out, in the table and on each client.
  const WideFolder folder(150);
  const config::Problem problem =
      Refusal(folder, {"model.normalization=batch", "client.batch_size=7"});
  CHECK(problem.code == 1303);
  CHECK(problem.message ==
        "client 0 has 8 training rows: in batches of 7 one has a single row, on which batch norm "
        "cannot train");
  CHECK(problem.hint == "client.batch_tail = \"merge\" joins it to the batch before");
  CHECK(folder
            .MakePlanWith(
                {"model.normalization=batch", "client.batch_size=7", "client.batch_tail=merge"})
            .spec->model.has_batch_norm());
  CHECK(problem.place.Text() == "--set:2:19");
  const config::Problem one = Refusal(folder, {"model.normalization=batch", "client.batch_size=1"});
  CHECK(one.code == 1303);
  CHECK(one.place.Text() == "--set:2:19");
}

TEST_CASE("a client with one row is told what trains on it, whatever the batch", "[unit]") {
  // 60 rows stay for training: one each.
  const WideFolder folder(75);
  for (const char* batch : {"client.batch_size=all", "client.batch_size=8"}) {
    const config::Problem problem = Refusal(
        folder,
        {"model.normalization=batch", batch, "data.num_clients=60", "data.client_test_fraction=0"});
    CHECK(problem.code == 1303);
    CHECK(problem.message ==
          "client 0 has 1 training row: its batch has a single row, on which batch norm cannot "
          "train");
    CHECK(problem.hint == "group norm trains on one row: model.normalization = \"group\"");
    CHECK(problem.place.Text() == "--set:1:21");
  }
  // What the advice says, works.
  CHECK_FALSE(folder
                  .MakePlanWith({"model.normalization=group", "client.batch_size=all",
                                 "data.num_clients=60", "data.client_test_fraction=0"})
                  .spec->model.has_batch_norm());
  const std::vector<std::string> sets{"model.architecture=layers",
                                      "model.layers=[\"dense 4\", \"norm batch\", \"dense 3\"]",
                                      "data.num_clients=60", "data.client_test_fraction=0"};
  const config::Problem layers = Refusal(folder, sets);
  CHECK(layers.hint == "group norm trains on one row: \"norm group 1\" in model.layers");
  CHECK(layers.place.Text() == "--set:2:14");
}

TEST_CASE("memory is judged before a model is made, and the model's layers are shown", "[unit]") {
  const ExperimentFolder folder;
  const config::Problem wide =
      Refusal(folder, {"model.architecture=layers",
                       "model.layers=[\"dense 1000000000\", \"dense 2\"]", "run.jobs=1"});
  CHECK(wide.code == 1401);
  CHECK(wide.place.Text() == "--set:2:14");
  CHECK(wide.message.find("80 % of the free memory is 3.2 GiB") != std::string::npos);
  CHECK(wide.hint.find("take a smaller model; it has ") == 0);
  const config::Problem jobs =
      Refusal(folder, {"model.architecture=layers", "model.layers=[\"dense 5000000\", \"dense 2\"]",
                       "run.jobs=512"});
  CHECK(jobs.code == 1401);
  CHECK(jobs.hint == "lower run.jobs or use a smaller model");
  CHECK(jobs.place.Text() == "--set:3:10");
}

// A play of three symbols (a, b, the end of a line); "z" is in the test part alone.
class PlaysFolder : public ExperimentFolder {
 public:
  PlaysFolder() {
    std::string text;
    for (const char* role : {"A", "B"}) {
      text += std::string(role) + ":\n";
      for (int i = 0; i < 8; ++i) text += "ab\nb\n";
      text += "az\n\n";
    }
    (void)folder().Write("p.txt", text);
    (void)folder().Write("experiment.toml", R"toml(schema = 1
[data]
path = "p.txt"
format = "plays"
[model]
architecture = "layers"
layers = [
  "embedding 4",
  "dense 3",
]
[training]
rounds = 2
clients_per_round = 2
[run]
device = "cpu"
)toml");
  }
};

TEST_CASE("text of one place an example is evaluated, without what is no class", "[unit]") {
  const PlaysFolder folder;
  for (const char* input : {"model.input=[1]", "model.input=[4]"}) {
    const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith({input})));
    INFO(input << ": " << outcome.end.text);
    CHECK(outcome.end.state == EndState::kFinished);
    REQUIRE(outcome.recording.rounds.size() == 2);
    CHECK(outcome.recording.rounds[1].metrics.at("test/accuracy").has_value());
  }
}

TEST_CASE("what does not fit text is refused by check, at the line that says it", "[unit]") {
  const PlaysFolder folder;
  const auto refusal = [&](const std::string& layers) {
    return Refusal(folder, {"model.layers=" + layers});
  };
  const config::Problem few = refusal(R"(["embedding 4 symbols 2", "dense 3"])");
  CHECK(few.code == 1301);
  CHECK(few.place.Text() == "--set:1:15");
  const config::Problem many = refusal(R"(["embedding 4 symbols 1000000000", "dense 3"])");
  CHECK(many.code == 1401);
  const config::Problem long_input = Refusal(folder, {"model.input=[100000]"});
  CHECK(long_input.code == 1102);
  CHECK(long_input.place.Text() == "--set:1:13");
  const config::Problem outputs = refusal(R"(["embedding 4", "dense 4"])");
  CHECK(outputs.code == 1301);
  CHECK(outputs.place.Text() == "--set:1:14");
  CHECK(outputs.hint == "end with \"dense 3\"");
  (void)folder.folder().Write(
      "experiment.toml",
      "[data]\npath = \"p.txt\"\nformat = \"plays\"\n[model]\narchitecture = \"layers\"\n"
      "layers = [\n  \"embedding 4\",\n  \"conv 8 3x3\", # no image\n  \"dense 3\"]\n");
  const config::Problem conv = Refusal(folder, {});
  CHECK(conv.code == 1301);
  CHECK(conv.place.Text().ends_with("experiment.toml:8:3"));
  CHECK(conv.place.source_line == "  \"conv 8 3x3\", # no image");
  CHECK(conv.place.width == 12);
  CHECK(conv.topic == "model");
  CHECK(conv.hint == "for a sequence it is conv1d");
}

TEST_CASE("an embedding over numbers that are no symbols is refused by row", "[unit]") {
  const ExperimentFolder folder;
  std::string table = "x0,x1,outcome\n";
  for (int row = 0; row < 60; ++row) {
    table += std::to_string(row % 4) + "," + (row == 30 ? "9" : "1") + "," +
             std::to_string(row % 2) + "\n";
  }
  (void)folder.folder().Write("table.csv", table);
  const std::vector<std::string> sets{
      "model.architecture=layers", "data.normalize=none", "data.test_fraction=0",
      "model.layers=[\"embedding 4 symbols 4\", \"globalpool\", \"dense 2\"]"};
  const config::Problem beyond = Refusal(folder, sets);
  CHECK(beyond.code == 1301);
  CHECK(beyond.message ==
        "model.layers, line 1 \"embedding 4 symbols 4\": row 31 of the training data holds 9; "
        "symbols are the whole numbers from 0 to 3");
  CHECK(beyond.hint == "raise \"symbols\"");
  CHECK(beyond.place.Text() == "--set:4:15");
  std::vector<std::string> scaled = sets;
  scaled[1] = "data.normalize=standard";
  CHECK(Refusal(folder, scaled).hint == "symbols are not scaled: data.normalize = \"none\"");
}

TEST_CASE("inputs without bound are named as what keeps training from staying finite", "[unit]") {
  const ExperimentFolder folder;
  std::string table = "x0,outcome\n";
  for (int row = 0; row < 120; ++row) {
    table += (row % 2 == 0 ? "1e30," : "-3e29,") + std::to_string(row % 2) + "\n";
  }
  (void)folder.folder().Write("table.csv", table);
  const Plan plan = folder.MakePlanWith({"data.normalize=none"});
  CHECK(plan.prepared.data.notes.back() ==
        "inputs reach 1.00e+30: training on them may not stay finite; data.normalize = "
        "\"standard\" scales them");
  FailureLines lines;
  lines.Start(MakeRunStart(plan));
  ClientRecord client;
  client.outcome = aggregator::Outcome::kRejected;
  for (const int code : {2104, 2105, 7406}) {
    client.code = code;
    client.detail = "no";
    CHECK(lines.On(client).ends_with("; inputs are very large: look at data.normalize = \"none\""));
    (void)lines.On(RoundRecord{});
  }
  const Plan scaled = folder.MakePlanWith({"data.normalize=standard"});
  FailureLines usual;
  usual.Start(MakeRunStart(scaled));
  CHECK(usual.On(client).find("data.normalize") == std::string::npos);
  for (const std::string& note : scaled.prepared.data.notes) {
    CHECK(note.find("inputs reach") == std::string::npos);
  }
}

TEST_CASE("a model that answers at every place needs data with as many labels", "[unit]") {
  const config::Problem problem =
      Refusal(WideFolder(), {"model.architecture=layers", "model.input=[16, 4]",
                             "model.layers=[\"lstm 8\", \"dense 3\"]"});
  CHECK(problem.code == 1301);
  CHECK(problem.message == "the model answers at 16 places of an example, the data have 1 label");
}

TEST_CASE("the memory of a plan grows by a worker for each job", "[unit]") {
  const ExperimentFolder folder;
  const auto memory = [&](const std::string& jobs) {
    return folder.MakePlanWith({"run.jobs=" + jobs}).memory_bytes;
  };
  const std::uint64_t worker = memory("2") - memory("1");
  CHECK(memory("5") == memory("2") + 3 * worker);
  const Plan plan = folder.MakePlanWith();
  const auto training = client::ReadTrainingPlan(plan.spec->plan).value();
  CHECK(worker > client::WorkerBytes(training, 5));
}

TEST_CASE("an initial model under PyTorch's names starts a run, its counters are noted", "[unit]") {
  const ExperimentFolder folder;
  const Plan plain = folder.MakePlanWith({"model.architecture=softmax"});
  const auto inputs = std::uint64_t{plain.spec->model.input_values()};
  const auto classes = std::uint64_t{plain.spec->model.outputs()};
  model::TensorFile file;
  file.tensors.push_back({.name = "linear.weight",
                          .shape = {classes, inputs},
                          .bytes = Bytes(classes * inputs * sizeof(float))});
  file.tensors.push_back(
      {.name = "linear.bias", .shape = {classes}, .bytes = Bytes(classes * sizeof(float))});
  file.tensors.push_back({.name = "num_batches_tracked",
                          .dtype = model::FileType::kI64,
                          .shape = {},
                          .bytes = Bytes(8)});
  const Bytes bytes = model::EncodeTensorFile(file);
  (void)folder.folder().Write("m.safetensors", std::string(bytes.begin(), bytes.end()));
  const Plan plan =
      folder.MakePlanWith({"model.architecture=softmax", "model.initial_model=m.safetensors"});
  CHECK(plan.spec->initial_model == plain.spec->initial_model);  // a softmax starts from zero
  CHECK(plan.prepared.data.notes.back() == "skipped the integers of \"num_batches_tracked\"");
}

}  // namespace
}  // namespace skep::simulator
