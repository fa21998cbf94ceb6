// Enrolment over TLS: what is stored, what is refused, and that a lost answer is no loss.
#include "client/agent/enrol.h"

#include <filesystem>

#include "crypto/pki/request.h"
#include "shared/base/file.h"
#include "shared/wire/codec.h"
#include "tests/client/agent_server.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::agent {
namespace {

using test::AgentServer;
using test::Peer;

// An enrolment listener and a device that wants to join.
struct Office {
  test::TemporaryFolder place;
  AgentServer server{AgentServer::Kind::kEnrolment};
  crypto::SigningKey signing_key = crypto::SigningKey::Make().value();
  crypto::JoinString join;
  std::function<void(wire::EnrolResult&)> change;

  Office() {
    join.host = "127.0.0.1";
    join.port = server.port();
    join.pin = server.pki().server_ca.certificate().KeyHash();
    join.secret.bytes.fill(0x5A);
    server.on_message = [this](Peer& peer, const wire::Message& message) {
      if (const auto* request = std::get_if<wire::EnrolRequest>(&message)) {
        peer.Send(Answer(*request));
      }
      peer.Close();
    };
  }

  wire::EnrolResult Answer(const wire::EnrolRequest& asked) {
    const test::Pki& pki = server.pki();
    const auto request = crypto::CertificateRequest::Check(asked.csr).value();
    const auto certificate =
        pki.device_ca.IssueDevice(request, {pki.federation, test::DeviceOf(7)}, pki.Valid())
            .value();
    wire::EnrolResult answer;
    answer.device_id = test::DeviceOf(7);
    answer.certificate = certificate.ToDer();
    answer.server_ca = {pki.server_ca.certificate().ToDer()};
    answer.signing_keys = {signing_key.public_key()};
    answer.device_endpoint = "agg.example:8443";
    answer.federation_id = pki.federation;
    answer.populations = {"pump", "fan"};
    answer.not_after_ms = certificate.NotAfter();
    if (change) change(answer);
    return answer;
  }

  [[nodiscard]] std::string Folder() const { return (place.path() / "device").string(); }
  [[nodiscard]] Storage Open() const { return Storage::Create(Folder()).value(); }
  [[nodiscard]] Result<Identity> Join(const Storage& storage) const {
    Loop loop;
    return Enrol(storage, join,
                 {.software = "skep-client test", .name_hint = "north", .limits = {}}, loop);
  }
};

TEST_CASE("a device that joins has an identity on disk", "[unit]") {
  Office office;
  office.server.Start();
  const Storage storage = office.Open();
  CHECK_FALSE(IsEnrolled(storage));
  const Result<Identity> joined = office.Join(storage);
  office.server.Stop();
  REQUIRE(joined.has_value());
  CHECK(IsEnrolled(storage));
  const Identity identity = LoadIdentity(storage).value();
  CHECK(identity.device == test::DeviceOf(7));
  CHECK(identity.federation == office.server.pki().federation);
  CHECK(identity.endpoint == "agg.example:8443");
  CHECK(identity.populations == std::vector<std::string>{"pump", "fan"});
  REQUIRE(identity.signing_keys.size() == 1);
  CHECK(identity.signing_keys[0].key == office.signing_key.public_key());
  CHECK(identity.server_ca == office.server.pki().server_ca.certificate());
  const auto asked = office.server.Heard<wire::EnrolRequest>();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].secret == office.join.secret);
  CHECK(asked[0].name_hint == "north");
}

TEST_CASE("an answer that was lost is asked for again with the same key", "[unit]") {
  Office office;
  const auto usual = office.server.on_message;
  office.server.on_message = [&, usual](Peer& peer, const wire::Message& message) {
    if (peer.number() == 0) return peer.Cut();
    usual(peer, message);
  };
  office.server.Start();
  const Storage storage = office.Open();
  const Result<Identity> first = office.Join(storage);
  REQUIRE_FALSE(first.has_value());
  CHECK(first.error().code == 3001);
  CHECK_FALSE(IsEnrolled(storage));
  const Result<Identity> second = office.Join(storage);
  office.server.Stop();
  CHECK(second.has_value());
  const auto asked = office.server.Heard<wire::EnrolRequest>();
  REQUIRE(asked.size() == 2);
  const auto key_of = [](const wire::EnrolRequest& request) {
    return crypto::CertificateRequest::Check(request.csr).value().KeyHash();
  };
  CHECK(key_of(asked[0]) == key_of(asked[1]));
}

TEST_CASE("what the aggregator says against an enrolment is the result", "[unit]") {
  for (const std::uint32_t code : {3104U, 3117U, 3118U, 3120U, 3122U}) {
    Office office;
    office.server.on_message = [&](Peer& peer, const wire::Message&) {
      peer.Send(wire::PeerError{code, wire::RetryClass::kRejoin, 0, 0x40, "token already used"});
      peer.Close();
    };
    office.server.Start();
    const Storage storage = office.Open();
    const Result<Identity> joined = office.Join(storage);
    office.server.Stop();
    REQUIRE_FALSE(joined.has_value());
    CHECK(joined.error().code == static_cast<int>(code));
    CHECK_FALSE(joined.error().hint.empty());
    CHECK_FALSE(IsEnrolled(storage));
  }
}

TEST_CASE("an aggregator with another authority than the pinned one hears no secret", "[unit]") {
  Office office;
  office.join.pin.bytes[0] ^= 1U;
  office.server.Start();
  const Storage storage = office.Open();
  const Result<Identity> joined = office.Join(storage);
  office.server.Stop();
  REQUIRE_FALSE(joined.has_value());
  CHECK(joined.error().code == 3113);
  CHECK(office.server.heard.empty());
}

TEST_CASE("an answer that contradicts itself enrols nobody", "[unit]") {
  const test::Pki foreign;
  const test::Holder stranger = foreign.Device(7);
  struct Case {
    const char* name;
    int code;
    std::function<void(wire::EnrolResult&)> change;
  };
  const std::vector<Case> cases{
      {"certificate of another key", 3208,
       [&](wire::EnrolResult& a) { a.certificate = stranger.certificate.ToDer(); }},
      {"other device id", 3208, [](wire::EnrolResult& a) { a.device_id = test::DeviceOf(8); }},
      {"other federation", 3110,
       [](wire::EnrolResult& a) { a.federation_id = test::FederationOf(1); }},
      {"no address", 3208, [](wire::EnrolResult& a) { a.device_endpoint = "nowhere"; }},
      {"port 0", 3208, [](wire::EnrolResult& a) { a.device_endpoint = "agg.example:0"; }},
      {"authority of others", 3208,
       [&](wire::EnrolResult& a) { a.server_ca = {foreign.server_ca.certificate().ToDer()}; }},
      {"bytes for a certificate", 3101, [](wire::EnrolResult& a) {
         a.certificate = {1, 2, 3};
       }}};
  for (const Case& one : cases) {
    INFO(one.name);
    Office office;
    office.change = one.change;
    office.server.Start();
    const Storage storage = office.Open();
    const Result<Identity> joined = office.Join(storage);
    office.server.Stop();
    REQUIRE_FALSE(joined.has_value());
    CHECK(joined.error().code == one.code);
    CHECK_FALSE(IsEnrolled(storage));
    CHECK_FALSE(Exists(storage.Path("identity/certificate.pem")));
  }
}

TEST_CASE("a damaged identity is an error and stays as it is", "[unit]") {
  Office office;
  office.server.Start();
  const Storage storage = office.Open();
  REQUIRE(office.Join(storage).has_value());
  office.server.Stop();
  const std::string key_name = crypto::KeyIdOf(office.signing_key.public_key()).Hex() + ".pub";
  for (const std::string& file :
       {std::string("key.pem"), std::string("certificate.pem"), std::string("server-ca.pem"),
        std::string("enrolment.json"), "signing-keys/" + key_name}) {
    const std::string path = storage.Path("identity/" + file);
    const Bytes whole = ReadFile(path, 1 << 16, 1010).value();
    REQUIRE(WriteFileAtomically(path, BytesView(whole).first(whole.size() / 2), FileMode::kPrivate)
                .has_value());
    INFO(file);
    const Result<Identity> loaded = LoadIdentity(storage);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code == 1010);
    CHECK(ReadFile(path, 1 << 16, 1010).value().size() == whole.size() / 2);
    REQUIRE(WriteFileAtomically(path, whole, FileMode::kPrivate).has_value());
  }
  CHECK(LoadIdentity(storage).has_value());
  // A key that others may read is no secret any more.
  std::filesystem::permissions(
      storage.Path("identity/key.pem"),
      std::filesystem::perms::owner_all | std::filesystem::perms::group_read);
  CHECK(LoadIdentity(storage).error().code == 5101);
}

TEST_CASE("a key that a pinned key vouches for is pinned, any other is 3133", "[unit]") {
  Office office;
  office.server.Start();
  const Storage storage = office.Open();
  Identity identity = office.Join(storage).value();
  office.server.Stop();
  const WallMs now = ReadClock().wall;
  const auto fresh = crypto::SigningKey::Make().value();
  wire::KeyStatement statement{.federation_id = identity.federation,
                               .public_key = fresh.public_key(),
                               .not_before_ms = now,
                               .retire_old_at_ms = now + 1000};
  const auto signed_by = [&](const crypto::SigningKey& key, crypto::SignedKind kind) {
    wire::SigningKeyUpdate update;
    update.payload = wire::EncodeKeyStatement(statement);
    update.key_id = key.id();
    update.signature = key.Sign(kind, update.payload).value();
    return update;
  };
  using crypto::SignedKind;
  CHECK(PinKey(storage, identity, signed_by(fresh, SignedKind::kKeyStatement), now).error().code ==
        3133);
  CHECK(PinKey(storage, identity, signed_by(office.signing_key, SignedKind::kManifest), now)
            .error()
            .code == 3133);
  statement.federation_id = test::FederationOf(9);
  CHECK(PinKey(storage, identity, signed_by(office.signing_key, SignedKind::kKeyStatement), now)
            .error()
            .code == 3133);
  CHECK(LoadIdentity(storage).value().signing_keys.size() == 1);

  statement.federation_id = identity.federation;
  REQUIRE(PinKey(storage, identity, signed_by(office.signing_key, SignedKind::kKeyStatement), now)
              .has_value());
  for (const Identity& one : {identity, LoadIdentity(storage).value()}) {
    CHECK(FindKey(one, fresh.id(), now) != nullptr);
    CHECK(FindKey(one, office.signing_key.id(), now) != nullptr);
    CHECK(FindKey(one, office.signing_key.id(), now + 2000) == nullptr);  // retired
    CHECK(FindKey(one, fresh.id(), now + 2000) != nullptr);
  }
}

}  // namespace
}  // namespace skep::agent
