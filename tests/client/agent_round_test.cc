// Whole rounds over TLS: what a device does, and what it goes on with after a loss.
#include "client/agent/history.h"
#include "client/agent/state.h"
#include "client/agent/work.h"
#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using test::AgentWorld;
using test::Peer;

constexpr std::uint64_t kOneChunk = wire::kSmallestChunkBytes;

void ShowLog(const AgentWorld& world) {
  for (const std::string& line : world.lines) UNSCOPED_INFO(line);
}

TEST_CASE("a device downloads, trains, uploads and is acknowledged", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  REQUIRE(world.aggregator.updates.size() == 1);
  const auto& update = world.aggregator.updates.front();
  CHECK(update.begin.weight == 16);  // 20 rows without the fifth that is held out
  CHECK(update.body.size() == world.aggregator.model().size());
  CHECK(Sha256::Of(update.body) == update.begin.sha256);
  CHECK(world.Logged("round 1: trained 16 examples in "));

  const Storage storage = Storage::Open(world.StorageFolder()).value();
  CHECK_FALSE(RecoverUpdate(storage).value().pending);
  const State state = LoadState(storage).value();
  CHECK(state.memory.client == 3U);
  CHECK(state.memory.seen.size() == 1);
  CHECK(state.memory.evidence.has_value());
  CHECK(state.today.up > update.body.size());
  CHECK(state.today.down > world.aggregator.model().size());
  const auto history = ReadHistory(storage, 10);
  REQUIRE(history.size() == 1);
  CHECK(history.front().outcome == "contributed");
  CHECK(history.front().examples == 16);
}

TEST_CASE("one connection serves several rounds, and the plan is asked for once", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.settings.once = false;
  world.aggregator.rounds = 3;
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    const bool is_last = std::holds_alternative<wire::Poll>(message) && world.aggregator.round > 3;
    if (is_last) peer.Send(wire::PeerError{3334, wire::RetryClass::kNever, 0, 0, "replaced"});
    return is_last;
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 3334);
  CHECK(world.aggregator.updates.size() == 3);
  CHECK(world.server.connections == 1);
  CHECK(world.server.Heard<wire::PlanRequest>().size() == 1);
  // The model is the same in all rounds of this aggregator, so it travels once.
  CHECK(world.server.Heard<wire::DownloadRequest>().size() == 1);
}

// Sends two chunks of the model, and does `then` once they have arrived.
void StopAfterTwoChunks(AgentWorld& world, const std::function<void(Peer&)>& then) {
  world.aggregator.before = [&world, then](Peer& peer, const wire::Message& message) {
    if (std::holds_alternative<wire::Pong>(message)) {
      then(peer);
      return true;
    }
    const auto* request = std::get_if<wire::DownloadRequest>(&message);
    if (request == nullptr || peer.number() > 0) return false;
    const Bytes& model = world.aggregator.model();
    peer.Send(wire::DownloadBegin{request->transfer_id, model.size(), 0,
                                  static_cast<std::uint32_t>(kOneChunk)});
    peer.SendBody(request->transfer_id, model, 0, 2 * kOneChunk);
    peer.Send(wire::Ping{1});
    return true;
  };
}

std::string PartOf(const AgentWorld& world) {
  return world.StorageFolder() + "/cache/" + Sha256::Of(world.aggregator.model()).Hex() + ".part";
}

TEST_CASE("a download that is cut goes on where it was, and counts once", "[unit]") {
  AgentWorld world;
  world.Enrol();
  StopAfterTwoChunks(world, [](Peer& peer) { peer.Cut(); });
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  CHECK(world.server.connections == 2);
  CHECK(world.aggregator.updates.size() == 1);
  CHECK(world.server.Heard<wire::TaskAccept>().size() == 1);
  const auto requests = world.server.Heard<wire::DownloadRequest>();
  REQUIRE(requests.size() == 2);
  CHECK(requests[1].offset == 2 * kOneChunk);
  CHECK_FALSE(Exists(PartOf(world)));
}

TEST_CASE("the next process goes on with a model that was cut off", "[unit]") {
  AgentWorld world;
  world.Enrol();
  StopAfterTwoChunks(world, [](Peer& peer) {
    peer.Send(wire::PeerError{3334, wire::RetryClass::kNever, 0, 0, "replaced"});
  });
  CHECK(world.RunAgent().code == 3334);
  REQUIRE(ReadFile(PartOf(world), 1 << 20, 4001).value().size() == 2 * kOneChunk);
  SECTION("where it was") {
    const Outcome outcome = world.RunToEnd();
    ShowLog(world);
    CHECK(outcome.code == 0);
    const auto requests = world.server.Heard<wire::DownloadRequest>();
    REQUIRE(requests.size() == 2);
    CHECK(requests[1].offset == 2 * kOneChunk);
  }
  SECTION("from its beginning if what is there is damaged") {
    Bytes damaged = ReadFile(PartOf(world), 1 << 20, 4001).value();
    damaged[5] ^= 1;
    REQUIRE(WriteFileAtomically(PartOf(world), damaged, FileMode::kPrivate).has_value());
    const Outcome outcome = world.RunToEnd();
    ShowLog(world);
    CHECK(outcome.code == 0);
    const auto requests = world.server.Heard<wire::DownloadRequest>();
    REQUIRE(requests.size() == 3);
    CHECK(requests[1].offset == 2 * kOneChunk);
    CHECK(requests[2].offset == 0);
  }
  SECTION("from its beginning if it is longer than the model") {
    const Bytes model = world.aggregator.model();
    Bytes longer = model;
    longer.push_back(0);
    REQUIRE(WriteFileAtomically(PartOf(world), longer, FileMode::kPrivate).has_value());
    CHECK(world.RunToEnd().code == 0);
    CHECK(world.server.Heard<wire::DownloadRequest>().back().offset == 0);
  }
  SECTION("without a byte if all of it is there") {
    REQUIRE(WriteFileAtomically(PartOf(world), world.aggregator.model(), FileMode::kPrivate)
                .has_value());
    CHECK(world.RunToEnd().code == 0);
    CHECK(world.server.Heard<wire::DownloadRequest>().back().offset ==
          world.aggregator.model().size());
  }
  CHECK(world.aggregator.updates.size() == 1);
  CHECK_FALSE(Exists(PartOf(world)));
}

TEST_CASE("the next process knows the plan and the model of the last one", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.rounds = 2;
  CHECK(world.RunAgent().code == 0);
  SECTION("and asks for neither") {
    CHECK(world.RunToEnd().code == 0);
    CHECK(world.server.Heard<wire::PlanRequest>().size() == 1);
    CHECK(world.server.Heard<wire::DownloadRequest>().size() == 1);
  }
  SECTION("unless they were damaged meanwhile") {
    const std::string model =
        world.StorageFolder() + "/cache/" + Sha256::Of(world.aggregator.model()).Hex();
    Bytes damaged = ReadFile(model, 1 << 20, 4001).value();
    damaged[7] ^= 1;
    REQUIRE(WriteFileAtomically(model, damaged, FileMode::kPrivate).has_value());
    CHECK(world.RunToEnd().code == 0);
    CHECK(world.server.Heard<wire::PlanRequest>().size() == 1);
    CHECK(world.server.Heard<wire::DownloadRequest>().size() == 2);
  }
  CHECK(world.aggregator.updates.size() == 2);
}

TEST_CASE("an upload that is cut goes on where it stopped, with the same id", "[unit]") {
  AgentWorld world;
  world.Enrol();
  int chunks = 0;
  world.aggregator.before_chunk = [&](Peer& peer, BytesView) {
    if (++chunks != 3) return false;
    peer.Cut();  // after two chunks that are kept
    return true;
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  const auto begun = world.server.Heard<wire::UploadBegin>();
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].update_id == begun[1].update_id);
  REQUIRE(world.aggregator.updates.size() == 1);
  CHECK(Sha256::Of(world.aggregator.updates[0].body) == begun[0].sha256);
}

TEST_CASE("an acknowledgement that was lost is given again, and nothing is sent twice", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.before_chunk = [&](Peer& peer, BytesView payload) {
    const auto header = wire::DecodeChunkHeader(payload).value();
    const bool is_last = (header.flags & wire::kLastChunkFlag) != 0;
    // The usual handler takes the chunk and acknowledges; that answer is lost with the connection.
    if (is_last) peer.Cut();
    return false;
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  CHECK(world.server.connections == 2);
  CHECK(world.server.Heard<wire::UploadBegin>().size() == 2);
  CHECK(world.aggregator.updates.size() == 1);
  const Storage storage = Storage::Open(world.StorageFolder()).value();
  CHECK(ReadHistory(storage, 10).size() == 1);
}

TEST_CASE("an update that a stopped process left is sent by the next one", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.settings.budget = std::chrono::minutes(10);  // of the hasty clock
  bool is_first = true;
  world.aggregator.before = [&](Peer&, const wire::Message& message) {
    // The aggregator does not answer: the update waits until the budget is used up.
    return is_first && std::holds_alternative<wire::UploadBegin>(message);
  };
  const Outcome first = world.RunAgent();
  CHECK(first.is_late);
  is_first = false;
  const std::optional<client::PendingUpdate> left =
      RecoverUpdate(Storage::Open(world.StorageFolder()).value()).value().pending;
  REQUIRE(left);
  CHECK(world.aggregator.updates.empty());

  const Outcome second = world.RunToEnd();
  ShowLog(world);
  CHECK(second.code == 0);
  REQUIRE(world.aggregator.updates.size() == 1);
  CHECK(world.aggregator.updates[0].begin.update_id == left->id);
  CHECK(world.server.Heard<wire::TaskAccept>().size() == 1);
}

TEST_CASE("before its next check-in a device says when that is, and a restart does not move it",
          "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.rounds = 0;
  world.aggregator.come_back = {.earliest_ms = 24 * 3'600'000,
                                .latest_ms = 24 * 3'600'000,
                                .reason = wire::ComeBackReason::kQuarantined};
  CHECK(world.RunAgent().code == 0);
  const auto next = [&] {
    return LoadState(Storage::Open(world.StorageFolder()).value()).value().memory.next_check_in;
  };
  // With `once` the session ends by the answer, and nothing is to be waited for.
  {
    const Storage storage = Storage::Open(world.StorageFolder()).value();
    State state = LoadState(storage).value();
    state.memory.next_check_in = ReadClock().wall + 24 * 3'600'000;
    REQUIRE(SaveState(storage, state).has_value());
  }
  const WallMs until = next();
  const Outcome again = world.RunAgent();
  const Outcome third = world.RunToEnd();
  CHECK(again.code == 0);
  CHECK(again.why.starts_with("the next check-in is in 24 h, at 20"));
  CHECK(third.why.find(UtcText(until)) != std::string::npos);
  CHECK(world.Logged("nothing done: the next check-in is in 24 h"));
  CHECK(world.server.connections == 1);
  CHECK(next() == until);
}

TEST_CASE("a refused update is given up, and its number is the outcome", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    const auto* begin = std::get_if<wire::UploadBegin>(&message);
    if (begin == nullptr) return false;
    peer.Send(wire::UpdateRefused{.update_id = begin->update_id,
                                  .code = 2105,
                                  .come_back = world.aggregator.come_back,
                                  .transfer_id = begin->transfer_id,
                                  .retry = wire::RetryClass::kNever,
                                  .retry_after_ms = 0});
    return true;
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 2105);
  CHECK(world.Logged("SKEP-2105 round 1: update refused: norm above the limit"));
  const Storage storage = Storage::Open(world.StorageFolder()).value();
  CHECK_FALSE(RecoverUpdate(storage).value().pending);
  const auto history = ReadHistory(storage, 10);
  REQUIRE(history.size() == 1);
  CHECK(history[0].outcome == "refused");
  CHECK(history[0].code == 2105);
}

TEST_CASE("an evaluation reports without a body", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.change_manifest = [](wire::Manifest& manifest) {
    manifest.kind = wire::TaskKind::kEvaluate;
  };
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    const auto* begin = std::get_if<wire::UploadBegin>(&message);
    if (begin == nullptr) return false;
    wire::UpdateAck ack;
    ack.update_id = begin->update_id;
    ack.sha256 = begin->sha256;
    ack.seq = 1;
    peer.Send(ack);
    return true;
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  const auto begun = world.server.Heard<wire::UploadBegin>();
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].size == 0);
  CHECK(begun[0].weight == 4);  // what is held out
  CHECK(begun[0].metrics.size() == 2);
}

TEST_CASE("a round that closes while the model arrives is left, and its chunks are dropped",
          "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.rounds = 2;
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    const auto* request = std::get_if<wire::DownloadRequest>(&message);
    if (request == nullptr || world.aggregator.round != 1) return false;
    const Bytes& model = world.aggregator.model();
    const wire::Manifest manifest = world.aggregator.ManifestOf(1);
    peer.Send(wire::DownloadBegin{request->transfer_id, model.size(), 0,
                                  static_cast<std::uint32_t>(kOneChunk)});
    peer.SendBody(request->transfer_id, model, 0, kOneChunk);
    peer.Send(wire::RoundClosed{{manifest.run_id, 1, 1, wire::TaskKind::kTrain},
                                wire::RoundClosedReason::kComplete,
                                std::nullopt});
    peer.SendBody(request->transfer_id, model, kOneChunk, kOneChunk);
    world.aggregator.round = 2;
    return true;
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  CHECK(world.server.connections == 1);
  CHECK(world.server.Heard<wire::TransferCancel>().size() == 1);
  REQUIRE(world.aggregator.updates.size() == 1);
  CHECK(world.aggregator.updates[0].begin.task.round == 2);
}

TEST_CASE("a Ping is answered while the data are read and the trainer works", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    const auto* accept = std::get_if<wire::TaskAccept>(&message);
    if (accept != nullptr) peer.Send(wire::Ping{4711});
    return false;
  };
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 0);
  const auto pongs = world.server.Heard<wire::Pong>();
  REQUIRE(pongs.size() == 1);
  CHECK(pongs[0].nonce == 4711);
}

TEST_CASE("an aggregator that is silent for 2.5 ping intervals is left and met again", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    world.aggregator.ping_interval_ms = peer.number() == 0 ? 20 : 30'000;
    return peer.number() == 0 && std::holds_alternative<wire::Poll>(message);
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  CHECK(world.server.connections == 2);
  CHECK(world.Logged("SKEP-3324"));
}

TEST_CASE("what no aggregator says ends the connection, not the device", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const int which = GENERATE(range(0, 4));
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    if (peer.number() > 0 || !std::holds_alternative<wire::Poll>(message)) return false;
    if (which == 0) peer.Send(wire::Pong{1});
    if (which == 1) peer.SendBody(9, world.aggregator.model(), 0, kOneChunk);
    if (which == 2) peer.Send(world.aggregator.Ack());
    if (which == 3) peer.Send(wire::UploadAccept{5, 0, static_cast<std::uint32_t>(kOneChunk)});
    return true;
  };
  const Outcome outcome = world.RunToEnd();
  ShowLog(world);
  CHECK(outcome.code == 0);
  CHECK(world.server.connections == 2);
  CHECK(world.aggregator.updates.size() == 1);
}

}  // namespace
}  // namespace skep::agent
