// kill -9 after any commit: the restarted run ends at the model of an undisturbed one.
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using test::EngineHarness;
using test::RunOptions;
using test::Script;

struct Ended {
  Hash32 model;
  std::uint64_t commits = 0;
  std::vector<AttemptEnded> attempts;
};

constexpr std::uint32_t kClients = 4;

std::unique_ptr<EngineHarness> Begin(const RunOptions& options,
                                     const std::shared_ptr<MemoryStore>& store) {
  auto world = std::make_unique<EngineHarness>(test::SmallRun(options), store);
  world->evaluate = [](const EvaluateJob& job) {
    return Evaluated{.metrics = {{"accuracy", 0.1 * job.round, 0}}, .examples = 10};
  };
  world->scripts[1] = Script::kFail;
  return world;
}

void RunToEnd(EngineHarness& world) {
  world.Work();
  for (int i = 0; i < 40 && !world.is_dead() && world.View().state == RunState::kRunning; ++i) {
    world.Tick();
    world.Work();
  }
}

// Runs until the process dies after `cut` commits, starts again from the store and ends.
Ended TrainWithCut(const RunOptions& options, std::optional<std::uint64_t> cut) {
  const auto store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
  auto world = Begin(options, store);
  world->cut_after_commits = cut;
  for (ClientNumber client = 0; client < kClients; ++client) world->Join(client);
  world->Start();
  RunToEnd(*world);
  std::uint64_t commits = world->commits;
  if (world->is_dead()) {
    world = Begin(options, store);
    for (ClientNumber client = 0; client < kClients; ++client) world->Join(client);
    if (world->View().state == RunState::kRunning) RunToEnd(*world);
    commits += world->commits;
  }
  REQUIRE(world->failures.empty());
  const StoreSnapshot stored = store->Load().value();
  REQUIRE(stored.runs.size() == 1);
  CHECK(stored.runs[0].run.state == RunState::kFinished);
  return {stored.runs[0].run.model, commits, world->Events<AttemptEnded>()};
}

void CheckEveryCut(const RunOptions& options) {
  const Ended undisturbed = TrainWithCut(options, std::nullopt);
  REQUIRE(undisturbed.commits > 10);
  for (std::uint64_t cut = 1; cut < undisturbed.commits; ++cut) {
    INFO("cut after commit " << cut << " of " << undisturbed.commits);
    CHECK(TrainWithCut(options, cut).model == undisturbed.model);
  }
}

TEST_CASE("a run cut after any commit ends at the same model", "[unit]") {
  CheckEveryCut({.rounds = 3, .clients_per_round = 4, .min_reports = 3});
}

TEST_CASE("a run with evaluations cut after any commit ends at the same model", "[unit]") {
  CheckEveryCut({.rounds = 3,
                 .clients_per_round = 4,
                 .min_reports = 3,
                 .has_test_data = true,
                 .client_eval_every = 2});
}

TEST_CASE("a run that stops at its target does so after a cut, too", "[unit]") {
  CheckEveryCut({.rounds = 9,
                 .clients_per_round = 4,
                 .min_reports = 3,
                 .has_test_data = true,
                 .client_eval_every = 2,
                 .stop = {.target = 0.3, .stop_at_target = true}});
}

// An open attempt of two with one acknowledged report, in a store whose process is gone.
struct Interrupted {
  std::shared_ptr<MemoryStore> store;
  wire::TaskOffer offer;
  wire::UploadBegin acknowledged;
  std::uint64_t seq = 0;
  Now now;
};

Interrupted Interrupt() {
  const RunOptions options{.rounds = 1, .clients_per_round = 2};
  Interrupted left;
  left.store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
  EngineHarness world(test::SmallRun(options), left.store);
  world.Join(0);
  world.Join(1);
  world.scripts[1] = Script::kSilent;
  world.Start();
  world.Work();
  REQUIRE(world.View().counts.ok == 1);
  left.offer = world.MessagesTo<wire::TaskOffer>(world.SessionOf(1)).front();
  left.acknowledged = world.BeginOf(0);
  left.seq = world.MessagesTo<wire::UpdateAck>(world.SessionOf(0)).front().seq;
  left.now = world.now;
  return left;
}

TEST_CASE("a restart reopens the same attempt with its manifest and cohort", "[unit]") {
  const Interrupted left = Interrupt();
  EngineHarness world(test::SmallRun({.rounds = 1, .clients_per_round = 2}), left.store);
  CHECK(world.View().phase == "collecting");
  CHECK(world.View().attempt.attempt == 1);
  CHECK(world.View().counts.ok == 1);
  world.Join(1);
  const auto offers = world.MessagesTo<wire::TaskOffer>(world.SessionOf(1));
  REQUIRE(offers.size() == 1);
  CHECK(offers[0].manifest == left.offer.manifest);
  world.Work();
  CHECK(world.View().state == RunState::kFinished);
}

TEST_CASE("an acknowledgement is given again after a restart", "[unit]") {
  const Interrupted left = Interrupt();
  EngineHarness world(test::SmallRun({.rounds = 1, .clients_per_round = 2}), left.store);
  world.Join(0, false);
  world.Step(UploadOffered{world.SessionOf(0), left.acknowledged, std::nullopt});
  const auto acks = world.MessagesTo<wire::UpdateAck>(world.SessionOf(0));
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].seq == left.seq);
  CHECK(acks[0].disposition == wire::Disposition::kDuplicate);
}

TEST_CASE("a restart gives what is left of the deadline, at least 30 s", "[unit]") {
  using std::chrono::minutes;
  using std::chrono::seconds;
  struct Case {
    WallMs later_ms;
    Nanoseconds left;
  };
  for (const Case& c :
       {Case{0, minutes(10)}, Case{4 * 60'000, minutes(6)}, Case{20 * 60'000, seconds(30)}}) {
    const Interrupted left = Interrupt();
    EngineSnapshot snapshot;
    snapshot.store = left.store->Load().value();
    snapshot.specs = {test::SmallRun({.rounds = 1, .clients_per_round = 2})};
    RoundEngine engine(test::SmallConfig(), std::move(snapshot));
    const Now now{SteadyTime(std::chrono::hours(1)), left.now.wall + c.later_ms};
    (void)engine.Resume(now);
    CHECK(engine.Runs()[0].closes_at - now.steady == c.left);
  }
  // A clock that was set back never lengthens the window.
  const Interrupted left = Interrupt();
  EngineSnapshot snapshot;
  snapshot.store = left.store->Load().value();
  snapshot.specs = {test::SmallRun({.rounds = 1, .clients_per_round = 2})};
  RoundEngine engine(test::SmallConfig(), std::move(snapshot));
  (void)engine.Resume({SteadyTime{}, left.now.wall - 3'600'000});
  CHECK(engine.Runs()[0].closes_at - SteadyTime{} == minutes(10));
}

TEST_CASE("a device that was there before the crash is waited for", "[unit]") {
  EngineSnapshot snapshot;
  MemoryStore store(test::SmallConfig().federation);
  snapshot.store = store.Load().value();
  const WallMs now = 1'800'000'000'000;
  for (ClientNumber client = 0; client < 3; ++client) {
    DeviceRow row;
    row.device = test::DeviceOf(client);
    row.memberships = {{"bees", client}};
    row.enrolled = now - 3'600'000;
    row.last_seen = client == 2 ? now - 10'000 : now - 600'000;
    snapshot.devices.push_back(row);
  }
  RoundEngine engine(test::SmallConfig(), std::move(snapshot));
  (void)engine.Resume({SteadyTime{}, now});
  const auto spec = test::SmallRun({.rounds = 1, .clients_per_round = 2});
  Outputs outputs = engine.Step({SteadyTime{}, now}, StartRun{spec, "", ""});
  REQUIRE(outputs.size() >= 1);
  for (const Output& output : outputs) {
    if (const auto* start = std::get_if<StartJob>(&output)) {
      (void)engine.Step({SteadyTime{}, now}, JobDone{start->id, Committed{0}});
    }
  }
  CHECK(engine.Runs()[0].waiting_for == "waiting for devices: 0 of 2 held, 1 present");
}

}  // namespace
}  // namespace skep::aggregator
