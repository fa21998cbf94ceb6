// Enrolment over TLS: tokens, keys, limits, renewal.
#include "crypto/pki/request.h"
#include "tests/aggregator/server_fixture.h"

namespace skep::aggregator::test {
namespace {

using Changes = TestServer::Changes;

std::string OneToken(TestServer& server, Nanoseconds lifetime = {}) {
  static_cast<void>(server.server().CreatePopulation("pump"));
  return server.server().CreateTokens("pump", 1, lifetime).value().front();
}

crypto::PrivateKey NewKey() {
  return crypto::PrivateKey::MakeP256().value();
}

TEST_CASE("one join string enrols one key, and the same key again gets the same certificate",
          "[unit]") {
  TestServer server;
  const std::string join = OneToken(server);
  const auto key = NewKey();
  const wire::EnrolResult result = server.Join(join, key).value();
  CHECK(result.populations == std::vector<std::string>{"pump"});
  CHECK(result.federation_id == server.federation());
  CHECK(result.signing_keys == std::vector<wire::PublicKey>{server.signing_key()});
  CHECK(result.device_endpoint == "127.0.0.1:" + std::to_string(server.devices_port()));
  const auto certificate = crypto::Certificate::FromDer(result.certificate).value();
  CHECK(certificate.BelongsTo(key));
  CHECK(certificate.IdentityIn(server.federation()).value().device == result.device_id);
  CHECK(server.Join(join, key).value().certificate == result.certificate);
  CHECK(server.Join(join, NewKey()).error().code == 3104);
  const auto devices = server.server().Devices().value();
  REQUIRE(devices.size() == 1);
  CHECK(devices.front().row.device == result.device_id);
  CHECK(devices.front().row.memberships.front().second == 0);
}

TEST_CASE("tokens that do not hold are refused with their number and enrol nobody", "[unit]") {
  TestServer server;
  const std::string join = OneToken(server);
  const Hash32 digest = server.StoreDigest();
  crypto::JoinString wrong = crypto::ParseJoinString(join).value();
  wrong.secret.bytes[0] ^= 1;
  CHECK(server.Join(crypto::FormatJoinString(wrong), NewKey()).error().code == 3117);
  CHECK(server.StoreDigest() == digest);
  CHECK(server.server().Devices().value().empty());
}

TEST_CASE("a request that is no good request is 3119; anything else is no request", "[unit]") {
  TestServer server;
  const crypto::JoinString join = crypto::ParseJoinString(OneToken(server)).value();
  const Hash32 digest = server.StoreDigest();
  const auto context =
      net::TlsContext::ForEnrolment({std::nullopt, join.pin, "127.0.0.1", std::nullopt}).value();
  const auto refused = [&](const Bytes& bytes) {
    TlsPeer peer(join.port, context, wire::Role::kEnrolClient);
    REQUIRE(peer.is_open());
    peer.Write(bytes);
    return peer.ReadEnd();
  };
  wire::EnrolRequest request;
  request.major = 1;
  request.secret = join.secret;
  request.csr = crypto::MakeRequest(NewKey()).value();
  request.software = "scripted device";
  request.csr.push_back(0);
  CHECK(refused(wire::EncodeFrame(request)) == 3119);
  request.csr.pop_back();
  request.major = 2;
  CHECK(refused(wire::EncodeFrame(request)) == 3311);
  CHECK(refused(wire::EncodeFrame(wire::Hello{.major = 1, .software = "x"})) == 3301);
  CHECK(refused({1, 0, 0x40, 0, 0xFF, 0xFF, 0, 0}) == 3204);
  CHECK(server.StoreDigest() == digest);
}

TEST_CASE("attempts of one address beyond the limit wait: 3332", "[unit]") {
  TestServer server(Changes{{"enrolment", "attempts_per_address = 2"}});
  static_cast<void>(server.server().CreatePopulation("pump"));
  const auto joins = server.server().CreateTokens("pump", 3, {}).value();
  CHECK(server.Join(joins[0], NewKey()).has_value());
  CHECK(server.Join(joins[1], NewKey()).has_value());
  CHECK(server.Join(joins[2], NewKey()).error().code == 3332);
}

TEST_CASE("no more devices than enrolment.max_devices: 3120", "[unit]") {
  TestServer server(Changes{{"enrolment", "max_devices = 1"}});
  static_cast<void>(server.server().CreatePopulation("pump"));
  const auto joins = server.server().CreateTokens("pump", 2, {}).value();
  CHECK(server.Join(joins[0], NewKey()).has_value());
  CHECK(server.Join(joins[1], NewKey()).error().code == 3120);
}

TEST_CASE("a connection on which nothing is asked ends with 3321", "[unit]") {
  TestServer server(Changes{{"session", "first_frame_deadline = \"1s\""}});
  const crypto::JoinString join = crypto::ParseJoinString(OneToken(server)).value();
  const auto context =
      net::TlsContext::ForEnrolment({std::nullopt, join.pin, "127.0.0.1", std::nullopt}).value();
  TlsPeer peer(join.port, context, wire::Role::kEnrolClient);
  REQUIRE(peer.is_open());
  CHECK(peer.ReadEnd() == 3321);
}

TEST_CASE("renewal before its time is 3121 and keeps the session", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  devices.front()->Join();
  const Bytes csr = crypto::MakeRequest(NewKey()).value();
  devices.front()->peer().Send(wire::RenewRequest{csr});
  CHECK(devices.front()->peer().Expect<wire::PeerError>().code == 3121);
  devices.front()->peer().Send(wire::Ping{4});
  CHECK(devices.front()->peer().Expect<wire::Pong>().nonce == 4);
}

TEST_CASE("a renewed certificate supersedes the old one at its first session", "[unit]") {
  // Half of the lifetime has passed at once: the certificate is dated back by the clock's skew.
  TestServer server(Changes{{"enrolment", "certificate_lifetime = \"10m\"\nclock_skew = \"20m\""}});
  const auto devices = server.Enrol(1);
  Device& old = *devices.front();
  old.Join();
  const auto key = NewKey();
  old.peer().Send(wire::RenewRequest{crypto::MakeRequest(key).value()});
  const auto renewed = old.peer().Expect<wire::RenewResult>();
  // Once more, as if the answer had been lost.
  old.peer().Send(wire::RenewRequest{crypto::MakeRequest(key).value()});
  CHECK(old.peer().Expect<wire::RenewResult>().certificate == renewed.certificate);
  Device fresh(server.devices_port(), key,
               crypto::Certificate::FromDer(renewed.certificate).value(),
               server.server_ca().certificate());
  fresh.Join();
  CHECK(old.peer().ReadEnd() == 3334);
  TlsPeer& again = old.Connect();
  again.Send(wire::Hello{.major = 1, .software = "the old certificate"});
  CHECK(again.ReadEnd() == 3105);
}

TEST_CASE("populations and tokens that make no sense are refused by number", "[unit]") {
  TestServer server;
  Server& control = server.server();
  CHECK(control.CreatePopulation("no spaces").error().code == 5408);
  REQUIRE(control.CreatePopulation("pump").has_value());
  CHECK(control.CreatePopulation("pump").error().code == 5405);
  CHECK(control.CreateTokens("pump", 0, {}).error().code == 5408);
  CHECK(control.CreateTokens("pump", 100'001, {}).error().code == 5408);
  CHECK(control.CreateTokens("nobody", 1, {}).error().code == 5403);
  const auto joins = control.CreateTokens("pump", 3, {}).value();
  const auto tokens = control.Tokens("pump").value();
  REQUIRE(tokens.size() == 3);
  for (ClientNumber i = 0; i < 3; ++i) {
    CHECK(tokens[i].client == i);
    CHECK(tokens[i].id == crypto::TokenIdOf(crypto::ParseJoinString(joins[i]).value().secret));
  }
}

}  // namespace
}  // namespace skep::aggregator::test
