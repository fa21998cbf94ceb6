#include "crypto/pki/chain.h"

#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "tests/crypto/pki_fixture.h"
#include "tests/support/catch.h"

namespace skep::crypto {
namespace {

using test::DeviceOf;
using test::FederationOf;
using test::Holder;
using test::kHour;
using test::Pki;

DeviceRules RulesOf(const Pki& pki) {
  return {pki.device_ca.certificate(), pki.federation, nullptr, std::nullopt};
}

ServerRules RulesFor(const Pki& pki, const std::string& host) {
  return {pki.server_ca.certificate(), std::nullopt, host, std::nullopt};
}

int DeviceError(const DeviceRules& rules, const Certificate& leaf) {
  const auto verdict = JudgeDevice(rules, leaf, {});
  return verdict.has_value() ? 0 : verdict.error().code;
}

int ServerError(const ServerRules& rules, const Certificate& leaf,
                const std::vector<Certificate>& others = {}) {
  const auto verdict = JudgeServer(rules, leaf, others);
  return verdict.has_value() ? 0 : verdict.error().code;
}

TEST_CASE("a device certificate as enrolment issues it is trusted and names its device", "[unit]") {
  const Pki pki;
  const auto identity = JudgeDevice(RulesOf(pki), pki.Device(7).certificate, {});
  REQUIRE(identity.has_value());
  CHECK(*identity == DeviceIdentity{pki.federation, DeviceOf(7)});
}

TEST_CASE("a device certificate of another authority is not trusted", "[unit]") {
  const Pki pki;
  const Pki other;
  const auto verdict = JudgeDevice(RulesOf(pki), other.Device().certificate, {});
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().code == 3101);
  CHECK(verdict.error().message.find(pki.device_ca.certificate().Fingerprint().Hex()) !=
        std::string::npos);
}

TEST_CASE("the other authority's certificate in the chain does not make it trusted", "[unit]") {
  const Pki pki;
  const Pki other;
  const auto verdict =
      JudgeDevice(RulesOf(pki), other.Device().certificate, {other.device_ca.certificate()});
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().code == 3101);
}

TEST_CASE("an expired device certificate is refused with the day", "[unit]") {
  const Pki pki;
  const Holder device = pki.Device(1, {pki.now - 2 * kHour, pki.now - kHour});
  const auto verdict = JudgeDevice(RulesOf(pki), device.certificate, {});
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().code == 3102);
  CHECK(verdict.error().message.find(UtcText(pki.now - kHour).substr(0, 10)) != std::string::npos);
}

TEST_CASE("a device certificate from the future is refused as not valid yet", "[unit]") {
  const Pki pki;
  const Holder device = pki.Device(1, {pki.now + kHour, pki.now + 2 * kHour});
  CHECK(DeviceError(RulesOf(pki), device.certificate) == 3106);
}

TEST_CASE("the moment of judgement can be set", "[unit]") {
  const Pki pki;
  DeviceRules rules = RulesOf(pki);
  rules.judged_at = pki.now + 3 * kHour;
  CHECK(DeviceError(rules, pki.Device().certificate) == 3102);
}

TEST_CASE("an aggregator's certificate is no device certificate", "[unit]") {
  const Pki pki;
  CHECK(DeviceError(RulesOf(pki), pki.Server().certificate) == 3108);
}

TEST_CASE("a certificate of the device authority for servers is no device certificate", "[unit]") {
  const Pki pki;
  const auto extensions = pki.DeviceExtensionsWith("extendedKeyUsage", "serverAuth");
  CHECK(DeviceError(RulesOf(pki), pki.RawDevice(extensions).certificate) == 3108);
}

TEST_CASE("a device certificate without extended key usage is refused", "[unit]") {
  const Pki pki;
  const auto extensions = pki.DeviceExtensionsWith("extendedKeyUsage", "");
  CHECK(DeviceError(RulesOf(pki), pki.RawDevice(extensions).certificate) == 3108);
}

TEST_CASE("the usage for any purpose does not stand for clientAuth", "[unit]") {
  const Pki pki;
  const auto extensions = pki.DeviceExtensionsWith("extendedKeyUsage", "anyExtendedKeyUsage");
  CHECK(DeviceError(RulesOf(pki), pki.RawDevice(extensions).certificate) == 3108);
}

TEST_CASE("a device certificate without or with another key usage is refused", "[unit]") {
  const Pki pki;
  for (const char* usage : {"", "critical,keyAgreement"}) {
    const auto extensions = pki.DeviceExtensionsWith("keyUsage", usage);
    INFO("key usage '" << usage << "'");
    CHECK(DeviceError(RulesOf(pki), pki.RawDevice(extensions).certificate) == 3108);
  }
}

TEST_CASE("an authority's own certificate is no device certificate", "[unit]") {
  const Pki pki;
  CHECK(DeviceError(RulesOf(pki), pki.device_ca.certificate()) == 3108);
}

TEST_CASE("what a device certificate signs is not trusted", "[unit]") {
  const Pki pki;
  const Holder device = pki.Device();
  const CertificateFields fields{"child", pki.Valid().not_before, pki.Valid().not_after,
                                 pki.DeviceExtensions()};
  const auto key = PrivateKey::MakeP256().value();
  const auto child = MakeCertificate(fields, key.handle(), device.key, &device.certificate).value();
  const auto verdict = JudgeDevice(RulesOf(pki), child, {device.certificate});
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().code == 3101);
}

TEST_CASE("a certificate with a forged signature is not trusted", "[unit]") {
  const Pki pki;
  Bytes der = pki.Device().certificate.ToDer();
  der.back() ^= 1;
  const auto forged = Certificate::FromDer(der);
  REQUIRE(forged.has_value());
  CHECK(DeviceError(RulesOf(pki), *forged) == 3101);
}

TEST_CASE("an RSA key of 1024 bits is refused as weak", "[unit]") {
  const Pki pki;
  const auto key = PrivateKey::Adopt(EVP_RSA_gen(1024));
  const Holder weak = pki.Raw(pki.device_ca, pki.DeviceExtensions(), key);
  CHECK(DeviceError(RulesOf(pki), weak.certificate) == 3115);
}

TEST_CASE("a device certificate without an identity, or with a malformed one, is refused",
          "[unit]") {
  const Pki pki;
  const std::string uri = "URI:" + IdentityUri({pki.federation, DeviceOf(1)});
  const std::string federation = pki.federation.Hex();
  const std::string device = DeviceOf(0xab).Hex();
  const std::vector<std::string> malformed = {
      "",
      "DNS:" + IdentityUri({pki.federation, DeviceOf(1)}),
      uri + "," + "URI:" + IdentityUri({pki.federation, DeviceOf(2)}),
      uri + "," + uri,
      uri + ",URI:https://example.com",
      "URI:https://example.com",
      "URI:urn:skep:" + federation + ":relay:" + device,
      "URI:urn:skep:" + federation + ":device:" + std::string(32, 'A'),
      "URI:URN:skep:" + federation + ":device:" + device,
      "URI:urn:skep:" + federation + ":device:" + device.substr(2),
      "URI:urn:skep:" + federation + ":device:" + device + "0",
      "URI:urn:skep:" + federation + ":device:" + device.substr(1) + "g",
  };
  for (const std::string& names : malformed) {
    INFO("subjectAltName '" << names << "'");
    const auto extensions = pki.DeviceExtensionsWith("subjectAltName", names);
    CHECK(DeviceError(RulesOf(pki), pki.RawDevice(extensions).certificate) == 3109);
  }
}

TEST_CASE("other kinds of alternative name beside the identity are ignored", "[unit]") {
  const Pki pki;
  const std::string names = "DNS:localhost,URI:" + IdentityUri({pki.federation, DeviceOf(1)});
  const auto extensions = pki.DeviceExtensionsWith("subjectAltName", names);
  CHECK(DeviceError(RulesOf(pki), pki.RawDevice(extensions).certificate) == 0);
}

TEST_CASE("a device of another federation is refused", "[unit]") {
  const Pki pki;
  const Holder device = pki.DeviceOfFederation({FederationOf(0x60), DeviceOf(1)}, pki.Valid());
  CHECK(DeviceError(RulesOf(pki), device.certificate) == 3110);
}

TEST_CASE("a certificate that admission refuses keeps admission's number", "[unit]") {
  const Pki pki;
  DeviceRules rules = RulesOf(pki);
  DeviceIdentity asked;
  rules.admit = [&asked](const DeviceIdentity& identity, const Certificate&) -> Status {
    asked = identity;
    return Error{3105, "certificate or device revoked", ""};
  };
  CHECK(DeviceError(rules, pki.Device(9).certificate) == 3105);
  CHECK(asked.device == DeviceOf(9));
}

TEST_CASE("an aggregator's certificate is trusted for each of its names and no other", "[unit]") {
  const Pki pki;
  const Holder server = pki.Server({"agg.example", "192.0.2.1", "2001:db8::1"});
  for (const char* host : {"agg.example", "AGG.example", "192.0.2.1", "2001:db8::1"}) {
    INFO(host);
    CHECK(ServerError(RulesFor(pki, host), server.certificate) == 0);
  }
  for (const std::string host :
       {"example", "x.agg.example", "agg.example.com", "192.0.2.2", "::1"}) {
    INFO(host);
    CHECK(ServerError(RulesFor(pki, host), server.certificate) == 3112);
  }
}

TEST_CASE("a name mismatch says which names there are", "[unit]") {
  const Pki pki;
  const auto verdict =
      JudgeServer(RulesFor(pki, "agg2.example"), pki.Server({"agg.example"}).certificate, {});
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().message.find("\"agg2.example\" (names: agg.example)") != std::string::npos);
}

TEST_CASE("the common name does not count as a server's name", "[unit]") {
  const Pki pki;
  auto extensions = pki.DeviceExtensionsWith("extendedKeyUsage", "serverAuth");
  const Holder server = pki.Raw(pki.server_ca, extensions, PrivateKey::MakeP256().value());
  CHECK(ServerError(RulesFor(pki, "raw"), server.certificate) == 3112);
}

TEST_CASE("a device certificate can never serve", "[unit]") {
  const Pki pki;
  CHECK(ServerError(RulesFor(pki, "localhost"), pki.Device().certificate) == 3108);
}

TEST_CASE("a server certificate without extended key usage is refused", "[unit]") {
  const Pki pki;
  auto extensions = pki.DeviceExtensionsWith("extendedKeyUsage", "");
  extensions[2] = {"subjectAltName", "DNS:localhost"};
  const Holder server = pki.Raw(pki.server_ca, extensions, PrivateKey::MakeP256().value());
  CHECK(ServerError(RulesFor(pki, "localhost"), server.certificate) == 3108);
}

TEST_CASE("an expired server certificate is refused", "[unit]") {
  const Pki pki;
  const Holder server = pki.Server({"localhost"}, {pki.now - 2 * kHour, pki.now - kHour});
  CHECK(ServerError(RulesFor(pki, "localhost"), server.certificate) == 3102);
}

TEST_CASE("an aggregator of another authority is not the pinned one", "[unit]") {
  const Pki pki;
  const Pki other;
  const auto verdict = JudgeServer(RulesFor(pki, "localhost"), other.Server().certificate,
                                   {other.server_ca.certificate()});
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().code == 3113);
  CHECK(verdict.error().message.find(other.Server().certificate.Issuer()) != std::string::npos);
}

TEST_CASE("a pin finds its authority in the presented chain", "[unit]") {
  const Pki pki;
  const Pki other;
  const Certificate authority = pki.server_ca.certificate();
  const ServerRules rules{std::nullopt, authority.KeyHash(), "localhost", std::nullopt};
  CHECK(ServerError(rules, pki.Server().certificate, {authority}) == 0);
  CHECK(ServerError(rules, pki.Server().certificate) == 3113);
  CHECK(ServerError(rules, other.Server().certificate, {other.server_ca.certificate()}) == 3113);
  // The right authority beside a certificate that it did not issue.
  CHECK(ServerError(rules, other.Server().certificate, {authority}) == 3113);
}

TEST_CASE("the pin of a server's own key is not an authority's", "[unit]") {
  const Pki pki;
  const Holder server = pki.Server();
  const ServerRules rules{std::nullopt, server.certificate.KeyHash(), "localhost", std::nullopt};
  CHECK(ServerError(rules, server.certificate, {server.certificate, pki.server_ca.certificate()}) ==
        3113);
}

TEST_CASE("a certificate without a host to compare is refused, not waved through", "[unit]") {
  const Pki pki;
  CHECK(ServerError(RulesFor(pki, ""), pki.Server().certificate) == 9001);
}

}  // namespace
}  // namespace skep::crypto
