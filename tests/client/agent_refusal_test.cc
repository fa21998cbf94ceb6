// What a device refuses: each bad offer by its own number, without training and without a trace.
#include "client/agent/state.h"
#include "client/agent/work.h"
#include "shared/wire/codec.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using test::AgentWorld;
using test::Peer;

// Runs one check-in; the offer must be declined with `code` and nothing be sent or kept.
void CheckDeclined(AgentWorld& world, int code) {
  world.Enrol();
  const Outcome outcome = world.RunToEnd();
  for (const std::string& line : world.lines) UNSCOPED_INFO(line);
  CHECK(outcome.code == code);
  const auto declined = world.server.Heard<wire::TaskDecline>();
  REQUIRE(declined.size() == 1);
  CHECK(declined[0].code == static_cast<std::uint32_t>(code));
  CHECK(world.server.Heard<wire::TaskAccept>().empty());
  CHECK(world.server.Heard<wire::UploadBegin>().empty());
  CHECK(world.Logged("SKEP-" + std::to_string(code) + " round 1: declined: "));
  const Storage storage = Storage::Open(world.StorageFolder()).value();
  CHECK_FALSE(RecoverUpdate(storage).value().pending);
  CHECK_FALSE(LoadState(storage).value().memory.client);
}

// The same for what is refused before the task is worth remembering.
void CheckForgotten(AgentWorld& world, int code) {
  CheckDeclined(world, code);
  const Storage storage = Storage::Open(world.StorageFolder()).value();
  CHECK(LoadState(storage).value().memory.seen.empty());
}

TEST_CASE("a task whose signature does not fit is declined with 3131", "[unit]") {
  AgentWorld world;
  world.aggregator.change_signature = [](wire::SignedManifest& statement) {
    statement.signature.bytes[10] ^= 1U;
  };
  CheckForgotten(world, 3131);
}

TEST_CASE("a task that was changed after it was signed is declined with 3131", "[unit]") {
  AgentWorld world;
  world.aggregator.change_signature = [&](wire::SignedManifest& statement) {
    wire::Manifest manifest = world.aggregator.ManifestOf(1);
    manifest.max_weight += 1;
    statement.payload = wire::EncodeManifest(manifest);
  };
  CheckForgotten(world, 3131);
}

TEST_CASE("a task that an unknown key signed is declined with 3132", "[unit]") {
  AgentWorld world;
  const auto other = crypto::SigningKey::Make().value();
  world.aggregator.change_signature = [&](wire::SignedManifest& statement) {
    statement.key_id = other.id();
    statement.signature = other.Sign(crypto::SignedKind::kManifest, statement.payload).value();
  };
  CheckForgotten(world, 3132);
}

TEST_CASE("a statement about a key is no signature of a task: 3131", "[unit]") {
  AgentWorld world;
  world.aggregator.change_signature = [&](wire::SignedManifest& statement) {
    statement.signature =
        world.aggregator.key().Sign(crypto::SignedKind::kKeyStatement, statement.payload).value();
  };
  CheckForgotten(world, 3131);
}

TEST_CASE("a task of another federation is declined with 2216", "[unit]") {
  AgentWorld world;
  world.aggregator.change_manifest = [](wire::Manifest& manifest) {
    manifest.federation_id = test::FederationOf(0x11);
  };
  CheckForgotten(world, 2216);
}

TEST_CASE("a task that has expired is declined with 2215", "[unit]") {
  AgentWorld world;
  world.aggregator.change_manifest = [](wire::Manifest& manifest) {
    manifest.expires_at_ms = manifest.issued_at_ms - 1000;
  };
  CheckForgotten(world, 2215);
}

TEST_CASE("a task from the future is declined with 2215", "[unit]") {
  AgentWorld world;
  world.aggregator.change_manifest = [](wire::Manifest& manifest) {
    manifest.issued_at_ms += 3'600'000;
    manifest.expires_at_ms += 3'600'000;
  };
  CheckForgotten(world, 2215);
}

TEST_CASE("a plan with another hash than the manifest's is declined with 2218", "[unit]") {
  AgentWorld world;
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    const auto* request = std::get_if<wire::PlanRequest>(&message);
    if (request == nullptr) return false;
    wire::Plan plan;
    plan.layout = {{.name = "w", .shape = {2}}};
    peer.Send(wire::PlanReply{request->plan_sha256, wire::EncodePlan(plan).value()});
    return true;
  };
  CheckDeclined(world, 2218);
}

TEST_CASE("a plan that this client cannot do is declined with 2219", "[unit]") {
  AgentWorld world;
  world.aggregator.change_plan = [](wire::Plan& plan) {
    plan.params.push_back({.key = "training.algorithm", .number = 0, .text = "scaffold"});
  };
  CheckDeclined(world, 2219);
}

TEST_CASE("a model above the memory of this device is declined with 7404", "[unit]") {
  AgentWorld world;
  world.settings.caps.memory = 100'000;
  CheckDeclined(world, 7404);
}

TEST_CASE("more rows than max_weight are declined with 7413", "[unit]") {
  AgentWorld world;
  world.aggregator.change_manifest = [](wire::Manifest& manifest) { manifest.max_weight = 15; };
  CheckDeclined(world, 7413);
  CHECK(world.Logged("16 examples, the run allows a weight of 15"));
}

TEST_CASE("data without a column of the plan are declined with 7414, named in the log alone",
          "[unit]") {
  AgentWorld world;
  world.aggregator.change_plan = [](wire::Plan& plan) { plan.data->features[1].name = "c"; };
  CheckDeclined(world, 7414);
  CHECK(world.Logged("\"c\""));
}

TEST_CASE("a class that the plan does not know is declined with 7414", "[unit]") {
  AgentWorld world;
  world.aggregator.change_plan = [](wire::Plan& plan) { plan.data->classes = {"no", "perhaps"}; };
  CheckDeclined(world, 7414);
}

TEST_CASE("a device without its data file declines with 7402", "[unit]") {
  AgentWorld world;
  world.config.data.path += ".gone";
  CheckDeclined(world, 7402);
}

TEST_CASE("a task above the bytes of a day is declined with 7408", "[unit]") {
  AgentWorld world;
  world.settings.caps.bytes_per_day = 100'000;
  CheckDeclined(world, 7408);
  CHECK(world.Logged("limits.bytes_per_day is 100 KB: "));
  CHECK(world.Logged(" today, a task takes 120 KB; goes on at "));
  CHECK(world.Logged("T00:00:00"));
}

TEST_CASE("the outcome of a check-in that a limit ended names limit, use and end", "[unit]") {
  AgentWorld world;
  world.settings.caps.bytes_per_day = 100'000;
  world.Enrol();
  const Outcome declined = world.RunAgent();
  CHECK(declined.code == 7408);
  CHECK(declined.why.find("limits.bytes_per_day is 100 KB: ") != std::string::npos);
  {
    const Storage storage = Storage::Open(world.StorageFolder()).value();
    State state = LoadState(storage).value();
    state.memory.next_check_in = 0;
    state.today.TurnTo(ReadClock().wall);
    state.today.down = 100'000;
    REQUIRE(SaveState(storage, state).has_value());
  }
  const int before = world.server.connections;
  const Outcome spent = world.RunToEnd();
  CHECK(spent.code == 7408);
  CHECK(spent.why.find("limits.bytes_per_day is 100 KB: 100 KB were sent and received today; ") ==
        0);
  CHECK(spent.why.find("; goes on at ") != std::string::npos);
  CHECK(world.server.connections == before);
}

TEST_CASE("a task for which the disk has no room is declined with 7405", "[unit]") {
  AgentWorld world;
  // Room for the update alone, but not beside what is there.
  world.settings.caps.storage = 140'000;
  world.settings.caps.memory = 64 << 20;
  world.Enrol();
  (void)world.folder.Write("device/history.jsonl", std::string(60'000, 'x'));
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 7405);
  const auto declined = world.server.Heard<wire::TaskDecline>();
  REQUIRE(declined.size() == 1);
  CHECK(declined[0].code == 7405);
}

TEST_CASE("a model with another hash than the manifest's is not trained: 2218", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.change_manifest = [](wire::Manifest& manifest) {
    manifest.model_sha256.bytes[0] ^= 1U;
  };
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    const bool is_failure = std::holds_alternative<wire::TaskFailed>(message);
    if (is_failure) ++world.aggregator.round;
    (void)peer;
    return is_failure;
  };
  const Outcome outcome = world.RunToEnd();
  for (const std::string& line : world.lines) UNSCOPED_INFO(line);
  CHECK(outcome.code == 2218);
  const auto failed = world.server.Heard<wire::TaskFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].code == 2218);
  CHECK(world.aggregator.updates.empty());
}

TEST_CASE("a round that goes backwards is declined with 2217 and the newer task as proof",
          "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.round = 5;
  world.aggregator.rounds = 5;
  CHECK(world.RunAgent().code == 0);
  world.aggregator.round = 4;
  world.aggregator.rounds = 4;
  // Another process: what it has seen it knows from the disk.
  const Outcome outcome = world.RunToEnd();
  for (const std::string& line : world.lines) UNSCOPED_INFO(line);
  CHECK(outcome.code == 2217);
  const auto declined = world.server.Heard<wire::TaskDecline>();
  REQUIRE(declined.size() == 1);
  CHECK(declined[0].code == 2217);
  REQUIRE(declined[0].evidence.has_value());
  CHECK(wire::DecodeManifest(declined[0].evidence->payload).value().round == 5);
  CHECK(world.aggregator.updates.size() == 1);
  const auto polls = world.server.Heard<wire::Poll>();
  REQUIRE(polls.size() >= 2);
  CHECK(polls.back().evidence.has_value());
}

}  // namespace
}  // namespace skep::agent
