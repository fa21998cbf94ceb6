#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

// Steps this large end in infinities after one batch.
const std::vector<std::string> kExploding{"client.learning_rate=1000", "client.local_epochs=50",
                                          "client.momentum=0.99"};

TEST_CASE("updates that are not finite are refused and change nothing", "[unit]") {
  const ExperimentFolder folder;
  const Plan plan = folder.MakePlanWith(kExploding);
  SimulationSetup setup = MakeSetup(plan);
  setup.keep_going = true;
  const Outcome outcome = RunToEnd(std::move(setup));
  CHECK(outcome.end.state == EndState::kFailed);
  CHECK(outcome.end.code == 2201);
  REQUIRE(outcome.recording.rounds.size() == 3);  // max_attempts
  for (const RoundRecord& round : outcome.recording.rounds) {
    CHECK_FALSE(round.published);
    CHECK(round.round == 1);
    CHECK(round.model == plan.spec->initial_model);
    CHECK(round.counts.rejected == 4);
  }
  for (const ClientRecord& client : outcome.recording.clients) CHECK(client.code == 2104);
  CHECK(outcome.end.model == plan.spec->initial_model);
}

TEST_CASE("when every client of the first attempt fails alike, the run ends at once", "[unit]") {
  const ExperimentFolder folder;
  const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith(kExploding)));
  CHECK(outcome.end.state == EndState::kFailed);
  CHECK(outcome.end.exit_code == 1);
  CHECK(outcome.end.code == 2203);
  CHECK(outcome.recording.rounds.size() == 1);
  CHECK(outcome.end.text.find("SKEP-2104") != std::string::npos);
}

TEST_CASE("updates beyond the norm limit are refused by number", "[unit]") {
  const ExperimentFolder folder;
  SimulationSetup setup = MakeSetup(folder.MakePlanWith({"admission.max_norm=0.000001"}));
  const Outcome outcome = RunToEnd(std::move(setup));
  CHECK(outcome.end.code == 2203);
  REQUIRE_FALSE(outcome.recording.clients.empty());
  for (const ClientRecord& client : outcome.recording.clients) {
    CHECK(client.code == 2105);
    CHECK(client.outcome == aggregator::Outcome::kRejected);
  }
}

}  // namespace
}  // namespace skep::simulator
