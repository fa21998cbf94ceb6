#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

std::vector<std::string> SlowDevices() {
  return {"devices.examples_per_second=10", "devices.speed_sigma=0.5", "devices.down_mbps=1",
          "devices.up_mbps=0.5", "devices.latency=50ms"};
}

TEST_CASE("without a model of devices a round takes no virtual time", "[unit]") {
  const ExperimentFolder folder;
  const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith()));
  for (const RoundRecord& round : outcome.recording.rounds)
    CHECK_FALSE(round.virtual_s.has_value());
}

TEST_CASE("devices take virtual time, and the model stays the same", "[unit]") {
  const ExperimentFolder folder;
  const Outcome instant = RunToEnd(MakeSetup(folder.MakePlanWith()));
  const Outcome slow = RunToEnd(MakeSetup(folder.MakePlanWith(SlowDevices())));
  CHECK(slow.end.model == instant.end.model);
  double before = 0;
  for (const RoundRecord& round : slow.recording.rounds) {
    REQUIRE(round.virtual_s.has_value());
    CHECK(*round.virtual_s > before);
    before = *round.virtual_s;
  }
  for (const ClientRecord& client : slow.recording.clients) {
    REQUIRE(client.virtual_s.has_value());
    CHECK(*client.virtual_s > 0.1);  // two transfers of at least the latency
  }
}

TEST_CASE("clients that the drop-out model hits are dropped, and none is late", "[unit]") {
  const ExperimentFolder folder;
  std::vector<std::string> sets = SlowDevices();
  sets.insert(sets.end(), {"devices.dropout=0.4", "training.rounds=20", "training.min_reports=1",
                           "training.max_attempts=1000", "training.report_deadline=1h"});
  const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith(sets)));
  REQUIRE(outcome.end.state == EndState::kFinished);
  std::uint32_t dropped = 0;
  std::uint32_t started = 0;
  for (const RoundRecord& round : outcome.recording.rounds) {
    dropped += round.counts.dropped;
    started += round.counts.started;
    CHECK(round.counts.late == 0);
    CHECK(round.counts.started == round.counts.ok + round.counts.dropped);
  }
  CHECK(dropped > started / 5);
  CHECK(dropped < started * 3 / 5);
}

TEST_CASE("over-selection invites more and closes when enough have reported", "[unit]") {
  const ExperimentFolder folder;
  std::vector<std::string> sets = SlowDevices();
  sets.push_back("training.over_selection=1.5");
  const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith(sets)));
  REQUIRE(outcome.end.state == EndState::kFinished);
  for (const RoundRecord& round : outcome.recording.rounds) {
    CHECK(round.counts.invited == 6);
    CHECK(round.counts.ok >= 4);
    CHECK(round.counts.ok + round.counts.late == 6);
  }
}

TEST_CASE("a deadline that too few clients meet abandons the attempt and keeps the model",
          "[unit]") {
  const ExperimentFolder folder;
  const Outcome outcome = RunToEnd(
      MakeSetup(folder.MakePlanWith({"devices.examples_per_second=1", "training.report_deadline=1s",
                                     "training.max_attempts=2"})));
  CHECK(outcome.end.state == EndState::kFailed);
  CHECK(outcome.end.exit_code == 1);
  for (const RoundRecord& round : outcome.recording.rounds) {
    CHECK_FALSE(round.published);
    CHECK(round.counts.ok == 0);
    CHECK(round.metrics.empty());
  }
  CHECK(outcome.checkpoints.models.empty());
}

TEST_CASE("at a deadline clients are late alike, and every outcome says why", "[unit]") {
  const ExperimentFolder folder;
  const Outcome outcome = RunToEnd(
      MakeSetup(folder.MakePlanWith({"devices.examples_per_second=1", "training.report_deadline=1s",
                                     "training.clients_per_round=12"})));
  for (const RoundRecord& round : outcome.recording.rounds) {
    CHECK(round.counts.failed == 0);
    CHECK(round.counts.late == round.counts.started);
  }
  REQUIRE_FALSE(outcome.recording.clients.empty());
  for (const ClientRecord& client : outcome.recording.clients) CHECK_FALSE(client.detail.empty());
}

TEST_CASE("clients that all went away do not end the run at its first attempt", "[unit]") {
  const ExperimentFolder folder;
  std::vector<std::string> sets = SlowDevices();
  sets.insert(sets.end(), {"devices.dropout=0.9999", "training.max_attempts=3"});
  const Outcome outcome = RunToEnd(MakeSetup(folder.MakePlanWith(sets)));
  CHECK(outcome.end.code == 2201);
  CHECK(outcome.recording.rounds.size() == 3);
}

TEST_CASE("devices give the same result for any number of workers", "[unit]") {
  const ExperimentFolder folder;
  std::vector<std::string> sets = SlowDevices();
  sets.insert(sets.end(), {"devices.dropout=0.2", "training.over_selection=1.5",
                           "training.max_attempts=100", "training.min_reports=1"});
  const Plan plan = folder.MakePlanWith(sets);
  SimulationSetup one = MakeSetup(plan);
  one.jobs = 1;
  SimulationSetup three = MakeSetup(plan);
  three.jobs = 3;
  const Outcome left = RunToEnd(std::move(one));
  const Outcome right = RunToEnd(std::move(three));
  CHECK(left.end.result_sha256 == right.end.result_sha256);
  REQUIRE(left.recording.rounds.size() == right.recording.rounds.size());
  for (std::size_t i = 0; i < left.recording.rounds.size(); ++i)
    CHECK(left.recording.rounds[i].virtual_s == right.recording.rounds[i].virtual_s);
}

}  // namespace
}  // namespace skep::simulator
