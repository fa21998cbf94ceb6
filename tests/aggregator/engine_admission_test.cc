// Bad updates, one by one: the exact number, and nothing else changes.
#include <cmath>
#include <functional>
#include <limits>

#include "shared/base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using test::EngineHarness;
using test::Script;
using test::World;

// A round of two in which client 0 has its task and everything else stands still.
std::unique_ptr<EngineHarness> AtWork(const test::RunOptions& options = {.clients_per_round = 2}) {
  auto world = World(options, 2);
  world->scripts[0] = Script::kSilent;
  world->scripts[1] = Script::kSilent;
  world->Start();
  world->Work();
  REQUIRE(world->View().phase == "collecting");
  return world;
}

struct BadUpload {
  const char* name;
  int code;
  std::function<void(wire::UploadBegin&)> spoil;
};

TEST_CASE("an upload that may not begin is refused by number and its task is over", "[unit]") {
  const std::vector<BadUpload> cases{
      {"one value too few", 2101, [](auto& begin) { begin.size -= 4; }},
      {"one value too many", 2101, [](auto& begin) { begin.size += 4; }},
      {"no body", 2101, [](auto& begin) { begin.size = 0; }},
      {"a size beyond all limits", 2101, [](auto& begin) { begin.size = UINT64_MAX; }},
      {"another layout", 2106, [](auto& begin) { begin.layout_sha256.bytes[0] ^= 1; }},
      {"another model", 2106, [](auto& begin) { begin.model_sha256.bytes[31] ^= 1; }},
      {"no weight", 2107, [](auto& begin) { begin.weight = 0; }},
      {"a weight above the limit", 2107, [](auto& begin) { begin.weight = 1001; }},
      {"an encoding that is not listed", 2112,
       [](auto& begin) { begin.encoding = wire::Encoding::kF16; }},
      {"the encoding of an evaluation", 2112,
       [](auto& begin) { begin.encoding = wire::Encoding::kNone; }},
      {"an encoding of relays", 2112,
       [](auto& begin) { begin.encoding = wire::Encoding::kPartialSum; }},
      {"an encoding that nobody knows", 2112,
       [](auto& begin) { begin.encoding = static_cast<wire::Encoding>(99); }},
      {"a metric that the plan lacks", 2114,
       [](auto& begin) {
         begin.metrics = {{4, 0.5}};
       }},
      {"metric number 0", 2114,
       [](auto& begin) {
         begin.metrics = {{0, 0.5}};
       }},
      {"a metric twice", 2114,
       [](auto& begin) {
         begin.metrics = {{1, 0.5}, {1, 0.5}};
       }},
  };
  for (const BadUpload& bad : cases) {
    INFO(bad.name);
    const auto world = AtWork();
    wire::UploadBegin begin = world->BeginOf(0);
    bad.spoil(begin);
    world->Step(UploadOffered{world->SessionOf(0), begin, std::nullopt});
    REQUIRE(world->refusals.size() == 1);
    CHECK(world->refusals[0].code == bad.code);
    CHECK(world->refusals[0].update == begin.update_id);
    CHECK(world->View().counts.rejected == 1);
    CHECK(world->View().counts.ok == 0);
    CHECK(world->model() == test::SmallModel().ModelHash());
    // The task is over: a correct update under another id is not assigned any more.
    wire::UploadBegin again = world->BeginOf(0);
    again.update_id.bytes[15] ^= 0xFF;
    const std::string before = world->Digest();
    world->Step(UploadOffered{world->SessionOf(0), again, std::nullopt});
    REQUIRE(world->refusals.size() == 2);
    CHECK(world->refusals[1].code == 2211);
    CHECK(world->Digest() == before);
  }
}

TEST_CASE("an upload for a task of somebody else changes nothing at all", "[unit]") {
  const std::vector<BadUpload> cases{
      {"another run", 2211, [](auto& begin) { begin.task.run_id.bytes[0] ^= 1; }},
      {"a round to come", 2211, [](auto& begin) { begin.task.round = 2; }},
      {"an attempt to come", 2211, [](auto& begin) { begin.task.attempt = 2; }},
      {"round 0", 2212, [](auto& begin) { begin.task.round = 0; }},
      {"an evaluation that nobody asked for", 2211,
       [](auto& begin) { begin.task.kind = wire::TaskKind::kEvaluate; }},
      {"a rehearsal that nobody asked for", 2211,
       [](auto& begin) { begin.task.kind = wire::TaskKind::kRehearse; }},
  };
  for (const BadUpload& bad : cases) {
    INFO(bad.name);
    const auto world = AtWork();
    wire::UploadBegin begin = world->BeginOf(0);
    bad.spoil(begin);
    const std::string before = world->Digest();
    world->Step(UploadOffered{world->SessionOf(0), begin, std::nullopt});
    REQUIRE(world->refusals.size() == 1);
    CHECK(world->refusals[0].code == bad.code);
    CHECK(world->Digest() == before);
  }
}

TEST_CASE("a client outside the cohort is not assigned", "[unit]") {
  const auto world = AtWork();
  world->Join(7);
  wire::UploadBegin begin = world->BeginOf(0);
  const std::string before = world->Digest();
  world->Step(UploadOffered{world->SessionOf(7), begin, std::nullopt});
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2211);
  CHECK(world->Digest() == before);
}

TEST_CASE("a body that fails its inspection is refused by number", "[unit]") {
  struct Verdict {
    const char* name;
    int code;
    double norm;
    int refused;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Verdict> verdicts{
      {"NaN or infinity", 2104, 0, 2104},         {"a structure that is invalid", 2113, 0, 2113},
      {"a norm above the limit", 0, 101, 2105},   {"an infinite norm", 0, HUGE_VAL, 2105},
      {"a norm that is no number", 0, nan, 2105},
  };
  for (const Verdict& verdict : verdicts) {
    INFO(verdict.name);
    const auto world = AtWork();
    world->holds_uploads = true;
    world->inspect = [&](ClientNumber, UploadFinished& finished) {
      finished.code = verdict.code;
      finished.norm = verdict.norm;
    };
    world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
    REQUIRE(world->refusals.empty());
    const std::uint64_t commits = world->commits;
    world->FinishUpload(0);
    REQUIRE(world->refusals.size() == 1);
    CHECK(world->refusals[0].code == verdict.refused);
    CHECK(world->View().counts.rejected == 1);
    CHECK(world->commits == commits + 1);  // the end of the assignment, not an update
    CHECK(world->MessagesTo<wire::UpdateAck>(world->SessionOf(0)).empty());
  }
}

TEST_CASE("a damaged body is no verdict on the update: it may be sent again", "[unit]") {
  const auto world = AtWork();
  world->holds_uploads = true;
  world->inspect = [](ClientNumber, UploadFinished& finished) { finished.code = 2110; };
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  world->FinishUpload(0);
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2110);
  CHECK(world->View().counts.rejected == 0);
  world->inspect = nullptr;
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  world->FinishUpload(0);
  CHECK(world->View().counts.ok == 1);
}

TEST_CASE("an update is acknowledged once, and again when it is sent again", "[unit]") {
  const auto world = AtWork();
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  world->Work();
  const std::string before = world->Digest();
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  const auto acks = world->MessagesTo<wire::UpdateAck>(world->SessionOf(0));
  REQUIRE(acks.size() == 2);
  CHECK(acks[0].disposition == wire::Disposition::kAccepted);
  CHECK(acks[1].disposition == wire::Disposition::kDuplicate);
  CHECK(acks[1].seq == acks[0].seq);
  CHECK(world->Digest() == before);
}

TEST_CASE("a second update of the same task is 2108", "[unit]") {
  const auto world = AtWork();
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  world->Work();
  wire::UploadBegin second = world->BeginOf(0);
  second.update_id.bytes[15] ^= 0xFF;
  const std::string before = world->Digest();
  world->Step(UploadOffered{world->SessionOf(0), second, std::nullopt});
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2108);
  CHECK(world->Digest() == before);
}

TEST_CASE("the same update id with other content is 2111 and ends the session", "[unit]") {
  const auto world = AtWork();
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  world->Work();
  wire::UploadBegin other = world->BeginOf(0);
  other.sha256.bytes[0] ^= 1;
  const std::string before = world->Digest();
  world->Step(UploadOffered{world->SessionOf(0), other, std::nullopt});
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2111);
  REQUIRE(world->disconnects.size() == 1);
  CHECK(world->disconnects[0].code == 2111);
  CHECK(world->Digest() == before);
}

TEST_CASE("a verdict of the store is answered without the engine's memory", "[unit]") {
  const auto world = AtWork();
  const wire::UploadBegin begin = world->BeginOf(0);
  StoredVerdict stored{.update = begin.update_id, .sha256 = begin.sha256, .seq = 77, .code = 0};
  world->Step(UploadOffered{world->SessionOf(0), begin, stored});
  const auto acks = world->MessagesTo<wire::UpdateAck>(world->SessionOf(0));
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].seq == 77);
  stored.update.bytes[0] ^= 1;
  world->Step(UploadOffered{world->SessionOf(0), begin, stored});
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2108);
  stored = {.update = {}, .sha256 = {}, .seq = 0, .code = 2105};
  world->Step(UploadOffered{world->SessionOf(0), begin, stored});
  CHECK(world->refusals.back().code == 2105);
}

TEST_CASE("a new update id before the acknowledgement replaces the unfinished upload", "[unit]") {
  const auto world = AtWork();
  world->holds_uploads = true;
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  wire::UploadBegin second = world->BeginOf(0);
  second.update_id.bytes[15] ^= 0xFF;
  world->Step(UploadOffered{world->SessionOf(0), second, std::nullopt});
  CHECK(world->cancels.size() == 1);
  world->FinishUpload(0);
  const auto acks = world->MessagesTo<wire::UpdateAck>(world->SessionOf(0));
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].update_id == second.update_id);
}

TEST_CASE("a metric that is not finite is dropped and the update stays", "[unit]") {
  const auto world = AtWork();
  wire::UploadBegin begin = world->BeginOf(0);
  begin.metrics = {{1, std::numeric_limits<double>::quiet_NaN()}, {2, 0.25}};
  world->Step(UploadOffered{world->SessionOf(0), begin, std::nullopt});
  world->Work();
  const auto outcomes = world->Events<ClientOutcome>();
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].outcome == Outcome::kOk);
  REQUIRE(outcomes[0].update.metrics.size() == 1);
  CHECK(outcomes[0].update.metrics[0].name == "accuracy");
}

TEST_CASE("three refusals that count are reported as the limit, and quarantine refuses", "[unit]") {
  const auto world = AtWork();
  world->holds_uploads = true;
  world->inspect = [](ClientNumber, UploadFinished& finished) { finished.code = 2110; };
  for (int i = 0; i < 3; ++i) {
    world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
    world->FinishUpload(0);
  }
  const auto struck = world->Events<DeviceStruck>();
  REQUIRE(struck.size() == 3);
  CHECK_FALSE(struck[1].is_at_limit);
  CHECK(struck[2].is_at_limit);
  CHECK(struck[2].device == test::DeviceOf(0));

  world->Step(DeviceChanged{test::DeviceOf(0), DeviceState::kQuarantined, {{"bees", 0}}});
  world->Step(UploadOffered{world->SessionOf(0), world->BeginOf(0), std::nullopt});
  CHECK(world->refusals.back().code == 2117);
  world->Poll(0);
  const auto back = world->MessagesTo<wire::ComeBack>(world->SessionOf(0));
  REQUIRE_FALSE(back.empty());
  CHECK(back.back().reason == wire::ComeBackReason::kQuarantined);
}

TEST_CASE("min_separation refuses nobody in its first round and excludes in the next", "[unit]") {
  const auto world = World({.rounds = 2,
                            .clients_per_round = 2,
                            .min_reports = 1,
                            .min_separation = std::chrono::hours(1)},
                           4);
  world->Start();
  world->Work();
  std::map<std::uint32_t, std::vector<ClientNumber>> by_round;
  for (const auto& outcome : world->Events<ClientOutcome>()) {
    by_round[outcome.key.round].push_back(outcome.client);
  }
  REQUIRE(by_round[1].size() == 2);
  REQUIRE(by_round[2].size() == 2);
  for (const ClientNumber client : by_round[2]) {
    CHECK(std::count(by_round[1].begin(), by_round[1].end(), client) == 0);
  }
}

}  // namespace
}  // namespace skep::aggregator
