// Restarts, repeats and the end of a server.
#include <filesystem>

#include "aggregator/store/partial_uploads.h"
#include "shared/base/sha256.h"
#include "tests/aggregator/server_fixture.h"

namespace skep::aggregator::test {
namespace {

using Changes = TestServer::Changes;

bool HasFinished(Server& server) {
  const auto run = server.FindRun("demo");
  return run.has_value() && run->status.view.state == RunState::kFinished;
}

// Two rounds of two devices; what happens between the two updates of round 1 is the test's.
Hash32 TwoRounds(const std::function<void(TestServer&, const wire::TaskOffer&)>& between) {
  TestServer server;
  const auto devices = server.Enrol(2);
  server.StartRun(2, 2);
  for (const auto& device : devices) device->Join();
  for (const auto& device : devices) device->Poll();
  const wire::TaskOffer first = devices[0]->ExpectOffer();
  const wire::TaskOffer second = devices[1]->ExpectOffer();
  static_cast<void>(devices[0]->Train(first, 0.125F, 3));
  between(server, first);
  for (const auto& device : devices) {
    device->SetPort(server.devices_port());
    device->Join();
  }
  devices[1]->Poll();
  const wire::TaskOffer again = devices[1]->ExpectOffer();
  CHECK(again.manifest == second.manifest);  // the same attempt, not a new one
  static_cast<void>(devices[1]->Train(again, -0.5F, 4));
  for (const auto& device : devices) device->Poll();
  for (std::size_t i = 0; i < 2; ++i) {
    const wire::TaskOffer offer = devices[i]->ExpectOffer();
    CHECK(ManifestOf(offer).round == 2);
    static_cast<void>(devices[i]->Train(offer, 0.25F, 2));
  }
  REQUIRE(server.Until(HasFinished));
  CHECK(server.server().FindRun("demo").value().rounds.size() == 2);
  return server.server().Model("demo", std::nullopt).value().sha256;
}

TEST_CASE(
    "a server that ends after an acknowledgement goes on with the same attempt to the same "
    "model",
    "[unit]") {
  const Hash32 undisturbed = TwoRounds([](TestServer&, const wire::TaskOffer&) {});
  const Hash32 restarted = TwoRounds([](TestServer& server, const wire::TaskOffer& offer) {
    const std::uint16_t port = server.devices_port();
    server.Kill();
    server.Start();
    CHECK(server.devices_port() == port);  // enrolled devices find it again
    const auto view = server.server().FindRun("demo").value().status.view;
    CHECK(view.attempt.round == ManifestOf(offer).round);
    CHECK(view.attempt.attempt == 1);
    CHECK(view.counts.ok == 1);
    CHECK(view.counts.invited == 2);
  });
  CHECK(restarted == undisturbed);
}

TEST_CASE("an update sent again after its acknowledgement was lost is answered from the store",
          "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(2);
  server.StartRun(1, 2);
  for (const auto& device : devices) device->Join();
  for (const auto& device : devices) device->Poll();
  const wire::Manifest manifest = ManifestOf(devices[0]->ExpectOffer());
  devices[0]->Accept(manifest);
  const Bytes body = UpdateOf(0.5F);
  wire::UploadBegin begin = devices[0]->Begin(manifest, body, 3);
  devices[0]->peer().Send(begin);
  static_cast<void>(devices[0]->peer().Expect<wire::UploadAccept>());
  devices[0]->SendBody(begin.transfer_id, body);
  const auto first = devices[0]->peer().Expect<wire::UpdateAck>();
  const auto send_again = [&] {
    devices[0]->Join();
    begin.transfer_id = devices[0]->NextTransfer();
    devices[0]->peer().Send(begin);
  };
  const auto check_duplicate = [&] {
    send_again();
    const auto ack = devices[0]->peer().Expect<wire::UpdateAck>();
    CHECK(ack.disposition == wire::Disposition::kDuplicate);
    CHECK(ack.seq == first.seq);
  };
  check_duplicate();
  server.Kill();
  server.Start();
  check_duplicate();
  // Another update for the same task is one too many; the same id with other bytes is a lie.
  begin.update_id.bytes.fill(0x77);
  send_again();
  CHECK(devices[0]->peer().Expect<wire::UpdateRefused>().code == 2108);
  CHECK(server.server().FindRun("demo").value().status.view.counts.ok == 1);
}

TEST_CASE("the same update id with other content is 2111 and ends the session", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(2);
  server.StartRun(1, 2);
  for (const auto& device : devices) device->Join();
  for (const auto& device : devices) device->Poll();
  const wire::Manifest manifest = ManifestOf(devices[0]->ExpectOffer());
  devices[0]->Accept(manifest);
  const Bytes body = UpdateOf(0.5F);
  wire::UploadBegin begin = devices[0]->Begin(manifest, body, 3);
  devices[0]->peer().Send(begin);
  static_cast<void>(devices[0]->peer().Expect<wire::UploadAccept>());
  devices[0]->SendBody(begin.transfer_id, body);
  static_cast<void>(devices[0]->peer().Expect<wire::UpdateAck>());
  begin.transfer_id = devices[0]->NextTransfer();
  begin.sha256 = Sha256::Of(UpdateOf(0.75F));
  devices[0]->peer().Send(begin);
  CHECK(devices[0]->peer().Expect<wire::UpdateRefused>().code == 2111);
  CHECK(devices[0]->peer().ReadEnd() == 2111);
}

// A device in the middle of a task whose update has several chunks.
struct LongUpload {
  explicit LongUpload(TestServer& to) : server(to), devices(server.Enrol(1)) {
    auto request = server.Request(1, 1);
    request.sets = {"model.architecture=mlp", "model.hidden=[240,240]"};
    const auto started = server.server().StartRun(request);
    REQUIRE(started.has_value());
    body.resize(started.value().update_bytes);
    device().Join();
    device().Poll();
    manifest = ManifestOf(device().ExpectOffer());
    device().Accept(manifest);
    begin = device().Begin(manifest, body, 3);
  }
  Device& device() { return *devices.front(); }
  // What the server has of it by now.
  std::uint64_t Offer() {
    device().peer().Send(begin);
    return device().peer().Expect<wire::UploadAccept>().offset;
  }
  void ComeBack() {
    device().SetPort(server.devices_port());
    device().Join();
    begin.transfer_id = device().NextTransfer();
  }
  // Sends so many bytes, then the connection is lost and what came of them is in the file.
  void CutOff(std::uint64_t bytes) {
    REQUIRE(Offer() == 0);
    device().SendPart(begin.transfer_id, body, 0, bytes);
    device().peer().Cut();
    REQUIRE(server.Until([&](Server&) { return Kept() == 1; }));
  }
  void Finish(std::uint64_t offset) {
    device().SendBody(begin.transfer_id, body, offset);
    CHECK(device().peer().Expect<wire::UpdateAck>().disposition == wire::Disposition::kAccepted);
    REQUIRE(server.Until(HasFinished));
    CHECK(server.server().FindRun("demo").value().rounds.front().counts->ok == 1);
  }
  // Files of partial uploads.
  [[nodiscard]] std::size_t Kept() const {
    const std::filesystem::directory_iterator files(server.folder() + "/partial");
    return static_cast<std::size_t>(
        std::distance(std::filesystem::begin(files), std::filesystem::end(files)));
  }

  TestServer& server;
  std::vector<std::unique_ptr<Device>> devices;
  Bytes body;
  wire::Manifest manifest;
  wire::UploadBegin begin;
};

constexpr std::uint64_t kSmallChunk = 16384;

Changes SmallChunks() {
  return {{"transfer", "chunk_bytes = \"16KiB\""}};
}

TEST_CASE("an upload that was cut off goes on where it was, and counts once", "[unit]") {
  TestServer server(SmallChunks());
  LongUpload upload(server);
  REQUIRE(upload.body.size() > 12 * kSmallChunk);
  REQUIRE(upload.Offer() == 0);
  std::uint64_t sent = 0;
  for (int cut = 0; cut < 3; ++cut) {
    upload.device().SendPart(upload.begin.transfer_id, upload.body, sent, sent + 3 * kSmallChunk);
    upload.device().peer().Cut();
    upload.ComeBack();
    const std::uint64_t held = upload.Offer();
    CHECK(held > sent);
    CHECK(held <= sent + 3 * kSmallChunk);
    CHECK(held % kSmallChunk == 0);
    sent = held;
  }
  upload.Finish(sent);
  CHECK(server.Until([&](Server&) { return upload.Kept() == 0; }));
}

TEST_CASE("a server that ends in the middle of an upload goes on with it", "[unit]") {
  TestServer server(SmallChunks());
  LongUpload upload(server);
  upload.CutOff(5 * kSmallChunk);
  server.Kill();
  server.Start();
  upload.ComeBack();
  const std::uint64_t held = upload.Offer();
  CHECK(held > 0);
  upload.Finish(held);
}

TEST_CASE("what is kept of another update is not taken for this one", "[unit]") {
  TestServer server(SmallChunks());
  LongUpload upload(server);
  upload.CutOff(4 * kSmallChunk);
  upload.ComeBack();
  upload.begin.update_id.bytes.fill(0x55);
  CHECK(upload.Offer() == 0);
  upload.Finish(0);
}

TEST_CASE("a body that is all there is checked without another byte", "[unit]") {
  TestServer server(SmallChunks());
  LongUpload upload(server);
  // As a server leaves it that ends between the last chunk and its verdict.
  {
    PartialUploads files(server.folder() + "/partial", 64 << 20);
    REQUIRE(files.Open(ReadClock().wall).has_value());
    const DeviceId device =
        upload.device().certificate().IdentityIn(server.federation()).value().device;
    REQUIRE(files.Append(device, upload.begin, 0, upload.body));
  }
  server.Kill();
  server.Start();
  upload.ComeBack();
  REQUIRE(upload.Offer() == upload.body.size());
  CHECK(upload.device().peer().Expect<wire::UpdateAck>().disposition ==
        wire::Disposition::kAccepted);
  REQUIRE(server.Until(HasFinished));
}

TEST_CASE("a file of a partial upload that was damaged costs its bytes and nothing else",
          "[unit]") {
  TestServer server(SmallChunks());
  LongUpload upload(server);
  upload.CutOff(4 * kSmallChunk);
  const std::filesystem::directory_iterator first(server.folder() + "/partial");
  std::filesystem::resize_file(first->path(), 150);
  upload.ComeBack();
  REQUIRE(upload.Offer() == 0);
  upload.Finish(0);
}

TEST_CASE("a drain says Goodbye, stops listening and ends with 0; nothing is lost", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(2);
  server.StartRun(1, 2);
  for (const auto& device : devices) device->Join();
  for (const auto& device : devices) device->Poll();
  const wire::TaskOffer offer = devices[0]->ExpectOffer();
  static_cast<void>(devices[0]->Train(offer, 0.5F, 3));
  server.server().Stop(Server::StopKind::kDrain);
  const auto goodbye = devices[0]->peer().Expect<wire::Goodbye>();
  CHECK(goodbye.reason == wire::GoodbyeReason::kDraining);
  CHECK(goodbye.come_back);
  CHECK(server.server().Wait() == 0);
  CHECK(server.server().GetStatus().error().code == 5401);
  server.Kill();
  server.Start();
  CHECK(server.server().FindRun("demo").value().status.view.counts.ok == 1);
}

TEST_CASE("asking for a run again starts no second one; stopping twice succeeds", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  const StartedRun first = server.StartRun(5, 1);
  const StartedRun again = server.StartRun(5, 1);
  CHECK(again.existed);
  CHECK(again.id == first.id);
  auto other = server.Request(6, 1);
  const auto in_use = server.server().StartRun(other);
  REQUIRE_FALSE(in_use.has_value());
  CHECK(in_use.problems().front().code == 5308);
  REQUIRE(server.server().ChangeRun("demo", ControlRun::Action::kStop).has_value());
  CHECK(server.server().FindRun("demo").value().status.view.state == RunState::kStopped);
  CHECK(server.server().ChangeRun("demo", ControlRun::Action::kStop).has_value());
  CHECK(server.server().ChangeRun("demo", ControlRun::Action::kPause).error().code == 5405);
  server.Kill();
  server.Start();
  CHECK(server.server().FindRun("demo").value().status.view.state == RunState::kStopped);
  CHECK(server.server().Runs(false).value().empty());
  CHECK(server.server().Runs(true).value().size() == 1);
  CHECK(server.server().Model("demo", std::nullopt).value().sha256 == first.initial_model);
}

TEST_CASE("a run that cannot start says why and leaves nothing behind", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  const Hash32 digest = server.StoreDigest();
  const auto refused = [&](const StartRequest& request) {
    const auto started = server.server().StartRun(request);
    REQUIRE_FALSE(started.has_value());
    CHECK(server.StoreDigest() == digest);
    return started.problems().front().code;
  };
  auto request = server.Request(1, 1);
  request.population = "nobody";
  CHECK(refused(request) == 5403);
  request.population = "";
  CHECK(refused(request) == 5315);
  request = server.Request(1, 2);
  request.sets = {"training.min_reports=2"};
  CHECK(refused(request) == 5302);
  request = server.Request(1, 1);
  request.sets = {"data.path=missing.csv"};
  CHECK(refused(request) == 1201);
  request.sets = {"training.round=5"};
  CHECK(refused(request) == 1012);
  request.sets = {"admission.max_norm=1e30"};
  CHECK(refused(request) == 5304);
  CHECK(server.server().Runs(true).value().empty());
}

}  // namespace
}  // namespace skep::aggregator::test
