#include "simulator/simulation.h"

#include <map>

#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

SimulationSetup SetupWith(const Plan& plan, std::size_t jobs) {
  SimulationSetup setup = MakeSetup(plan);
  setup.jobs = jobs;
  return setup;
}

TEST_CASE("one, two and four workers give the same result", "[unit]") {
  const ExperimentFolder folder;
  const Plan plan = folder.MakePlanWith();
  const Outcome one = RunToEnd(SetupWith(plan, 1));
  REQUIRE(one.end.state == EndState::kFinished);
  REQUIRE(one.end.rounds == 6);
  CHECK(one.end.model != plan.spec->initial_model);
  for (const std::size_t jobs : {2U, 4U}) {
    const Outcome more = RunToEnd(SetupWith(plan, jobs));
    INFO(jobs << " workers");
    CHECK(more.end.result_sha256 == one.end.result_sha256);
    CHECK(more.end.model == one.end.model);
    REQUIRE(more.recording.rounds.size() == one.recording.rounds.size());
    for (std::size_t i = 0; i < one.recording.rounds.size(); ++i)
      CHECK(more.recording.rounds[i].metrics == one.recording.rounds[i].metrics);
  }
}

TEST_CASE("another seed gives another model, other weights another one again", "[unit]") {
  const ExperimentFolder folder;
  const Outcome first = RunToEnd(MakeSetup(folder.MakePlanWith()));
  const Outcome other = RunToEnd(MakeSetup(folder.MakePlanWith({"seed=8"})));
  const Outcome uniform = RunToEnd(
      MakeSetup(folder.MakePlanWith({"training.weighting=uniform", "data.partition=dirichlet",
                                     "data.min_examples=5", "data.num_clients=6"})));
  const Outcome examples = RunToEnd(MakeSetup(folder.MakePlanWith(
      {"data.partition=dirichlet", "data.min_examples=5", "data.num_clients=6"})));
  CHECK(first.end.model != other.end.model);
  CHECK(uniform.end.model != examples.end.model);
}

TEST_CASE("a run resumed after any round ends at the same result", "[unit]") {
  const ExperimentFolder folder;
  const Plan plan = folder.MakePlanWith();
  const Outcome whole = RunToEnd(MakeSetup(plan));
  for (std::uint32_t round = 1; round < 6; ++round) {
    SimulationSetup setup = MakeSetup(plan);
    setup.resume = PointAfter(whole, round);
    const Outcome rest = RunToEnd(std::move(setup));
    INFO("resumed after round " << round);
    CHECK(rest.recording.rounds.front().round == round + 1);
    CHECK(rest.end.result_sha256 == whole.end.result_sha256);
  }
}

TEST_CASE("a run that ends abruptly in the middle resumes to the same result", "[unit]") {
  const ExperimentFolder folder;
  const Plan plan = folder.MakePlanWith();
  const Outcome whole = RunToEnd(MakeSetup(plan));
  const Outcome cut = RunToEnd(MakeSetup(plan), 4);
  REQUIRE(cut.end.state == EndState::kFailed);
  CHECK(cut.end.code == 4001);
  CHECK(cut.end.exit_code == 1);
  SimulationSetup setup = MakeSetup(plan);
  setup.resume = PointAfter(cut, 3);
  CHECK(RunToEnd(std::move(setup)).end.result_sha256 == whole.end.result_sha256);
}

TEST_CASE("a stop that is asked for ends the run at a round, and resume completes it", "[unit]") {
  const ExperimentFolder folder;
  const Plan plan = folder.MakePlanWith();
  const Outcome whole = RunToEnd(MakeSetup(plan));

  StopRequest stop{StopLevel::kNone};
  Outcome cut;
  class StopAfterTwo final : public CheckpointWriter {
   public:
    StopAfterTwo(StopRequest& request, MemoryCheckpoints& inner) : stop_(request), inner_(inner) {}
    [[nodiscard]] Status Write(const RoundState& state) override {
      if (state.round == 2) stop_ = StopLevel::kAfterRound;
      return inner_.Write(state);
    }

   private:
    StopRequest& stop_;
    MemoryCheckpoints& inner_;
  } stopper(stop, cut.checkpoints);
  Simulation simulation(MakeSetup(plan), cut.recording, stopper, stop);
  cut.end = simulation.Run(nullptr);
  CHECK(cut.end.state == EndState::kInterrupted);
  CHECK(cut.end.exit_code == 130);
  CHECK(cut.end.rounds == 2);

  SimulationSetup setup = MakeSetup(plan);
  setup.resume = PointAfter(cut, 2);
  CHECK(RunToEnd(std::move(setup)).end.result_sha256 == whole.end.result_sha256);
}

TEST_CASE("the loss of an untrained softmax is the logarithm of its classes", "[unit]") {
  const ExperimentFolder folder;
  std::string table = "a,b,label\n";
  for (int i = 0; i < 600; ++i)
    table +=
        std::to_string(i % 7) + "," + std::to_string(i % 3) + "," + std::to_string(i % 10) + "\n";
  (void)folder.folder().Write("table.csv", table);
  const Plan plan =
      folder.MakePlanWith({"model.architecture=softmax", "data.label=label", "training.rounds=1",
                           "client.learning_rate=1e-30", "training.client_eval_every=1"});
  const Outcome outcome = RunToEnd(MakeSetup(plan));
  REQUIRE(outcome.recording.rounds.size() == 1);
  const Metrics& metrics = outcome.recording.rounds.front().metrics;
  CHECK(metrics.at("test/loss").value() == Approx(2.302585).margin(1e-6));
  CHECK(metrics.at("train/loss").value() == Approx(2.302585).margin(1e-6));
  CHECK(metrics.at("client/loss_mean").value() == Approx(2.302585).margin(1e-6));
}

TEST_CASE("every attempt says what came of its clients, and the counts add up", "[unit]") {
  const ExperimentFolder folder;
  const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith()));
  std::map<std::uint32_t, std::uint32_t> clients;
  for (const ClientRecord& client : outcome.recording.clients) {
    ++clients[client.round];
    CHECK(client.examples > 0);
    CHECK(client.update_norm.has_value());
  }
  for (const RoundRecord& round : outcome.recording.rounds) {
    const auto& counts = round.counts;
    CHECK(counts.started ==
          counts.ok + counts.rejected + counts.failed + counts.dropped + counts.late);
    CHECK(clients[round.round] == counts.started);
    CHECK(round.bytes_up == 4 * 4 * folder.MakePlanWith().spec->model.layout()->values());
  }
  // Client evaluations are due in rounds 3 and 6.
  CHECK(outcome.recording.rounds[2].metrics.contains("client/accuracy_p10"));
  CHECK_FALSE(outcome.recording.rounds[3].metrics.contains("client/accuracy_p10"));
}

}  // namespace
}  // namespace skep::simulator
