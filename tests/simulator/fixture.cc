#include "tests/simulator/fixture.h"

#include "shared/base/check.h"
#include "simulator/commands/templates.h"

namespace skep::simulator {

std::string SmallExperiment() {
  return R"toml(schema = 1
name = "small"
seed = 7
[data]
path = "table.csv"
label = "outcome"
num_clients = 12
partition = "iid"
normalize = "standard"
client_test_fraction = 0.2
[model]
architecture = "mlp"
[training]
rounds = 6
clients_per_round = 4
client_eval_every = 3
client_min_test_examples = 3
[client]
local_epochs = 1
batch_size = 5
learning_rate = 0.05
)toml";
}

ExperimentFolder::ExperimentFolder() {
  (void)folder_.Write("table.csv", ExampleTable());
  (void)folder_.Write("experiment.toml", SmallExperiment());
}

Plan ExperimentFolder::MakePlanWith(const std::vector<std::string>& sets) const {
  auto prepared = Prepare({.file = path("experiment.toml"), .sets = sets, .folder = ""});
  if (!prepared.has_value()) FAIL(prepared.problems().front().message);
  auto plan = MakePlan(std::move(prepared).value(), RunId{});
  if (!plan.has_value()) FAIL(plan.problems().front().message);
  return std::move(plan).value();
}

Outcome RunToEnd(SimulationSetup setup, std::uint32_t fail_at) {
  Outcome outcome;
  outcome.checkpoints.fail_at = fail_at;
  const StopRequest stop{StopLevel::kNone};
  Simulation simulation(std::move(setup), outcome.recording, outcome.checkpoints, stop);
  outcome.end = simulation.Run(nullptr);
  return outcome;
}

ResumePoint PointAfter(const Outcome& outcome, std::uint32_t round) {
  ResumePoint point;
  point.round = round;
  point.model = outcome.checkpoints.models.at(round - 1);
  point.own = outcome.checkpoints.own.at(round - 1);
  for (const RoundRecord& record : outcome.recording.rounds) {
    if (record.published && record.round <= round)
      point.published.push_back(
          {.round = record.round, .model = record.model, .metrics = record.metrics});
  }
  return point;
}

RunStart SampleStart() {
  RunStart start;
  start.name = "sample";
  start.run_id = "000102030405060708090a0b0c0d0e0f";
  start.version = "0.1.0";
  start.command = "skep-simulator run sample.toml";
  start.seed = 42;
  start.config_toml = "schema = 1\n";
  start.settings = {{"client.learning_rate", {"10.0", "sample.toml:9"}},
                    {"training.rounds", {"50", "default"}},
                    {"training.target", {"0.8", "sample.toml:10"}},
                    {"training.target_metric", {"\"accuracy\"", "default"}}};
  start.algorithm = "fedavg";
  start.architecture = "2nn";
  start.partition = "dirichlet \xCE\xB1 = 0.5";
  start.rounds = 50;
  start.clients_per_round = 10;
  start.device = "cpu";
  start.isa = "avx2";
  start.jobs = 2;
  start.model_parameters = 199'210;
  start.target_metric = "test/accuracy";
  start.target = 0.8;
  start.classes = {"calm", "storm"};
  for (ClientNumber i = 0; i < 3; ++i) {
    ClientInfo client;
    client.number = i;
    client.examples = 10 * (i + 1);
    client.test_examples = 2;
    client.labels = {4 * (i + 1), 6 * (i + 1)};
    start.clients.push_back(client);
  }
  return start;
}

RoundRecord SampleRound(std::uint32_t round) {
  RoundRecord record;
  record.round = round;
  record.attempt = 1;
  record.published = true;
  record.time_s = 0.25 * round;
  record.counts.invited = record.counts.started = record.counts.ok = 10;
  record.metrics = {{"test/accuracy", 0.5 + 0.01 * round},
                    {"train/loss", 1.0 / round},
                    {"update/norm_p50", 2.0},
                    {"update/norm_max", 3.0},
                    {"update/norm_p10", 1.0},
                    {"update/norm_p90", 2.5}};
  record.metric_clients = {{"train/loss", 10}};
  record.bytes_up = record.bytes_down = 7'968'400;
  record.phases = {.select = 0.001, .train = 0.131, .aggregate = 0.011, .evaluate = 0.024};
  record.model.bytes[0] = static_cast<std::uint8_t>(round);
  return record;
}

}  // namespace skep::simulator
