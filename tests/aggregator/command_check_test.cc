#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>

#include <map>

#include "crypto/pki/authority.h"
#include "crypto/pki/certificate_maker.h"
#include "crypto/signature.h"
#include "shared/base/file.h"
#include "tests/aggregator/command_fixture.h"

namespace skep::test {
namespace {

namespace fs = std::filesystem;

constexpr WallMs kDay = 24ULL * 3600 * 1000;

std::string Day(WallMs wall) {
  return UtcText(wall).substr(0, 10);
}

// check and serve find the same, and neither starts anything.
void Refuses(const Installation& agg, const std::string& text, int exit_code = 2) {
  for (const char* command : {"check", "serve"}) {
    const Outcome outcome = agg.Run({command});
    INFO(command << ": " << outcome.err);
    CHECK(outcome.code == exit_code);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(text) != std::string::npos);
  }
}

crypto::Authority ServerAuthority(const Installation& agg) {
  return crypto::Authority::From(
             crypto::Certificate::Load(agg.pki("server-ca.crt").string()).value(),
             crypto::PrivateKey::Load(agg.pki("server-ca.key").string()).value(), "server CA")
      .value();
}

void UseCertificate(const Installation& agg, WallMs from, WallMs until) {
  const auto key = crypto::PrivateKey::Load(agg.pki("server.key").string()).value();
  const auto certificate =
      ServerAuthority(agg).IssueServer(key, {"127.0.0.1"}, {from, until}).value();
  REQUIRE(WriteFileAtomically(agg.pki("server.crt").string(), AsBytes(certificate.ToPem())));
}

TEST_CASE("a key that others can read: SKEP-5101", "[unit]") {
  const Installation agg;
  ::chmod(agg.pki("server.key").c_str(), 0644);
  Refuses(agg, "error[SKEP-5101]: pki/server.key: readable by others (mode 0644)\n   chmod 0600");
}

TEST_CASE("a key of another certificate: SKEP-5102", "[unit]") {
  const Installation agg;
  REQUIRE(crypto::PrivateKey::MakeP256()->Store(agg.pki("server.key").string()));
  Refuses(agg, "error[SKEP-5102]: pki/server.key does not belong to pki/server.crt\n");
}

TEST_CASE("an authority's key that is not its own: SKEP-5102", "[unit]") {
  const Installation agg;
  REQUIRE(crypto::PrivateKey::MakeP256()->Store(agg.pki("device-ca.key").string()));
  Refuses(agg, "error[SKEP-5102]: pki/device-ca.key does not belong to pki/device-ca.crt\n");
}

TEST_CASE("an expired certificate: SKEP-5103", "[unit]") {
  const Installation agg;
  const WallMs now = ReadClock().wall;
  UseCertificate(agg, now - 3 * kDay, now - kDay);
  Refuses(agg, "error[SKEP-5103]: pki/server.crt expired on " + Day(now - kDay) + "\n");
}

TEST_CASE("a certificate of the future: SKEP-5104", "[unit]") {
  const Installation agg;
  const WallMs now = ReadClock().wall;
  UseCertificate(agg, now + 3 * kDay, now + 9 * kDay);
  Refuses(agg, "error[SKEP-5104]: pki/server.crt is valid from " + Day(now + 3 * kDay) +
                   ", the clock says " + Day(now) + "\n   check the clock\n");
}

TEST_CASE("a certificate without the advertised name: SKEP-5105", "[unit]") {
  const Installation agg;
  agg.Replace("advertise_devices = \"127.0.0.1:0\"", "advertise_devices = \"agg2.example:8443\"");
  Refuses(agg,
          "error[SKEP-5105]: pki/server.crt does not name \"agg2.example\" from "
          "listen.advertise_devices (names: ");
}

TEST_CASE("a certificate of another authority: SKEP-5106", "[unit]") {
  const Installation agg;
  const Installation other;
  fs::copy_file(other.pki("server-ca.crt"), agg.pki("server-ca.crt"),
                fs::copy_options::overwrite_existing);
  Refuses(agg, "error[SKEP-5106]: pki/server.crt is not issued by tls.server_ca \"skep server CA ");
}

TEST_CASE("one authority for both sides: SKEP-5107", "[unit]") {
  const Installation agg;
  agg.Configure("[tls]\ndevice_ca = \"pki/server-ca.crt\"\ndevice_ca_key = \"pki/server-ca.key\"");
  Refuses(agg,
          "error[SKEP-5107]: tls.server_ca and tls.device_ca are the same certificate; a device "
          "could pose as the aggregator\n");
}

TEST_CASE("a certificate that ends soon is a warning: SKEP-5108", "[unit]") {
  const Installation agg;
  const WallMs now = ReadClock().wall;
  UseCertificate(agg, now - kDay, now + 12 * kDay + kDay / 2);
  const Outcome check = agg.Run({"check"});
  CHECK(check.code == 0);
  CHECK(check.err.find("warning[SKEP-5108]: pki/server.crt ends in 12 d\n   sign a new one with "
                       "tls.server_ca (docs/operations.md), then restart\n") != std::string::npos);
}

TEST_CASE("an RSA key of 1024 bits: SKEP-5109", "[unit]") {
  const Installation agg;
  const auto key = crypto::PrivateKey::Adopt(EVP_RSA_gen(1024));
  const auto authority = ServerAuthority(agg);
  const WallMs now = ReadClock().wall;
  const auto certificate = crypto::MakeCertificate(
      {.common_name = "weak",
       .not_before = now - kDay,
       .not_after = now + 100 * kDay,
       .extensions = {{"extendedKeyUsage", "serverAuth"}, {"subjectAltName", "IP:127.0.0.1"}}},
      key.handle(), authority.key(), &authority.certificate());
  REQUIRE(key.Store(agg.pki("server.key").string()));
  REQUIRE(WriteFileAtomically(agg.pki("server.crt").string(), AsBytes(certificate->ToPem())));
  Refuses(agg, "error[SKEP-5109]: tls.certificate has an RSA key of 1024 bits; at least 2048\n");
}

TEST_CASE("enrolment without the authority's key: SKEP-5110", "[unit]") {
  const Installation agg;
  agg.Configure("[tls]\ndevice_ca_key = \"\"");
  Refuses(agg,
          "error[SKEP-5110]: enrolment.enabled is true but tls.device_ca_key is empty\n   set the "
          "key or enabled = false\n");
}

TEST_CASE("a credential that the service manager has not given: SKEP-5113", "[unit]") {
  const Installation agg;
  agg.Configure("[tls]\ncertificate = \"pki/server.crt\"\nprivate_key = \"credential:server.key\"");
  Refuses(agg,
          "error[SKEP-5113]: credential \"server.key\" not found in the credentials "
          "directory\n   add LoadCredential= to the unit\n");
}

TEST_CASE("a credential that is there is used", "[unit]") {
  const Installation agg;
  agg.Configure("[tls]\ncertificate = \"pki/server.crt\"\nprivate_key = \"credential:server.key\"");
  const Outcome check = RunToEnd({.words = agg.Words({"check"}),
                                  .variables = {"CREDENTIALS_DIRECTORY=" + agg.pki("").string()}});
  INFO(check.err);
  CHECK(check.code == 0);
}

TEST_CASE("a signing key of another kind: SKEP-5114", "[unit]") {
  const Installation agg;
  agg.Configure("[signing]\nkey = \"pki/server.key\"");
  Refuses(agg, "error[SKEP-5114]: pki/server.key: not an Ed25519 private key (found EC P-256)\n");
}

TEST_CASE("a signing key that devices do not know: SKEP-5115", "[unit]") {
  const Installation agg;
  REQUIRE(crypto::SigningKey::Make()->Store(agg.pki("manifest.key").string()));
  Refuses(agg,
          "error[SKEP-5115]: signing.key is not the manifest key recorded in the "
          "store (");
}

TEST_CASE("a store that is open to others: SKEP-4004", "[unit]") {
  const Installation agg;
  const std::string store = (agg.root() / "store").string();
  ::chmod(store.c_str(), 0755);
  Refuses(agg, "error[SKEP-4004]: " + store + " is open to other users\n   chmod 0700 " + store);
}

TEST_CASE("a database that is damaged: SKEP-4006", "[unit]") {
  const Installation agg;
  const fs::path path = agg.root() / "store" / "skep.db";
  const std::string before = ReadText(path);
  // The file's head; then a table's first page, found by the check that an unclean end asks for.
  for (const std::size_t at : {std::size_t{0}, std::size_t{4096}}) {
    std::string damaged = before;
    damaged.replace(at, 64, std::string(64, '\xa5'));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    Refuses(agg, "error[SKEP-4006]: ", 5);
  }
}

TEST_CASE("something else where the admin socket shall be: SKEP-4001, and it stays", "[unit]") {
  const Installation agg;
  const fs::path socket = agg.root() / "admin.sock";
  const std::string text = "error[SKEP-4001]: listen.admin_socket " + socket.string() +
                           " is there and is no socket\n   remove it\n";
  std::ofstream(socket) << "mine";
  Refuses(agg, text, 1);
  CHECK(ReadText(socket) == "mine");
  fs::remove(socket);
  fs::create_directory(socket);
  Refuses(agg, text, 1);
}

TEST_CASE("an address that is taken, and one that is none: SKEP-5201, SKEP-5202", "[unit]") {
  const Installation agg;
  const Installation other;
  Process daemon = other.Serve();
  const auto status = boost::json::parse(other.Run({"status", "--json"}).out);
  const std::string taken(status.at("data").at("listeners").at(0).at("address").as_string());
  agg.Replace("devices = \"127.0.0.1:0\"", "devices = \"" + taken + "\"");
  Refuses(agg, "error[SKEP-5201]: listen.devices " + taken + ": address in use\n");
  agg.Replace("devices = \"" + taken + "\"", "devices = \"agg.example:8443\"");
  Refuses(agg, "error[SKEP-5202]: listen.devices \"agg.example:8443\": not ADDRESS:PORT\n");
}

TEST_CASE("a check beside the running daemon finds nothing wrong and changes nothing", "[unit]") {
  const Installation agg;
  Process daemon = agg.Serve();
  REQUIRE(agg.Run({"population", "create", "pump"}).code == 0);
  const Outcome check = agg.Run({"check"});
  INFO(check.err);
  CHECK(check.code == 0);
  CHECK(agg.Run({"population", "list"}).out.find("pump") != std::string::npos);
}

TEST_CASE("a check leaves the store as it was", "[unit]") {
  const Installation agg;
  const auto files = [&] {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::directory_iterator(agg.root() / "store")) {
      const std::string name = entry.path().filename();
      // What connections share in memory is no content.
      if (!entry.is_regular_file() || name == "skep.db-shm") continue;
      found[name] = ReadText(entry.path());
    }
    return found;
  };
  const auto before = files();
  REQUIRE(agg.Run({"check"}).code == 0);
  CHECK(files() == before);
}

TEST_CASE("a device authority that is none: SKEP-5116", "[unit]") {
  const Installation agg;
  agg.Configure("[tls]\ndevice_ca = \"pki/server.crt\"\ndevice_ca_key = \"pki/server.key\"");
  Refuses(agg,
          "error[SKEP-5116]: tls.device_ca is not a CA certificate (basicConstraints CA:FALSE)\n");
}

TEST_CASE("too few open files for the connections: SKEP-5205", "[unit]") {
  const Installation agg;
  std::vector<std::string> words = agg.Words({"check"});
  words.insert(words.begin(), {"prlimit", "--nofile=1024:1024"});
  const Outcome outcome = RunToEnd({.words = words});
  CHECK(outcome.code == 2);
  CHECK(outcome.err ==
        "error[SKEP-5205]: open-file limit 1024; limits.max_connections 12000 needs "
        "12512\n   LimitNOFILE=65536\n");
}

TEST_CASE("a file that is missing is SKEP-1010, by the name that the operator wrote", "[unit]") {
  const Installation agg;
  fs::remove(agg.pki("server-ca.crt"));
  Refuses(agg, "error[SKEP-1010]: cannot read pki/server-ca.crt: No such file or directory\n");
}

TEST_CASE("every problem is told at once", "[unit]") {
  const Installation agg;
  ::chmod(agg.pki("server.key").c_str(), 0644);
  ::chmod(agg.pki("manifest.key").c_str(), 0640);
  fs::remove(agg.pki("device-ca.crt"));
  ::chmod((agg.root() / "store").c_str(), 0750);
  std::ofstream(agg.root() / "admin.sock") << "mine";
  for (const char* command : {"check", "serve"}) {
    const Outcome outcome = agg.Run({command});
    CHECK(outcome.code == 2);
    for (const char* part :
         {"pki/server.key", "pki/manifest.key", "pki/device-ca.crt", "SKEP-4004", "SKEP-4001"}) {
      INFO(command << " " << part);
      CHECK(outcome.err.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("problems of server.toml show their line and caret", "[unit]") {
  const Installation agg;
  agg.Configure("[limits2]\nmax_connections = 5");
  Refuses(agg, "error[SKEP-1012]: " + agg.config().string() + ":");
}

}  // namespace
}  // namespace skep::test
