// The parts of the engine that are pure: draws, pace, means, stop rules, alarms.
#include <cmath>
#include <limits>
#include <numeric>

#include "aggregator/engine/alarms.h"
#include "aggregator/engine/cohort.h"
#include "aggregator/engine/pace.h"
#include "aggregator/engine/report_means.h"
#include "aggregator/engine/stop_tracker.h"
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

std::vector<ClientNumber> FirstOf(CohortDraw draw, std::size_t count) {
  std::vector<ClientNumber> drawn;
  for (std::size_t i = 0; i < count; ++i) {
    const auto next = draw.Next();
    if (!next) break;
    drawn.push_back(*next);
  }
  return drawn;
}

std::vector<ClientNumber> UpTo(ClientNumber count) {
  std::vector<ClientNumber> clients(count);
  std::iota(clients.begin(), clients.end(), 0);
  return clients;
}

AttemptKey Key(std::uint32_t round, std::uint32_t attempt, TaskKind kind = TaskKind::kTrain) {
  return {.run = {}, .round = round, .kind = kind, .attempt = attempt};
}

TEST_CASE("the draw is the known answer for seed 42", "[unit]") {
  CHECK(FirstOf({42, Key(1, 1), UpTo(100)}, 10) ==
        std::vector<ClientNumber>{65, 75, 17, 68, 72, 79, 74, 30, 67, 33});
  CHECK(FirstOf({42, Key(1, 2), UpTo(100)}, 10) ==
        std::vector<ClientNumber>{81, 25, 67, 89, 80, 73, 43, 61, 23, 18});
}

TEST_CASE("a draw place by place is the shuffle, to its last place", "[unit]") {
  for (const ClientNumber clients : {1U, 2U, 3U, 17U}) {
    const auto drawn = FirstOf({7, Key(3, 1), UpTo(clients)}, 100);
    CHECK(drawn == DrawCohort(7, 3, 1, UpTo(clients), clients));
  }
}

TEST_CASE("the evaluation sample depends on neither round nor attempt", "[unit]") {
  const auto first = FirstOf({7, Key(1, 1, TaskKind::kEvaluate), UpTo(30)}, 5);
  CHECK(FirstOf({7, Key(9, 2, TaskKind::kEvaluate), UpTo(30)}, 5) == first);
  CHECK(FirstOf({7, Key(1, 1), UpTo(30)}, 5) != first);
}

EngineConfig Config() {
  return test::SmallConfig();
}

TEST_CASE("a small population does not wait", "[unit]") {
  const Demand demand{.active = 40, .invited = 10, .period = minutes(1)};
  CHECK(HoldsEverybody(Config(), demand));
  const auto back = ComeBackWindow(Config(), demand, wire::ComeBackReason::kRoundFull);
  CHECK(back.earliest_ms == 0);
  CHECK(back.latest_ms == 1);
}

TEST_CASE("a large population is spread over the time until each is needed", "[unit]") {
  // R = 3,000 x 60 s / (10 x 1.5) = 12,000 s.
  const Demand demand{.active = 3000, .invited = 10, .period = minutes(1)};
  const auto back = ComeBackWindow(Config(), demand, wire::ComeBackReason::kPacing);
  CHECK(back.earliest_ms == 9'000'000);
  CHECK(back.latest_ms == 15'000'000);
  const Demand huge{.active = 3'000'000, .invited = 10, .period = minutes(1)};
  CHECK(ComeBackWindow(Config(), huge, wire::ComeBackReason::kPacing).latest_ms == 27'000'000);
  const Demand quick{.active = 41, .invited = 10, .period = seconds(1)};
  CHECK(ComeBackWindow(Config(), quick, wire::ComeBackReason::kPacing).earliest_ms == 22'500);
}

TEST_CASE("headroom is rounded up in integers", "[unit]") {
  EngineConfig config = Config();
  CHECK(HeldWithHeadroom(config, 3) == 5);
  config.headroom = 1.1;
  CHECK(HeldWithHeadroom(config, 10) == 11);  // 1.1 x 10 is above 11 in binary
}

TEST_CASE("the round period is the median of the last ten", "[unit]") {
  RoundPeriods periods(minutes(12));
  CHECK(periods.Median() == minutes(12));
  for (int i = 1; i <= 15; ++i) periods.Add(seconds(i));
  CHECK(periods.Median() == seconds(11));
}

TEST_CASE("sums over reports have the fixed shape of the tree", "[unit]") {
  const std::vector<double> values{1e16, 1.0, -1e16, 1.0, 3.0};
  // (v0 + v1) + (v2 + (v3 + v4))
  CHECK(TreeSum(values) == (1e16 + 1.0) + (-1e16 + (1.0 + 3.0)));
  CHECK(TreeSum({}) == 0);
}

TEST_CASE("a mean says over how many clients it is, and is absent without any", "[unit]") {
  UpdateRow a;
  a.weight = 1;
  a.metrics = {{"loss", 1.0, 1}};
  UpdateRow b;
  b.weight = 3;
  b.metrics = {{"loss", 2.0, 1}, {"accuracy", 0.5, 1}};
  const std::vector<const UpdateRow*> reports{&a, &b};
  const auto means = WeightedMeans(reports, {"loss", "accuracy", "other"});
  REQUIRE(means.size() == 2);
  CHECK(means[0].value == 1.75);
  CHECK(means[0].clients == 2);
  CHECK(means[1].value == 0.5);
  CHECK(means[1].clients == 1);
}

TEST_CASE("a target below is reached by a metric that is to fall", "[unit]") {
  StopTracker tracker({.metric = "loss", .maximise = false, .target = 0.5, .stop_at_target = true});
  tracker.Add(1, {{"loss", 0.9, 0}});
  CHECK_FALSE(tracker.reason().has_value());
  tracker.Add(2, {{"loss", 0.5, 0}});
  CHECK(tracker.reason() == "target reached after 2 rounds");
}

TEST_CASE("a target is not reached by NaN, nor by clients' means", "[unit]") {
  StopTracker tracker(
      {.metric = "accuracy", .maximise = true, .target = 0.5, .stop_at_target = true});
  tracker.Add(1, {{"accuracy", std::numeric_limits<double>::quiet_NaN(), 0}});
  tracker.Add(2, {{"accuracy", 0.9, 12}});
  CHECK_FALSE(tracker.reason().has_value());
}

TEST_CASE("only the earliest wait is armed, and moved when an earlier one comes", "[unit]") {
  Alarms alarms;
  const auto at = [](int s) { return SteadyTime(seconds(s)); };
  Outputs out;
  alarms.Set({AlarmKind::kWindow, {}}, at(10));
  alarms.Arm(out);
  alarms.Set({AlarmKind::kDeadline, {}}, at(20));
  alarms.Arm(out);
  REQUIRE(out.size() == 1);
  alarms.Set({AlarmKind::kOffers, {}}, at(5));
  alarms.Arm(out);
  REQUIRE(out.size() == 3);
  CHECK(std::holds_alternative<CancelTimer>(out[1]));
  const TimerId armed = std::get<ArmTimer>(out[2]).timer;
  CHECK_FALSE(alarms.Fired(armed + 1));
  CHECK(alarms.Fired(armed));
  CHECK(alarms.TakeDue(at(10)).size() == 2);
  CHECK(alarms.TakeDue(at(10)).empty());
}

TEST_CASE("a timer that nobody waits for is cancelled", "[unit]") {
  Alarms alarms;
  Outputs out;
  alarms.Set({AlarmKind::kWindow, {}}, SteadyTime(seconds(1)));
  alarms.Arm(out);
  alarms.Clear({AlarmKind::kWindow, {}});
  alarms.Arm(out);
  REQUIRE(out.size() == 2);
  CHECK(std::get<CancelTimer>(out[1]).timer == std::get<ArmTimer>(out[0]).timer);
}

}  // namespace
}  // namespace skep::aggregator
