// What the server refuses, with which number, and that nothing of it reaches the store.
#include <limits>

#include "shared/base/sha256.h"
#include "shared/wire/codec.h"
#include "tests/aggregator/server_fixture.h"

namespace skep::aggregator::test {
namespace {

using Changes = TestServer::Changes;

wire::Hello AHello() {
  return {.major = 1, .software = "scripted device", .clock_ms = 1};
}

// A run that waits for its one device, and the digest of the store before the refusal.
struct Stage {
  explicit Stage(Changes changes = {}) : server(std::move(changes)) {
    devices = server.Enrol(1);
    server.StartRun(1, 1);
    digest = server.StoreDigest();
  }
  [[nodiscard]] Device& device() { return *devices.front(); }
  void CheckUnchanged() { CHECK(server.StoreDigest() == digest); }

  TestServer server;
  std::vector<std::unique_ptr<Device>> devices;
  Hash32 digest;
};

TEST_CASE("bytes that are no frame are refused with their number and change nothing", "[unit]") {
  Stage stage;
  const auto refused = [&](const Bytes& first, bool after_hello) {
    Device& device = stage.device();
    if (after_hello) {
      device.Join();
    } else {
      REQUIRE(device.Connect().is_open());
    }
    device.peer().Write(first);
    return device.peer().ReadEnd();
  };
  CHECK(refused({0x47, 0x45, 0x54, 0x20, 0x2F, 0x20, 0x48, 0x54}, false) == 3201);
  CHECK(refused({1, 9, 0x10, 0, 4, 0, 0, 0}, false) == 3202);
  CHECK(refused({1, 0, 0x12, 0, 4, 0, 0, 0}, false) == 3301);
  CHECK(refused({2, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF}, false) == 3301);
  CHECK(refused({1, 0, 0x10, 0, 0xFF, 0xFF, 0, 0}, false) == 3204);
  CHECK(refused({1, 0, 0x7F, 0, 4, 0, 0, 0}, true) == 3203);
  CHECK(refused({1, 0, 0x12, 0, 1, 0x10, 0, 0}, true) == 3204);
  CHECK(refused({2, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F}, true) == 3205);
  CHECK(refused({1, 0, 0x12, 0, 2, 0, 0, 0, 0x78, 1}, true) == 3207);
  stage.CheckUnchanged();
}

TEST_CASE("plaintext, another protocol and no certificate never become a session", "[unit]") {
  Stage stage;
  const std::uint16_t port = stage.server.devices_port();
  const auto& server_ca = stage.server.server_ca().certificate();
  SECTION("the enrolment protocol on the device listener") {
    const auto context =
        net::TlsContext::ForEnrolment({server_ca, std::nullopt, "127.0.0.1", std::nullopt}).value();
    TlsPeer peer(port, context, wire::Role::kEnrolClient);
    CHECK_FALSE(peer.is_open());
    CHECK(peer.fault() == 3114);
  }
  SECTION("a certificate of another authority") {
    const auto other = crypto::Authority::Make(crypto::AuthorityKind::kDevice,
                                               stage.server.federation(), ReadClock().wall)
                           .value();
    const auto key = crypto::PrivateKey::MakeP256().value();
    const auto request =
        crypto::CertificateRequest::Check(crypto::MakeRequest(key).value()).value();
    const WallMs now = ReadClock().wall;
    auto certificate = other
                           .IssueDevice(request, {stage.server.federation(), DeviceId{}},
                                        {now - 1000, now + 1'000'000})
                           .value();
    Device stranger(port, key, certificate, server_ca);
    TlsPeer& peer = stranger.Connect();
    CHECK(peer.ReadEnd() == 0);
    CHECK(peer.fault() == 3101);
  }
  SECTION("a good certificate of a device that was never enrolled") {
    const auto key = crypto::PrivateKey::MakeP256().value();
    const auto request =
        crypto::CertificateRequest::Check(crypto::MakeRequest(key).value()).value();
    const WallMs now = ReadClock().wall;
    DeviceId unknown;
    unknown.bytes.fill(0x99);
    auto certificate = stage.server.device_ca()
                           .IssueDevice(request, {stage.server.federation(), unknown},
                                        {now - 1000, now + 1'000'000})
                           .value();
    Device stranger(port, key, certificate, server_ca);
    TlsPeer& peer = stranger.Connect();
    CHECK(peer.ReadEnd() == 0);
    CHECK(peer.fault() != 0);
    CHECK(stage.server.server().GetStatus().value().sessions == 0);
  }
  SECTION("a certificate of a known device that the store does not have") {
    const auto key = crypto::PrivateKey::MakeP256().value();
    const auto request =
        crypto::CertificateRequest::Check(crypto::MakeRequest(key).value()).value();
    const WallMs now = ReadClock().wall;
    const DeviceId known = stage.server.server().Devices().value().front().row.device;
    auto certificate =
        stage.server.device_ca()
            .IssueDevice(request, {stage.server.federation(), known}, {now - 1000, now + 1'000'000})
            .value();
    Device impostor(port, key, certificate, server_ca);
    TlsPeer& peer = impostor.Connect();
    peer.Send(AHello());
    CHECK(peer.ReadEnd() == 3101);
  }
  stage.CheckUnchanged();
}

TEST_CASE("a peer that says nothing, or does not end a header, is closed with its number",
          "[unit]") {
  Stage stage(Changes{{"session", "first_frame_deadline = \"1s\"\nheader_deadline = \"1s\""}});
  SECTION("nothing") {
    REQUIRE(stage.device().Connect().is_open());
    CHECK(stage.device().peer().ReadEnd() == 3321);
  }
  SECTION("half a header") {
    stage.device().Join();
    stage.device().peer().Write(Bytes{1, 0, 0x12});
    CHECK(stage.device().peer().ReadEnd() == 3322);
  }
  stage.CheckUnchanged();
}

TEST_CASE("a silent session is pinged, then closed with 3324", "[unit]") {
  Stage stage(Changes{{"session", "ping_interval = \"1s\"\nping_deadline = \"1s\""}});
  Device& device = stage.device();
  device.Join();
  device.Poll();
  const wire::TaskOffer offer = device.ExpectOffer();
  device.Accept(ManifestOf(offer));
  bool was_pinged = false;
  int code = 0;
  while (const auto frame = device.peer().Read()) {
    const auto message = wire::DecodeMessage(frame->id, frame->payload).value();
    was_pinged = was_pinged || std::holds_alternative<wire::Ping>(message);
    if (const auto* error = std::get_if<wire::PeerError>(&message)) {
      code = static_cast<int>(error->code);
    }
  }
  CHECK(was_pinged);
  CHECK(code == 3324);
}

// Up to an admitted upload.
struct Upload {
  explicit Upload(Stage& the_stage, const Bytes& body, std::uint32_t weight = 5)
      : device(the_stage.device()) {
    device.Join();
    device.Poll();
    manifest = ManifestOf(device.ExpectOffer());
    device.Accept(manifest);
    begin = device.Begin(manifest, body, weight);
  }
  Device& device;
  wire::Manifest manifest;
  wire::UploadBegin begin;
};

TEST_CASE("a chunk with a wrong checksum is 3305, and the update may be sent again", "[unit]") {
  Stage stage;
  const Bytes body = UpdateOf(0.5F);
  Upload upload(stage, body);
  upload.device.peer().Send(upload.begin);
  static_cast<void>(upload.device.peer().Expect<wire::UploadAccept>());
  wire::ChunkSender sender({.id = upload.begin.transfer_id,
                            .total = body.size(),
                            .offset = 0,
                            .chunk_bytes = upload.device.chunk_bytes});
  Bytes frame = sender.NextFrame(body);
  frame.back() ^= 1;
  upload.device.peer().Write(frame);
  CHECK(upload.device.peer().ReadEnd() == 3305);

  upload.device.Join();
  wire::UploadBegin again = upload.begin;
  again.transfer_id = upload.device.NextTransfer();
  upload.device.peer().Send(again);
  static_cast<void>(upload.device.peer().Expect<wire::UploadAccept>());
  upload.device.SendBody(again.transfer_id, body);
  CHECK(upload.device.peer().Expect<wire::UpdateAck>().update_id == again.update_id);
}

TEST_CASE("a body whose SHA-256 is another is 2110 and not acknowledged", "[unit]") {
  Stage stage;
  Upload upload(stage, UpdateOf(0.5F));
  upload.device.peer().Send(upload.begin);
  static_cast<void>(upload.device.peer().Expect<wire::UploadAccept>());
  upload.device.SendBody(upload.begin.transfer_id, UpdateOf(0.75F));
  const auto refused = upload.device.peer().Expect<wire::UpdateRefused>();
  CHECK(refused.code == 2110);
  CHECK(refused.retry == wire::RetryClass::kReconnect);
  CHECK(stage.server.server().FindRun("demo").value().status.view.counts.ok == 0);
}

TEST_CASE("updates that admission refuses have their number; the model stays", "[unit]") {
  const auto refused = [](const std::function<void(wire::UploadBegin&, Bytes&)>& change) {
    Stage stage;
    Bytes body = UpdateOf(0.5F);
    Upload upload(stage, body);
    change(upload.begin, body);
    upload.begin.sha256 = Sha256::Of(body);
    upload.device.peer().Send(upload.begin);
    auto answer = upload.device.peer().ReadMessage();
    REQUIRE(answer);
    if (std::holds_alternative<wire::UploadAccept>(*answer)) {
      upload.device.SendBody(upload.begin.transfer_id, body);
      answer = upload.device.peer().ReadMessage();
      REQUIRE(answer);
    }
    REQUIRE(std::holds_alternative<wire::UpdateRefused>(*answer));
    const auto model = stage.server.server().Model("demo", std::nullopt).value();
    CHECK(model.sha256 == upload.manifest.model_sha256);
    CHECK(stage.server.server().FindRun("demo").value().status.view.counts.ok == 0);
    return std::get<wire::UpdateRefused>(*answer).code;
  };
  const auto fill = [](Bytes& body, float value) { body = UpdateOf(value); };
  CHECK(refused([&](auto&, Bytes& body) { fill(body, std::numeric_limits<float>::quiet_NaN()); }) ==
        2104);
  CHECK(refused([&](auto&, Bytes& body) { fill(body, std::numeric_limits<float>::infinity()); }) ==
        2104);
  CHECK(refused([&](auto&, Bytes& body) { fill(body, 1e6F); }) == 2105);
  CHECK(refused([](wire::UploadBegin& begin, Bytes& body) {
          body.resize(body.size() - 4);
          begin.size = body.size();
        }) == 2101);
  CHECK(refused([](wire::UploadBegin& begin, Bytes&) { begin.weight = 1U << 30U; }) == 2107);
  CHECK(refused([](wire::UploadBegin& begin, Bytes&) { begin.layout_sha256 = {}; }) == 2106);
  CHECK(refused([](wire::UploadBegin& begin, Bytes&) { begin.encoding = wire::Encoding::kF16; }) ==
        2112);
  CHECK(refused([](wire::UploadBegin& begin, Bytes&) { begin.task.round = 9; }) == 2211);
}

TEST_CASE("an upload without a slot is 3336 and may be repeated later", "[unit]") {
  TestServer server(Changes{{"limits", "concurrent_uploads = 1"}});
  const auto devices = server.Enrol(2);
  server.StartRun(1, 2);
  for (const auto& device : devices) device->Join();
  for (const auto& device : devices) device->Poll();
  const Bytes body = UpdateOf(0.5F);
  std::vector<wire::UploadBegin> begins;
  for (const auto& device : devices) {
    const wire::Manifest manifest = ManifestOf(device->ExpectOffer());
    device->Accept(manifest);
    begins.push_back(device->Begin(manifest, body, 3));
  }
  devices[0]->peer().Send(begins[0]);
  static_cast<void>(devices[0]->peer().Expect<wire::UploadAccept>());
  devices[1]->peer().Send(begins[1]);
  const auto refused = devices[1]->peer().Expect<wire::UpdateRefused>();
  CHECK(refused.code == 3336);
  CHECK(refused.retry == wire::RetryClass::kSession);
  CHECK(refused.retry_after_ms > 0);
  devices[0]->SendBody(begins[0].transfer_id, body);
  static_cast<void>(devices[0]->peer().Expect<wire::UpdateAck>());
  begins[1].transfer_id = devices[1]->NextTransfer();
  devices[1]->peer().Send(begins[1]);
  static_cast<void>(devices[1]->peer().Expect<wire::UploadAccept>());
}

TEST_CASE("a newer session of a device replaces the older one with 3334", "[unit]") {
  Stage stage;
  Device& device = stage.device();
  device.Join();
  device.Poll();
  const wire::TaskOffer offer = device.ExpectOffer();
  Device second = device.Twin();
  second.Join();
  CHECK(device.peer().ReadEnd() == 3334);
  second.Poll();
  CHECK(second.ExpectOffer().manifest == offer.manifest);
  static_cast<void>(second.Train(offer, 0.1F, 3));
}

TEST_CASE("messages faster than the limit are 3335", "[unit]") {
  Stage stage;
  stage.device().Join();
  for (int i = 0; i < 300; ++i) stage.device().peer().Send(wire::Ping{7});
  int code = 0;
  while (const auto message = stage.device().peer().ReadMessage()) {
    if (const auto* error = std::get_if<wire::PeerError>(&*message)) {
      code = static_cast<int>(error->code);
    }
  }
  CHECK(code == 3335);
  stage.CheckUnchanged();
}

TEST_CASE("a population that the device is no member of is 2210 and keeps the session", "[unit]") {
  Stage stage;
  stage.device().Join();
  stage.device().Poll("elsewhere");
  CHECK(stage.device().peer().Expect<wire::PeerError>().code == 2210);
  stage.device().Poll();
  static_cast<void>(stage.device().ExpectOffer());
}

TEST_CASE("a revoked device is closed with 3105 and never let in again", "[unit]") {
  Stage stage;
  stage.device().Join();
  const DeviceId id = stage.server.server().Devices().value().front().row.device;
  REQUIRE(stage.server.server().ChangeDevice(id, DeviceState::kRevoked, "test").has_value());
  CHECK(stage.device().peer().ReadEnd() == 3105);
  TlsPeer& again = stage.device().Connect();
  again.Send(AHello());
  CHECK(again.ReadEnd() == 0);
  CHECK(again.fault() == 3105);
}

}  // namespace
}  // namespace skep::aggregator::test
