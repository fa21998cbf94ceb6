// Who is there: leaving, coming back, takeover, holds, populations, draining.
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using test::EngineHarness;
using test::Script;
using test::World;

TEST_CASE("selection waits for every present device to be held", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 3);
  world->Join(3, false);  // connected, has not polled
  world->Start();
  world->Work();
  CHECK(world->View().phase == "selecting");
  CHECK(world->View().waiting_for == "waiting for devices: 3 of 2 held, 4 present");
  world->Poll(3);
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
}

TEST_CASE("a device that has been gone for absent_after is not waited for", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 3);
  world->Join(3, false);
  world->Start();
  world->Leave(3);
  CHECK(world->View().phase == "selecting");
  world->Advance(std::chrono::seconds(89));
  CHECK(world->View().phase == "selecting");
  world->Work();  // those who were told to come back hold again
  world->Advance(std::chrono::seconds(2));
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
}

TEST_CASE("at the end of the window the held ones are drawn if they are enough", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 4, .min_reports = 2}, 2);
  world->Join(3, false);
  world->Start();
  for (int i = 0; i < 20 && world->View().phase == "selecting"; ++i) {
    world->Tick();
    world->Work();
  }
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->now.steady.time_since_epoch() == std::chrono::minutes(2));
}

TEST_CASE("with too few devices the window starts again, and the view says since when", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 4, .min_reports = 3}, 2);
  world->Start();
  const SteadyTime since = world->View().waiting_since;
  world->Advance(std::chrono::minutes(5));
  CHECK(world->View().phase == "selecting");
  CHECK(world->View().waiting_since == since);
  CHECK(world->Events<SelectionOpened>().size() == 3);
}

TEST_CASE("all active devices are enough when they are min_reports", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 4, .min_reports = 2}, 3);
  world->Start();
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->Events<AttemptEnded>()[0].counts.ok == 3);
}

TEST_CASE("a device that comes back gets the same offer", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 2);
  world->scripts[0] = Script::kIgnore;
  world->Start();
  const wire::TaskOffer first = world->MessagesTo<wire::TaskOffer>(world->SessionOf(0)).front();
  world->Leave(0);
  world->scripts.erase(0);
  world->Advance(std::chrono::seconds(30));
  world->Join(0);
  const auto offers = world->MessagesTo<wire::TaskOffer>(world->SessionOf(0));
  REQUIRE(offers.size() == 1);
  CHECK(offers[0].manifest == first.manifest);
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->Events<AttemptEnded>()[0].counts.ok == 2);
}

TEST_CASE("a device that trains detached reports on a new session", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 2);
  world->scripts[0] = Script::kSilent;
  world->Start();
  world->Work();
  const wire::UploadBegin begin = world->BeginOf(0);
  world->Leave(0);
  world->Advance(std::chrono::minutes(3));
  world->Join(0, false);
  // Its download may go on without another offer.
  CHECK(world->grants.back().session == world->SessionOf(0));
  CHECK(world->grants.back().model == begin.model_sha256);
  world->Step(UploadOffered{world->SessionOf(0), begin, std::nullopt});
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->Events<AttemptEnded>()[0].counts.ok == 2);
}

TEST_CASE("a new session of a device replaces the old one and keeps its task", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 2);
  world->scripts[0] = Script::kSilent;
  world->Start();
  world->Work();
  const wire::UploadBegin begin = world->BeginOf(0);
  const SessionNumber old = world->SessionOf(0);
  world->Join(0, false);
  REQUIRE(world->disconnects.size() == 1);
  CHECK(world->disconnects[0].session == old);
  CHECK(world->disconnects[0].code == 3334);
  // The old session is unknown from now on.
  const std::string before = world->Digest();
  world->Step(UploadOffered{old, begin, std::nullopt});
  CHECK(world->Digest() == before);
  world->Step(UploadOffered{world->SessionOf(0), begin, std::nullopt});
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
}

TEST_CASE("more than ten takeovers in a minute refuse the new session", "[unit]") {
  const auto world = World({}, 1);
  for (int i = 0; i < 10; ++i) world->Join(0, false);
  CHECK(world->disconnects.size() == 10);
  const SessionNumber kept = world->SessionOf(0);
  world->Join(0, false);
  REQUIRE(world->disconnects.size() == 11);
  CHECK(world->disconnects.back().code == 3333);
  CHECK(world->disconnects.back().session != kept);
  world->Advance(std::chrono::seconds(61));
  world->Join(0, false);
  CHECK(world->disconnects.back().code == 3334);
  CHECK(world->disconnects.back().session == kept);
}

TEST_CASE("a Poll for a population without membership is 2210", "[unit]") {
  const auto world = World({}, 1);
  wire::Poll poll;
  poll.population = "wasps";
  poll.hold_ms = 1000;
  poll.task_kinds = {wire::TaskKind::kTrain};
  world->Step(ClientMessage{world->SessionOf(0), poll});
  const auto errors = world->MessagesTo<wire::PeerError>(world->SessionOf(0));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == 2210);
  CHECK(errors[0].retry == wire::RetryClass::kRejoin);
  CHECK(world->disconnects.empty());
}

TEST_CASE("a Poll that cannot wait is answered at once and never drawn", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 1}, 0);
  world->Join(0, false);
  world->Start();
  world->Poll(0, 0);
  CHECK(world->MessagesTo<wire::ComeBack>(world->SessionOf(0)).size() == 1);
  CHECK(world->MessagesTo<wire::TaskOffer>(world->SessionOf(0)).empty());
}

TEST_CASE("a held Poll ends after its time with a short come-back", "[unit]") {
  const auto world = World({}, 0);
  world->Join(0, false);
  world->Poll(0, 20'000);
  world->Advance(std::chrono::seconds(19));
  CHECK(world->MessagesTo<wire::ComeBack>(world->SessionOf(0)).empty());
  world->Advance(std::chrono::seconds(2));
  const auto back = world->MessagesTo<wire::ComeBack>(world->SessionOf(0));
  REQUIRE(back.size() == 1);
  CHECK(back[0].latest_ms == 1);
  CHECK(back[0].reason == wire::ComeBackReason::kNoWork);
}

TEST_CASE("without a run at most max_held Polls are held", "[unit]") {
  EngineConfig config = test::SmallConfig();
  config.max_held = 2;
  EngineHarness world(test::SmallRun({}), std::make_shared<MemoryStore>(config.federation), config);
  for (ClientNumber client = 0; client < 3; ++client) world.Join(client);
  CHECK(world.MessagesTo<wire::ComeBack>(world.SessionOf(1)).empty());
  const auto back = world.MessagesTo<wire::ComeBack>(world.SessionOf(2));
  REQUIRE(back.size() == 1);
  CHECK(back[0].earliest_ms == 30'000);
  CHECK(back[0].latest_ms == 60'000);
}

TEST_CASE("in a large population a cohort is drawn with headroom, the others come back", "[unit]") {
  EngineConfig config = test::SmallConfig();
  config.small_factor = 2;
  EngineHarness world(test::SmallRun({.rounds = 1, .clients_per_round = 2}),
                      std::make_shared<MemoryStore>(config.federation), config);
  for (ClientNumber client = 0; client < 6; ++client) world.Join(client, false);
  world.Start();
  world.Poll(0);
  world.Poll(1);
  CHECK(world.View().phase == "selecting");
  world.Poll(2);  // 1.5 x 2
  CHECK(world.View().phase == "collecting");
  std::size_t turned_away = 0;
  for (ClientNumber client = 0; client < 3; ++client) {
    const auto back = world.MessagesTo<wire::ComeBack>(world.SessionOf(client));
    if (back.empty()) continue;
    ++turned_away;
    CHECK(back[0].reason == wire::ComeBackReason::kRoundFull);
    CHECK(back[0].latest_ms > back[0].earliest_ms);
  }
  CHECK(turned_away == 1);
  world.Poll(5);  // nothing to do for it now
  REQUIRE(world.MessagesTo<wire::ComeBack>(world.SessionOf(5)).size() == 1);
  CHECK(world.MessagesTo<wire::ComeBack>(world.SessionOf(5))[0].reason ==
        wire::ComeBackReason::kPacing);
}

TEST_CASE("draining opens nothing new and lets uploads finish", "[unit]") {
  const auto world = World({.rounds = 2, .clients_per_round = 2}, 3);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  world->Step(Drain{});
  for (ClientNumber client = 0; client < 3; ++client) world->FinishUpload(client);
  world->Work();
  CHECK(world->published.size() == 1);
  CHECK(world->View().phase == "selecting");
  CHECK(world->View().waiting_for == "draining: no new rounds");
  world->Poll(0);
  const auto back = world->MessagesTo<wire::ComeBack>(world->SessionOf(0));
  REQUIRE_FALSE(back.empty());
  CHECK(back.back().reason == wire::ComeBackReason::kDraining);
  CHECK(back.back().earliest_ms == 120'000);
}

TEST_CASE("a revoked device loses its session and its task", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2, .min_reports = 1}, 2);
  world->scripts[0] = Script::kSilent;
  world->Start();
  world->Work();
  world->Step(DeviceChanged{test::DeviceOf(0), DeviceState::kRevoked, {{"bees", 0}}});
  REQUIRE(world->disconnects.size() == 1);
  CHECK(world->disconnects[0].code == 3105);
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->Events<AttemptEnded>()[0].counts.dropped == 1);
  world->Join(0, false);
  CHECK(world->disconnects.back().code == 3105);
}

TEST_CASE("a held device that is taken out of the population is let go", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2, .min_reports = 1}, 3);
  world->Step(DeviceChanged{test::DeviceOf(1), DeviceState::kActive, {}});
  CHECK(world->MessagesTo<wire::ComeBack>(world->SessionOf(1)).size() == 1);
  world->Poll(1);
  CHECK(world->MessagesTo<wire::PeerError>(world->SessionOf(1)).front().code == 2210);
  world->Leave(1);
  world->Start();
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->Events<AttemptEnded>()[0].counts.ok == 2);
}

TEST_CASE("an answer to an offer that has ended is told so again", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2, .min_reports = 1}, 2);
  world->scripts[0] = Script::kIgnore;
  world->Start();
  world->Work();
  const wire::Manifest manifest = world->ManifestOf(0);
  const wire::TaskRef task{manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
  world->Advance(std::chrono::seconds(61));
  REQUIRE(world->View().state == RunState::kFinished);
  const std::string before = world->Digest();
  const auto closed = [&] {
    return world->MessagesTo<wire::RoundClosed>(world->SessionOf(0)).size();
  };
  REQUIRE(closed() == 1);
  world->Step(ClientMessage{world->SessionOf(0), wire::TaskAccept{task}});
  CHECK(closed() == 2);
  world->Step(ClientMessage{world->SessionOf(0),
                            wire::TaskDecline{.task = task, .code = 7401, .evidence = {}}});
  CHECK(closed() == 3);
  // Progress and failure of a task that is over are nothing to anybody.
  world->Step(ClientMessage{world->SessionOf(0), wire::Progress{.task = task}});
  world->Step(ClientMessage{world->SessionOf(0), wire::TaskFailed{task, 7406}});
  CHECK(closed() == 3);
  CHECK(world->Digest() == before);
}

TEST_CASE("without leave to train detached a lost session ends the task", "[unit]") {
  EngineConfig config = test::SmallConfig();
  config.detach_allowed = false;
  EngineHarness world(test::SmallRun({.rounds = 1, .clients_per_round = 2, .min_reports = 1}),
                      std::make_shared<MemoryStore>(config.federation), config);
  world.Join(0);
  world.Join(1);
  world.scripts[0] = Script::kSilent;
  world.Start();
  world.Work();
  world.Leave(0);
  world.Advance(std::chrono::seconds(80));
  CHECK(world.View().state == RunState::kRunning);
  world.Advance(std::chrono::seconds(20));
  CHECK(world.View().state == RunState::kFinished);
}

TEST_CASE("a connected device that is silent for the lease loses its place", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2, .min_reports = 2}, 3);
  for (ClientNumber client = 0; client < 3; ++client) world->scripts[client] = Script::kSilent;
  world->Start();
  world->Work();
  std::vector<ClientNumber> cohort;
  for (const test::Sent& sent : world->sent) {
    if (const auto* offer = std::get_if<wire::TaskOffer>(&sent.message)) {
      cohort.push_back(offer->client);
    }
  }
  REQUIRE(cohort.size() == 2);
  const ClientNumber third = 3 - cohort[0] - cohort[1];
  world->Advance(std::chrono::minutes(4));
  world->Poll(third, 600'000);
  world->Advance(std::chrono::minutes(2));
  CHECK(world->MessagesTo<wire::TaskOffer>(world->SessionOf(third)).size() == 1);
  CHECK(world->View().counts.invited == 3);
  // Its report is still welcome.
  world->Step(UploadOffered{world->SessionOf(cohort[0]), world->BeginOf(cohort[0]), std::nullopt});
  world->Work();
  CHECK(world->View().counts.ok == 1);
}

TEST_CASE("two runs of one population do not share a busy device", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 4);
  for (ClientNumber client = 0; client < 4; ++client) world->scripts[client] = Script::kSilent;
  world->Start();
  auto other = std::make_shared<RunSpec>(*test::SmallRun({.rounds = 1, .clients_per_round = 2}));
  other->id.bytes[0] = 0xB2;
  other->name = "other";
  world->Step(StartRun{other, "", "second"});
  world->Work();
  std::map<ClientNumber, int> offers;
  for (const test::Sent& sent : world->sent) {
    if (const auto* offer = std::get_if<wire::TaskOffer>(&sent.message)) ++offers[offer->client];
  }
  CHECK(offers.size() == 4);
  for (const auto& [client, count] : offers) CHECK(count == 1);
}

}  // namespace
}  // namespace skep::aggregator
