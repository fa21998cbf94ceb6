// Models beyond tables in a simulation: each trains, and what cannot train is refused when it is
// planned.
#include <set>

#include "client/trainer.h"
#include "shared/base/rng.h"
#include "shared/model/safetensors.h"
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

// The first problem of a plan that is refused.
config::Problem Refusal(const ExperimentFolder& folder, std::vector<std::string> sets) {
  auto prepared =
      Prepare({.file = folder.path("experiment.toml"), .sets = std::move(sets), .folder = ""});
  if (!prepared.has_value()) return prepared.problems().front();
  const auto plan = MakePlan(std::move(prepared).value(), RunId{});
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
  CHECK(Refusal(folder, {"model.normalization=batch", "client.batch_size=1"}).code == 1303);
}

TEST_CASE("a model that answers at every place needs data with as many labels", "[unit]") {
  const config::Problem problem =
      Refusal(WideFolder(), {"model.architecture=layers", "model.input=[16, 4]",
                             "model.layers=[\"lstm 8\", \"dense 3\"]"});
  CHECK(problem.code == 1301);
  CHECK(problem.message == "the model answers at 16 places of an example, the data have 1 labels");
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
