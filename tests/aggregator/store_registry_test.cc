// Who may take part: populations, tokens, enrolment, certificates.
#include "tests/aggregator/store_fixture.h"

namespace skep::aggregator::test {
namespace {

constexpr WallMs kExpires = 10'000;

class Office {
 public:
  Office() : store_(SqliteStore::Create(path(), kFederation, 100).value()) {
    REQUIRE(registry().CreatePopulation("pump", "operator", 200).has_value());
    tokens_ = {{Hash(1), MakeId<TokenId>(1)},
               {Hash(2), MakeId<TokenId>(2)},
               {Hash(3), MakeId<TokenId>(3)}};
    REQUIRE(registry().CreateTokens("pump", tokens_, kExpires, "operator", 300).value() == 0);
  }
  [[nodiscard]] Registry& registry() { return *store_; }
  [[nodiscard]] SqliteStore& store() { return *store_; }
  void Reopen() {
    store_.reset();
    store_ = SqliteStore::Open(path(), kFederation).value();
  }

  static Hash32 Hash(std::uint8_t number) { return MakeId<Hash32>(number); }

  // A request with token `token` and key `key`, for a device and a certificate made for it.
  static Enrolment Request(std::uint8_t token, std::uint8_t key, std::uint8_t device) {
    return {.secret_sha256 = Hash(token),
            .hint = "site-" + std::to_string(device),
            .software = "skep-client 0.1.0",
            .certificate = {.serial = MakeId<Serial>(device),
                            .device = Device(device),
                            .key_sha256 = Hash(key),
                            .not_before = 100,
                            .not_after = 900'000,
                            .state = CertificateState::kLive,
                            .der = Bytes(500, device)}};
  }

  // Everything a refused request must leave as it was.
  std::string State() {
    std::string state;
    const auto devices = registry().Devices().value();
    const auto tokens = registry().Tokens("pump").value();
    for (const DeviceRow& row : devices) {
      state += row.device.Hex() + std::to_string(static_cast<int>(row.state)) + row.hint + "\n";
    }
    for (const TokenRow& row : tokens) {
      state += row.id.Hex() + std::to_string(row.used) + row.device.Hex() + "\n";
    }
    return state + std::to_string(registry().Audit(1000).value().size());
  }
  void CheckRefused(const Enrolment& enrolment, WallMs now, int code) {
    const std::string before = State();
    const auto used = registry().UseToken(enrolment, now);
    REQUIRE_FALSE(used.has_value());
    CHECK(used.error().code == code);
    CHECK(State() == before);
  }

 private:
  [[nodiscard]] std::string path() const { return (folder_.path() / "store").string(); }

  skep::test::TemporaryFolder folder_;
  std::unique_ptr<SqliteStore> store_;
  std::vector<NewToken> tokens_;
};

TEST_CASE("a population is made once", "[unit]") {
  Office office;
  const auto again = office.registry().CreatePopulation("pump", "operator", 400);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == 5405);
  const auto populations = office.registry().Populations().value();
  REQUIRE(populations.size() == 1);
  CHECK(populations[0].name == "pump");
  CHECK(populations[0].created == 200);
  CHECK(populations[0].next_client == 3);
}

TEST_CASE("tokens number their clients in the order of making, across calls", "[unit]") {
  Office office;
  const std::vector<NewToken> more{{Office::Hash(9), MakeId<TokenId>(9)}};
  CHECK(office.registry().CreateTokens("pump", more, kExpires, "operator", 400).value() == 3);
  const auto tokens = office.registry().Tokens("pump").value();
  REQUIRE(tokens.size() == 4);
  for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(tokens[i].client == i);
  CHECK(tokens[1].id == MakeId<TokenId>(2));
  CHECK(tokens[3].expires == kExpires);
}

TEST_CASE("tokens of an unknown population, or made before, change nothing", "[unit]") {
  Office office;
  const std::string before = office.State();
  const std::vector<NewToken> fresh{{Office::Hash(9), MakeId<TokenId>(9)}};
  CHECK(office.registry().CreateTokens("pmup", fresh, kExpires, "operator", 400).error().code ==
        5403);
  const std::vector<NewToken> half_known{{Office::Hash(8), MakeId<TokenId>(8)},
                                         {Office::Hash(1), MakeId<TokenId>(7)}};
  CHECK(
      office.registry().CreateTokens("pump", half_known, kExpires, "operator", 400).error().code ==
      4007);
  CHECK(office.State() == before);
  CHECK(office.registry().Populations().value().at(0).next_client == 3);
}

TEST_CASE("one use of a token makes device, membership and certificate", "[unit]") {
  Office office;
  const Enrolled enrolled = office.registry().UseToken(Office::Request(2, 50, 20), 500).value();
  CHECK_FALSE(enrolled.is_repeat);
  CHECK(enrolled.token.client == 1);
  CHECK(enrolled.token.used == 500);
  office.Reopen();
  const DeviceRow device = office.registry().FindDevice(Device(20)).value().value();
  CHECK(device.hint == "site-20");
  CHECK(device.state == DeviceState::kActive);
  CHECK(device.enrolled == 500);
  CHECK(device.last_seen == 0);
  REQUIRE(device.memberships.size() == 1);
  CHECK(device.memberships[0].first == "pump");
  CHECK(device.memberships[0].second == 1);
  const auto certificate = office.registry().FindCertificate(MakeId<Serial>(20)).value().value();
  CHECK(certificate.device == Device(20));
  CHECK(certificate.state == CertificateState::kLive);
  CHECK(certificate.der == Bytes(500, 20));
  CHECK(office.registry().Audit(1).value().at(0).action == "device enrolled");
}

TEST_CASE("the same key with the same token gets the certificate of then", "[unit]") {
  Office office;
  REQUIRE(office.registry().UseToken(Office::Request(1, 50, 20), 500).has_value());
  // The reply was lost; a second certificate was made for the repeat, long after the token's end.
  const auto checked = office.registry().CheckToken(Office::Hash(1), Office::Hash(50), 20'000);
  REQUIRE(checked.value().has_value());
  CHECK(checked.value()->certificate.serial == MakeId<Serial>(20));
  const Enrolled repeat = office.registry().UseToken(Office::Request(1, 50, 21), 20'000).value();
  CHECK(repeat.is_repeat);
  CHECK(repeat.certificate.serial == MakeId<Serial>(20));
  CHECK(repeat.certificate.device == Device(20));
  CHECK(office.registry().Devices().value().size() == 1);
}

TEST_CASE("a token is refused by number", "[unit]") {
  Office office;
  office.CheckRefused(Office::Request(9, 50, 20), 500, 3117);
  office.CheckRefused(Office::Request(1, 50, 20), kExpires + 1, 3118);
  CHECK_FALSE(office.registry().CheckToken(Office::Hash(1), Office::Hash(50), 500).value());
  REQUIRE(office.registry().UseToken(Office::Request(1, 50, 20), 500).has_value());
  office.CheckRefused(Office::Request(1, 51, 21), 600, 3104);
  CHECK(office.registry().CheckToken(Office::Hash(1), Office::Hash(51), 600).error().code == 3104);
  office.CheckRefused(Office::Request(2, 50, 22), 600, 3122);  // the key has a device
}

TEST_CASE("a revoked device keeps neither certificate nor key", "[unit]") {
  Office office;
  Registry& registry = office.registry();
  REQUIRE(registry.UseToken(Office::Request(1, 50, 20), 500).has_value());
  REQUIRE(registry.SetDeviceState(Device(20), DeviceState::kRevoked, "operator", "lost", 700)
              .has_value());
  CHECK(registry.FindDevice(Device(20)).value()->state == DeviceState::kRevoked);
  CHECK(registry.FindCertificate(MakeId<Serial>(20)).value()->state == CertificateState::kRevoked);
  office.CheckRefused(Office::Request(1, 50, 21), 800, 3122);
  office.CheckRefused(Office::Request(2, 50, 21), 800, 3122);
  CHECK(
      registry.SetDeviceState(Device(20), DeviceState::kActive, "operator", "", 900).error().code ==
      5405);
  CHECK(
      registry.SetDeviceState(Device(20), DeviceState::kRevoked, "operator", "", 900).has_value());
  CHECK(registry.SetDeviceState(Device(99), DeviceState::kRevoked, "operator", "", 900)
            .error()
            .code == 5403);
}

TEST_CASE("the last contact is written at most once an hour", "[unit]") {
  Office office;
  Registry& registry = office.registry();
  REQUIRE(registry.UseToken(Office::Request(1, 50, 20), 500).has_value());
  constexpr WallMs kHour = 3'600'000;
  REQUIRE(registry.DeviceSeen(Device(20), 2 * kHour).has_value());
  REQUIRE(registry.DeviceSeen(Device(20), 3 * kHour - 1).has_value());
  CHECK(registry.FindDevice(Device(20)).value()->last_seen == 2 * kHour);
  REQUIRE(registry.DeviceSeen(Device(20), 3 * kHour).has_value());
  CHECK(registry.FindDevice(Device(20)).value()->last_seen == 3 * kHour);
  CHECK(registry.DeviceSeen(Device(99), 3 * kHour).has_value());
}

TEST_CASE("the first use of a renewed certificate supersedes the old one", "[unit]") {
  Office office;
  Registry& registry = office.registry();
  REQUIRE(registry.UseToken(Office::Request(1, 50, 20), 500).has_value());
  CertificateRow renewed = Office::Request(1, 51, 20).certificate;
  renewed.serial = MakeId<Serial>(0x77);
  CHECK(registry.AddCertificate(renewed, 600).value().serial == renewed.serial);
  CertificateRow repeat = renewed;
  repeat.serial = MakeId<Serial>(0x78);
  CHECK(registry.AddCertificate(repeat, 700).value().serial == renewed.serial);

  REQUIRE(registry.CertificateUsed(MakeId<Serial>(20), 800).has_value());
  CHECK(registry.FindCertificate(renewed.serial).value()->state == CertificateState::kLive);
  REQUIRE(registry.CertificateUsed(renewed.serial, 900).has_value());
  CHECK(registry.FindCertificate(MakeId<Serial>(20)).value()->state ==
        CertificateState::kSuperseded);
  CHECK(registry.FindCertificate(renewed.serial).value()->state == CertificateState::kLive);
  CHECK_FALSE(registry.FindCertificate(repeat.serial).value().has_value());
}

TEST_CASE("a renewal with a foreign or superseded key is refused", "[unit]") {
  Office office;
  Registry& registry = office.registry();
  REQUIRE(registry.UseToken(Office::Request(1, 50, 20), 500).has_value());
  REQUIRE(registry.UseToken(Office::Request(2, 60, 30), 500).has_value());
  CertificateRow foreign = Office::Request(1, 60, 20).certificate;
  foreign.serial = MakeId<Serial>(0x77);
  CHECK(registry.AddCertificate(foreign, 600).error().code == 3122);
  CertificateRow nobody = Office::Request(1, 70, 99).certificate;
  CHECK(registry.AddCertificate(nobody, 600).error().code == 3111);
}

TEST_CASE("strikes are kept", "[unit]") {
  Office office;
  REQUIRE(office.registry().UseToken(Office::Request(1, 50, 20), 500).has_value());
  REQUIRE(office.registry().SetStrikes(Device(20), 3).has_value());
  office.Reopen();
  CHECK(office.registry().FindDevice(Device(20)).value()->strikes == 3);
}

}  // namespace
}  // namespace skep::aggregator::test
