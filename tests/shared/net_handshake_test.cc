#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "tests/shared/net_fixture.h"
#include "tests/support/catch.h"

namespace skep::net {
namespace {

using test::CodeOf;
using test::DeviceClient;
using test::DeviceListener;
using test::DeviceOf;
using test::DoNothing;
using test::EnrolmentClient;
using test::EnrolmentListener;
using test::Holder;
using test::kHour;
using test::Loopback;
using test::Outcome;
using test::Pki;
using test::ReadToEnd;

Awaitable<Status> Echo(FramedStream& stream) {
  std::array<std::uint8_t, 4096> buffer{};
  for (;;) {
    const auto count = co_await stream.ReadSome(buffer, Deadline::In(test::kPatience, 3324));
    if (!count.has_value()) co_return count.error();
    if (*count == 0) co_return Ok();
    Bytes frame(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*count));
    const Status sent = stream.Send(std::move(frame));
    if (!sent.has_value()) co_return sent;
  }
}

Awaitable<Status> SayHello(FramedStream& stream) {
  const std::string text = "hello";
  const Status sent = stream.Send(Bytes(text.begin(), text.end()));
  if (!sent.has_value()) co_return sent;
  std::string heard;
  std::array<std::uint8_t, 64> buffer{};
  while (heard.size() < text.size()) {
    const auto count = co_await stream.ReadSome(buffer, Deadline::In(test::kPatience, 3324));
    if (!count.has_value()) co_return count.error();
    if (*count == 0) co_return Error{9001, "ended early", ""};
    heard += AsText(BytesView(buffer).first(*count));
  }
  if (heard != text) co_return Error{9001, "heard " + heard, ""};
  co_return Ok();
}

TEST_CASE("a device and an aggregator that trust each other exchange bytes", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const Outcome outcome =
      loopback.Meet(DeviceListener(pki), DeviceClient(pki, pki.Device(7)), Echo, SayHello);
  CHECK(CodeOf(outcome.server) == 0);
  CHECK(CodeOf(outcome.client) == 0);
  REQUIRE(outcome.device.has_value());
  CHECK(outcome.device->device == DeviceOf(7));
  CHECK(outcome.address == "127.0.0.1");
}

// The device's certificate against a listener of `pki`; both numbers.
std::pair<int, int> Refusals(const Pki& pki, const Holder& device) {
  Loopback loopback;
  const Outcome outcome =
      loopback.Meet(DeviceListener(pki), DeviceClient(pki, device), DoNothing, ReadToEnd);
  return {CodeOf(outcome.server), CodeOf(outcome.client)};
}

TEST_CASE("a device certificate of another authority is not trusted", "[unit]") {
  const Pki pki;
  const Pki other;
  CHECK(Refusals(pki, other.Device()) == std::pair(3101, 3101));
}

TEST_CASE("an expired device certificate is refused as expired", "[unit]") {
  const Pki pki;
  const Holder device = pki.Device(1, {pki.now - 2 * kHour, pki.now - kHour});
  CHECK(Refusals(pki, device) == std::pair(3102, 3102));
}

TEST_CASE("an aggregator's certificate cannot be used by a device", "[unit]") {
  const Pki pki;
  CHECK(Refusals(pki, pki.Server()) == std::pair(3108, 3108));
}

TEST_CASE("a device certificate without extended key usage is refused", "[unit]") {
  const Pki pki;
  const Holder device = pki.RawDevice(pki.DeviceExtensionsWith("extendedKeyUsage", ""));
  CHECK(Refusals(pki, device) == std::pair(3108, 3108));
}

TEST_CASE("a device of another federation is refused, and told that it is not trusted", "[unit]") {
  const Pki pki;
  const Holder device =
      pki.DeviceOfFederation({test::FederationOf(0x60), DeviceOf(1)}, pki.Valid());
  CHECK(Refusals(pki, device) == std::pair(3110, 3101));
}

TEST_CASE("a device whose identity is malformed is refused", "[unit]") {
  const Pki pki;
  const Holder device =
      pki.RawDevice(pki.DeviceExtensionsWith("subjectAltName", "URI:urn:skep:x:device:y"));
  CHECK(Refusals(pki, device) == std::pair(3109, 3101));
}

TEST_CASE("a revoked device is refused in the handshake and told so", "[unit]") {
  const Pki pki;
  const Holder server = pki.Server();
  crypto::DeviceRules rules{pki.device_ca.certificate(), pki.federation, nullptr, std::nullopt};
  rules.admit = [](const crypto::DeviceIdentity&, const crypto::Certificate&) -> Status {
    return Error{3105, "certificate or device revoked", ""};
  };
  const auto listener =
      TlsContext::ForDeviceListener({server.certificate, server.key, {}}, rules).value();
  Loopback loopback;
  const Outcome outcome =
      loopback.Meet(listener, DeviceClient(pki, pki.Device()), DoNothing, ReadToEnd);
  CHECK(CodeOf(outcome.server) == 3105);
  CHECK(CodeOf(outcome.client) == 3105);
}

TEST_CASE("a refusal names the certificate that was presented", "[unit]") {
  const Pki pki;
  const Pki other;
  const Holder device = other.Device();
  Loopback loopback;
  const Outcome outcome =
      loopback.Meet(DeviceListener(pki), DeviceClient(pki, device), DoNothing, ReadToEnd);
  REQUIRE_FALSE(outcome.client.has_value());
  CHECK(outcome.client.error().message.find(device.certificate.Fingerprint().Hex()) !=
        std::string::npos);
}

TEST_CASE("an aggregator whose certificate has another name is refused by the device", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const auto listener = DeviceListener(pki, pki.Server({"agg.example"}));
  const Outcome outcome =
      loopback.Meet(listener, DeviceClient(pki, pki.Device()), DoNothing, DoNothing);
  REQUIRE_FALSE(outcome.client.has_value());
  CHECK(outcome.client.error().code == 3112);
  CHECK(outcome.client.error().message.find("\"127.0.0.1\" (names: agg.example)") !=
        std::string::npos);
}

TEST_CASE("an aggregator of another authority is refused by the device", "[unit]") {
  const Pki pki;
  const Pki other;
  Loopback loopback;
  const Outcome outcome =
      loopback.Meet(DeviceListener(other), DeviceClient(pki, pki.Device()), DoNothing, DoNothing);
  CHECK(CodeOf(outcome.client) == 3113);
  CHECK(CodeOf(outcome.server) == 3101);
}

TEST_CASE("an aggregator's expired certificate is refused by the device", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const Holder server = pki.Server({"127.0.0.1"}, {pki.now - 2 * kHour, pki.now - kHour});
  const Outcome outcome = loopback.Meet(DeviceListener(pki, server),
                                        DeviceClient(pki, pki.Device()), DoNothing, DoNothing);
  CHECK(CodeOf(outcome.client) == 3102);
}

TEST_CASE("a device that poses as the aggregator is refused by a device", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const Outcome outcome = loopback.Meet(DeviceListener(pki, pki.Device()),
                                        DeviceClient(pki, pki.Device(2)), DoNothing, DoNothing);
  CHECK(CodeOf(outcome.client) == 3108);
}

TEST_CASE("a joining device finds the authority of its join string", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const auto client = EnrolmentClient(pki.server_ca.certificate().KeyHash());
  const Outcome outcome = loopback.Meet(EnrolmentListener(pki), client, Echo, SayHello);
  CHECK(CodeOf(outcome.server) == 0);
  CHECK(CodeOf(outcome.client) == 0);
  CHECK_FALSE(outcome.device.has_value());
}

TEST_CASE("a joining device refuses an aggregator with another authority", "[unit]") {
  const Pki pki;
  const Pki other;
  Loopback loopback;
  const auto client = EnrolmentClient(pki.server_ca.certificate().KeyHash());
  const Outcome outcome = loopback.Meet(EnrolmentListener(other), client, DoNothing, DoNothing);
  CHECK(CodeOf(outcome.client) == 3113);
}

TEST_CASE("each listener refuses the protocol of the other", "[unit]") {
  const Pki pki;
  SECTION("a joining device at the device listener") {
    Loopback loopback;
    const auto client = EnrolmentClient(pki.server_ca.certificate().KeyHash());
    const Outcome outcome = loopback.Meet(DeviceListener(pki), client, DoNothing, DoNothing);
    CHECK(CodeOf(outcome.server) == 3114);
    CHECK(CodeOf(outcome.client) == 3114);
  }
  SECTION("a device at the enrolment listener") {
    Loopback loopback;
    const Outcome outcome = loopback.Meet(EnrolmentListener(pki), DeviceClient(pki, pki.Device()),
                                          DoNothing, DoNothing);
    CHECK(CodeOf(outcome.server) == 3114);
    CHECK(CodeOf(outcome.client) == 3114);
  }
}

TEST_CASE("a context refuses a key that is not its certificate's", "[unit]") {
  const Pki pki;
  const Holder server = pki.Server();
  const auto context = TlsContext::ForEnrolmentListener(
      {server.certificate, pki.Server().key, {pki.server_ca.certificate()}});
  REQUIRE_FALSE(context.has_value());
  CHECK(context.error().code == 5102);
}

TEST_CASE("a context refuses a key that its peers would refuse as weak", "[unit]") {
  const Pki pki;
  const auto key = crypto::PrivateKey::Adopt(EVP_RSA_gen(1024));
  const Holder weak = pki.Raw(pki.server_ca, pki.DeviceExtensions(), key);
  const auto context = TlsContext::ForEnrolmentListener({weak.certificate, weak.key, {}});
  REQUIRE_FALSE(context.has_value());
  CHECK(context.error().code == 5109);
}

}  // namespace
}  // namespace skep::net
