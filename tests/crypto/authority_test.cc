#include "crypto/pki/authority.h"

#include <algorithm>
#include <set>

#include "crypto/pki/inspect.h"
#include "tests/crypto/pki_fixture.h"
#include "tests/support/catch.h"

namespace skep::crypto {
namespace {

using test::DeviceOf;
using test::Holder;
using test::kHour;
using test::Pki;

TEST_CASE("an authority's certificate is its own, for ten years, named by the federation",
          "[unit]") {
  const Pki pki;
  const Certificate& certificate = pki.server_ca.certificate();
  CHECK(certificate.Subject() == "skep server CA 5f5f5f");
  CHECK(certificate.IsAuthority());
  CHECK(certificate.IsIssuedBy(certificate));
  CHECK(certificate.NotAfter() - pki.now > 3650ULL * 24 * kHour);
  CHECK(certificate.NotBefore() < pki.now);
  CHECK(pki.device_ca.certificate().Subject() == "skep device CA 5f5f5f");
}

TEST_CASE("a device certificate holds what the protocol lists and nothing else", "[unit]") {
  const Pki pki;
  const Holder device = pki.Device(3);
  const Certificate& certificate = device.certificate;
  CHECK(certificate.Serial().size() == 16);
  CHECK((certificate.Serial()[0] & 0x80) == 0);
  CHECK(certificate.Subject() == DeviceOf(3).Hex());
  CHECK(certificate.IdentityIn(pki.federation).value() ==
        DeviceIdentity{pki.federation, DeviceOf(3)});
  CHECK(certificate.HasClientUsage());
  CHECK_FALSE(certificate.HasServerUsage());
  CHECK(certificate.MaySign());
  CHECK_FALSE(certificate.IsAuthority());
  CHECK(certificate.Names().empty());
  CHECK(certificate.BelongsTo(device.key));
  CHECK(certificate.IsIssuedBy(pki.device_ca.certificate()));
  CHECK_FALSE(certificate.IsIssuedBy(pki.server_ca.certificate()));
}

TEST_CASE("a device certificate is valid for the given time, in whole seconds", "[unit]") {
  const Pki pki;
  const Certificate certificate = pki.Device(1, {1'790'000'000'999, 1'800'000'000'999}).certificate;
  CHECK(certificate.NotBefore() == 1'790'000'000'000);
  CHECK(certificate.NotAfter() == 1'800'000'000'000);
}

TEST_CASE("times beyond 2049 survive", "[unit]") {
  const Pki pki;
  constexpr WallMs kIn2060 = 2'840'000'000'000;
  CHECK(pki.Device(1, {pki.now, kIn2060}).certificate.NotAfter() == kIn2060);
}

TEST_CASE("a device certificate has about 520 bytes", "[unit]") {
  const Pki pki;
  const std::size_t size = pki.Device().certificate.ToDer().size();
  CHECK(size > 450);
  CHECK(size < 600);
}

TEST_CASE("no two certificates have one serial number", "[unit]") {
  const Pki pki;
  std::set<Bytes> serials;
  for (int i = 0; i < 20; ++i) serials.insert(pki.Device().certificate.Serial());
  CHECK(serials.size() == 20);
}

TEST_CASE("a server certificate names its hosts, addresses as addresses", "[unit]") {
  const Pki pki;
  const Certificate certificate =
      pki.Server({"agg.example", "192.0.2.1", "2001:db8::1"}).certificate;
  CHECK(certificate.Names() == std::vector<std::string>{"agg.example", "192.0.2.1", "2001:db8::1"});
  CHECK(certificate.HasServerUsage());
  CHECK_FALSE(certificate.HasClientUsage());
}

TEST_CASE("a host that could smuggle in another name is refused", "[unit]") {
  const Pki pki;
  const auto key = PrivateKey::MakeP256().value();
  for (const char* host : {"", "a,DNS:b", "a b", "a:1", "user@a"}) {
    INFO(host);
    const auto certificate = pki.server_ca.IssueServer(key, {host}, pki.Valid());
    REQUIRE_FALSE(certificate.has_value());
    CHECK(certificate.error().code == 5105);
  }
}

TEST_CASE("an authority is made again from its certificate and key alone", "[unit]") {
  const Pki pki;
  CHECK(Authority::From(pki.device_ca.certificate(), pki.device_ca.key(), "pki/device-ca")
            .has_value());
  const auto other_key =
      Authority::From(pki.device_ca.certificate(), pki.server_ca.key(), "pki/device-ca");
  REQUIRE_FALSE(other_key.has_value());
  CHECK(other_key.error().code == 5102);
  const Holder device = pki.Device();
  const auto no_authority = Authority::From(device.certificate, device.key, "pki/device-ca");
  REQUIRE_FALSE(no_authority.has_value());
  CHECK(no_authority.error().code == 5116);
}

TEST_CASE("a certificate survives PEM and DER", "[unit]") {
  const Pki pki;
  const Certificate certificate = pki.Device().certificate;
  CHECK(Certificate::FromPem(certificate.ToPem()).value() == certificate);
  CHECK(Certificate::FromDer(certificate.ToDer()).value() == certificate);
  const auto both =
      Certificate::AllFromPem(certificate.ToPem() + pki.device_ca.certificate().ToPem());
  REQUIRE(both.has_value());
  CHECK(both->size() == 2);
}

TEST_CASE("damaged certificates are refused", "[unit]") {
  const Pki pki;
  Bytes der = pki.Device().certificate.ToDer();
  CHECK_FALSE(Certificate::FromDer(BytesView(der).first(der.size() - 1)).has_value());
  der.push_back(0);
  const auto longer = Certificate::FromDer(der);
  REQUIRE_FALSE(longer.has_value());
  CHECK(longer.error().code == 3101);
  const auto nothing = Certificate::FromPem("no certificate");
  REQUIRE_FALSE(nothing.has_value());
  CHECK(nothing.error().code == 1010);
  std::string pem = pki.Device().certificate.ToPem();
  pem.replace(pem.size() / 2, 4, "!!!!");
  CHECK_FALSE(Certificate::FromPem(pem).has_value());
}

TEST_CASE("a name from a certificate is shown escaped and cut", "[unit]") {
  const Pki pki;
  const auto key = PrivateKey::MakeP256().value();
  CertificateFields fields{"a\nb", pki.now, pki.now, {}};
  CHECK(MakeCertificate(fields, key.handle(), key, nullptr).value().Subject() == "a\\x0ab");
  fields.common_name = std::string(60, '\x7f');
  CHECK(MakeCertificate(fields, key.handle(), key, nullptr).value().Subject().size() == 64);
}

ServerFiles FilesOf(const Pki& pki, const Holder& server) {
  return {server.certificate,
          server.key,
          pki.server_ca.certificate(),
          pki.device_ca.certificate(),
          "pki/server.crt",
          "pki/server.key",
          {{"listen.advertise_devices", "localhost"}}};
}

std::vector<int> CodesOf(const ServerFiles& files, WallMs now) {
  std::vector<int> codes;
  for (const Error& problem : InspectServerFiles(files, now)) codes.push_back(problem.code);
  return codes;
}

crypto::Validity Year(const Pki& pki) {
  return {pki.now - kHour, pki.now + 365 * 24 * kHour};
}

TEST_CASE("files as `init` makes them have no problem", "[unit]") {
  const Pki pki;
  CHECK(CodesOf(FilesOf(pki, pki.Server({"localhost"}, Year(pki))), pki.now).empty());
}

TEST_CASE("every problem of an aggregator's files has its number and text", "[unit]") {
  const Pki pki;
  const Holder server = pki.Server({"localhost"}, Year(pki));
  ServerFiles files = FilesOf(pki, server);
  SECTION("another key") {
    files.key = PrivateKey::MakeP256().value();
    const auto problems = InspectServerFiles(files, pki.now);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].code == 5102);
    CHECK(problems[0].message == "pki/server.key does not belong to pki/server.crt");
  }
  SECTION("expired") {
    const WallMs later = server.certificate.NotAfter() + kHour;
    const auto problems = InspectServerFiles(files, later);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].code == 5103);
    CHECK(problems[0].message ==
          "pki/server.crt expired on " + UtcText(server.certificate.NotAfter()).substr(0, 10));
  }
  SECTION("not valid yet") {
    CHECK(CodesOf(files, pki.now - 2 * kHour) == std::vector<int>{5104});
  }
  SECTION("ends soon: a warning") {
    const auto problems =
        InspectServerFiles(files, server.certificate.NotAfter() - 12 * 24 * kHour);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].code == 5108);
    CHECK(problems[0].message == "pki/server.crt ends in 12 d");
    CHECK(IsWarning(problems[0]));
  }
  SECTION("another name") {
    files.advertised[0].host = "agg2.example";
    const auto problems = InspectServerFiles(files, pki.now);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].code == 5105);
    CHECK(problems[0].message ==
          "pki/server.crt does not name \"agg2.example\" from listen.advertise_devices (names: "
          "localhost)");
  }
  SECTION("another authority") {
    files.server_ca = Pki().server_ca.certificate();
    CHECK(CodesOf(files, pki.now) == std::vector<int>{5106});
  }
  SECTION("one authority for both") {
    files.device_ca = files.server_ca;
    CHECK(CodesOf(files, pki.now) == std::vector<int>{5107});
  }
  SECTION("no authority") {
    files.device_ca = pki.Device().certificate;
    CHECK(CodesOf(files, pki.now) == std::vector<int>{5116});
  }
  SECTION("several at once") {
    files.key = PrivateKey::MakeP256().value();
    files.device_ca = files.server_ca;
    CHECK(CodesOf(files, pki.now - 2 * kHour) == std::vector<int>{5102, 5104, 5107});
  }
}

}  // namespace
}  // namespace skep::crypto
