// A close while bodies are on their way: what has arrived whole is inspected and counts, the rest
// is cancelled.
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using test::EngineHarness;
using test::World;

// Five are asked, three are wanted; all five have begun to send.
std::unique_ptr<EngineHarness> FiveForThree() {
  auto world = World({.rounds = 1, .clients_per_round = 3, .invited = 5, .min_reports = 2}, 5);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  return world;
}

TEST_CASE("a body that arrived before the m-th report is inspected and counts", "[unit]") {
  const auto world = FiveForThree();
  world->ArriveUpload(3);
  for (const ClientNumber client : {0U, 1U, 2U}) world->FinishUpload(client);
  CHECK(world->published.empty());
  CHECK(world->View().waiting_for == "inspecting 1 updates, writing 0");
  REQUIRE(world->cancels.size() == 1);  // client 4 was still sending
  world->FinishUpload(3);
  REQUIRE(world->published.size() == 1);
  const auto ended = world->Events<AttemptEnded>();
  CHECK(ended[0].counts.ok == 4);
  CHECK(ended[0].counts.late == 1);
  CHECK(world->MessagesTo<wire::UpdateAck>(world->SessionOf(3)).size() == 1);
}

TEST_CASE("a body that arrived before the deadline is inspected and counts", "[unit]") {
  const auto world = FiveForThree();
  for (const ClientNumber client : {0U, 1U}) world->FinishUpload(client);
  world->ArriveUpload(2);
  world->Advance(std::chrono::minutes(10));
  CHECK(world->published.empty());
  CHECK(world->cancels.size() == 2);
  world->FinishUpload(2);
  REQUIRE(world->published.size() == 1);
  CHECK(world->Events<AttemptEnded>()[0].counts.ok == 3);
}

TEST_CASE("a body that fails its inspection during a close is refused for its own fault",
          "[unit]") {
  const auto world = FiveForThree();
  world->ArriveUpload(3);
  world->ArriveUpload(4);
  for (const ClientNumber client : {0U, 1U, 2U}) world->FinishUpload(client);
  world->inspect = [](ClientNumber client, UploadFinished& finished) {
    finished.code = client == 3 ? 2104 : 2110;  // the second could be sent again, were there time
  };
  world->FinishUpload(3);
  CHECK(world->published.empty());
  world->FinishUpload(4);
  REQUIRE(world->published.size() == 1);
  REQUIRE(world->refusals.size() == 2);
  CHECK(world->refusals[0].code == 2104);
  CHECK(world->refusals[1].code == 2110);
  const auto ended = world->Events<AttemptEnded>();
  CHECK(ended[0].counts.ok == 3);
  CHECK(ended[0].counts.rejected == 1);
  CHECK(ended[0].counts.late == 1);
}

TEST_CASE("an upload that is lost after it arrived does not hold up a close", "[unit]") {
  const auto world = FiveForThree();
  world->ArriveUpload(0);
  const auto number = std::get<UploadArrived>(world->log.back().second).upload;
  for (const ClientNumber client : {1U, 2U, 3U}) world->FinishUpload(client);
  CHECK(world->published.empty());
  world->Step(UploadAborted{number, 3324});
  CHECK(world->published.size() == 1);
}

TEST_CASE("a device that comes back while its body is inspected is answered on its new session",
          "[unit]") {
  const auto world = FiveForThree();
  world->ArriveUpload(0);
  const wire::UploadBegin begin = world->BeginOf(0);
  world->Join(0);  // takes over
  world->Step(UploadOffered{world->SessionOf(0), begin, std::nullopt});
  CHECK(world->cancels.empty());
  for (const ClientNumber client : {1U, 2U, 3U}) world->FinishUpload(client);
  CHECK(world->refusals.empty());
  world->FinishUpload(0);
  CHECK(world->MessagesTo<wire::UpdateAck>(world->SessionOf(0)).size() == 1);
  CHECK(world->published.size() == 1);
}

TEST_CASE("a second input that says a body arrived changes nothing", "[unit]") {
  const auto world = FiveForThree();
  world->ArriveUpload(0);
  const std::string before = world->Digest();
  world->ArriveUpload(0);
  world->Step(UploadArrived{999});
  CHECK(world->Digest() == before);
  for (const ClientNumber client : {0U, 1U, 2U}) world->FinishUpload(client);
  CHECK(world->published.size() == 1);
}

TEST_CASE("a revoked device's body is cancelled while it is inspected", "[unit]") {
  const auto world = FiveForThree();
  world->ArriveUpload(0);
  world->Step(DeviceChanged{test::DeviceOf(0), DeviceState::kRevoked, {{"bees", 0}}});
  CHECK(world->cancels.size() == 1);
  for (const ClientNumber client : {1U, 2U, 3U}) world->FinishUpload(client);
  CHECK(world->published.size() == 1);
}

}  // namespace
}  // namespace skep::aggregator
