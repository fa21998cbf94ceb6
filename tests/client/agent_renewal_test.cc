// A certificate that is renewed within a check-in, and what an interruption leaves of it.
#include "client/agent/renewal.h"

#include <filesystem>

#include "crypto/pki/request.h"
#include "shared/base/file.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using test::AgentWorld;
using test::Peer;

wire::RenewResult Issue(const test::Pki& pki, const wire::RenewRequest& asked,
                        std::uint8_t device = 7) {
  const auto request = crypto::CertificateRequest::Check(asked.csr).value();
  const crypto::Validity year{pki.now - test::kHour, pki.now + 24 * 365 * test::kHour};
  const auto certificate =
      pki.device_ca.IssueDevice(request, {pki.federation, test::DeviceOf(device)}, year).value();
  return {.certificate = certificate.ToDer(), .chain = {}, .not_after_ms = certificate.NotAfter()};
}

// The aggregator renews and otherwise plays its round.
void Renewing(AgentWorld& world, std::uint8_t device = 7) {
  world.aggregator.before = [&world, device](Peer& peer, const wire::Message& message) {
    const auto* request = std::get_if<wire::RenewRequest>(&message);
    if (request != nullptr) peer.Send(Issue(world.server.pki(), *request, device));
    return request != nullptr;
  };
}

Identity Reload(const AgentWorld& world) {
  return LoadIdentity(Storage::Open(world.StorageFolder()).value()).value();
}

TEST_CASE("a certificate past half of its life is renewed beside the round", "[unit]") {
  AgentWorld world;
  const WallMs now = world.server.pki().now;
  world.validity = crypto::Validity{now - 2 * test::kHour, now + test::kHour};
  world.Enrol();
  const Identity before = Reload(world);
  Renewing(world);
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 0);
  CHECK(world.aggregator.updates.size() == 1);
  CHECK(world.server.Heard<wire::RenewRequest>().size() == 1);
  CHECK(world.Logged("certificate renewed"));
  const Identity after = Reload(world);
  CHECK(after.own.certificate.NotAfter() > before.own.certificate.NotAfter());
  CHECK_FALSE(after.own.key.KeyHash() == before.own.key.KeyHash());
  CHECK(after.device == before.device);
  // The next process connects with the new pair and has no reason to renew.
  CHECK(RenewsAt(after) > now);
}

TEST_CASE("a young certificate is renewed only when the aggregator asks", "[unit]") {
  AgentWorld world;
  const WallMs now = world.server.pki().now;
  world.validity = crypto::Validity{now - test::kHour, now + 1000 * test::kHour};
  world.Enrol();
  Renewing(world);
  CHECK(world.RunToEnd().code == 0);
  CHECK(world.server.Heard<wire::RenewRequest>().empty());
}

TEST_CASE("a certificate for another device is not taken", "[unit]") {
  AgentWorld world;
  const WallMs now = world.server.pki().now;
  world.validity = crypto::Validity{now - 2 * test::kHour, now + test::kHour};
  world.Enrol();
  const Identity before = Reload(world);
  Renewing(world, 8);
  CHECK(world.RunToEnd().code == 0);
  CHECK(world.Logged("SKEP-3208"));
  CHECK(Reload(world).own.certificate == before.own.certificate);
}

TEST_CASE("a renewal that is refused is no trouble for the round", "[unit]") {
  AgentWorld world;
  const WallMs now = world.server.pki().now;
  world.validity = crypto::Validity{now - 2 * test::kHour, now + test::kHour};
  world.Enrol();
  world.aggregator.before = [](Peer& peer, const wire::Message& message) {
    if (!std::holds_alternative<wire::RenewRequest>(message)) return false;
    peer.Send(wire::PeerError{3121, wire::RetryClass::kNever, 0, 0x30, "too early"});
    return true;
  };
  CHECK(world.RunToEnd().code == 0);
  CHECK(world.Logged("SKEP-3121"));
  CHECK(world.aggregator.updates.size() == 1);
}

TEST_CASE("a renewal that is interrupted anywhere leaves one pair that fits", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const auto path = [&](const char* name) { return world.StorageFolder() + "/identity/" + name; };
  const Identity before = Reload(world);
  const wire::RenewRequest request = [&] {
    return BeginRenewal(Storage::Open(world.StorageFolder()).value()).value();
  }();
  CHECK(Reload(world).own.certificate == before.own.certificate);  // after the next key
  const auto renewed =
      crypto::Certificate::FromDer(Issue(world.server.pki(), request).certificate).value();
  REQUIRE(WriteFileAtomically(path("next-certificate.pem"), AsBytes(renewed.ToPem()),
                              FileMode::kPrivate)
              .has_value());
  CHECK(Reload(world).own.certificate == before.own.certificate);  // after the next certificate
  REQUIRE(MoveFile(path("next-key.pem"), path("key.pem")).has_value());
  CHECK(LoadIdentity(Storage::Look(world.StorageFolder()).value()).value().own.certificate ==
        renewed);  // between the two renames, also for those who only look
  CHECK(Exists(path("next-certificate.pem")));
  CHECK(Reload(world).own.certificate == renewed);
  CHECK_FALSE(Exists(path("next-certificate.pem")));
  CHECK(Reload(world).own.certificate == renewed);
}

TEST_CASE("a renewal that was asked for twice uses the same key", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const Storage storage = Storage::Open(world.StorageFolder()).value();
  const auto key_of = [](const wire::RenewRequest& request) {
    return crypto::CertificateRequest::Check(request.csr).value().KeyHash();
  };
  CHECK(key_of(BeginRenewal(storage).value()) == key_of(BeginRenewal(storage).value()));
}

}  // namespace
}  // namespace skep::agent
