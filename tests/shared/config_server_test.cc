#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "shared/config/host_port.h"
#include "shared/config/server_config.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::config {
namespace {

std::string Shown(const std::string& text) {
  const auto loaded = ParseServerConfig(text, "server.toml");
  REQUIRE_FALSE(loaded.has_value());
  std::string shown;
  for (const Problem& problem : loaded.problems()) {
    const std::string where = problem.place.Text();
    shown +=
        std::to_string(problem.code) + " " + where + (where.empty() ? "" : ": ") + problem.message;
    if (!problem.suggestion.empty()) shown += " / did you mean \"" + problem.suggestion + "\"?";
    if (!problem.hint.empty()) shown += " / " + problem.hint;
  }
  return shown;
}

// The lines before a mistake, so that it stands where the message says.
std::string From(int line, const std::string& section, const std::string& text) {
  return "schema = 1\n" + std::string(static_cast<std::size_t>(line - 3), '\n') + section + "\n" +
         text + "\n";
}

TEST_CASE("every misconfiguration that the file alone shows has its number, place and text",
          "[unit]") {
  CHECK(Shown(From(14, "[enrolment]", "devices = 3")) ==
        "1012 server.toml:14:1: unknown key \"enrolment.devices\" / did you mean \"max_devices\"?");
  CHECK(Shown(From(9, "[limits]", "max_connections = \"many\"")) ==
        "1101 server.toml:9:19: \"limits.max_connections\" must be a whole number, found a string");
  CHECK(Shown(From(20, "[enrolment]", "certificate_lifetime = \"900d\"")) ==
        "1102 server.toml:20:24: \"enrolment.certificate_lifetime\" is \"900d\"; allowed \"10m\" "
        "to \"397d\"");
  CHECK(Shown(From(31, "[tls]", "certificate = \"a.crt\"")) ==
        "1103 server.toml:31:1: \"tls.certificate\" is set but \"tls.private_key\" is not / set "
        "both or neither");
  CHECK(Shown(From(33, "[limits]", "connection_memory = \"256KiB\"")) ==
        "1103 server.toml:33:1: \"limits.connection_memory\" (256 KiB) is below "
        "\"transfer.chunk_bytes\" + 128 KiB (384 KiB)");
  CHECK(Shown("") ==
        "1011 server.toml: \"schema\" is missing / add `schema = 1` as the first line");
  CHECK(Shown(From(12, "[tls]", "crl =    ")).substr(0, 50) ==
        "1015 server.toml:12:10: not valid TOML: expected a");
  CHECK(Shown("schema = 2\n") == "1018 server.toml: schema 2 is newer than this program (reads 1)");
  CHECK(Shown(From(5, "[tls]", "device_ca_key = \"\"")) ==
        "5110 enrolment.enabled is true but tls.device_ca_key is empty / set the key or enabled = "
        "false");
  CHECK(Shown(From(5, "[listen]", "devices = \"agg.example\"")) ==
        "5202 listen.devices \"agg.example\": not ADDRESS:PORT");
  CHECK(Shown(From(5, "[listen]", "enrol = \"0.0.0.0:8443\"")) ==
        "5204 listen.devices and listen.enrol are the same address");
  CHECK(Shown(From(5, "[listen]", "advertise_devices = \"0.0.0.0:8443\"")) ==
        "5213 listen.advertise_devices \"0.0.0.0:8443\" is an address to listen on; devices need "
        "one to connect to");
}

TEST_CASE("an administration that nobody can prove to be allowed is refused", "[unit]") {
  const std::string shown = Shown(From(5, "[listen]", "admin = \"127.0.0.1:9000\""));
  CHECK(shown.find("5203 listen.admin is set but neither admin.token_file nor admin.client_ca / "
                   "set one, or use the socket") != std::string::npos);
}

TEST_CASE("a problem without a line has its remedy beneath", "[unit]") {
  const auto loaded = ParseServerConfig("", "server.toml");
  CHECK(FormatProblems(loaded.problems(), {.program = "skep-aggregator"}) ==
        "error[SKEP-1011]: server.toml: \"schema\" is missing\n"
        "   add `schema = 1` as the first line\n"
        "   skep-aggregator explain SKEP-1011\n");
}

TEST_CASE("an address that other machines cannot reach is a warning", "[unit]") {
  const auto loaded = ParseServerConfig(
      "schema = 1\n[listen]\nadvertise_devices = \"localhost:8443\"\n", "server.toml");
  REQUIRE(loaded.has_value());
  REQUIRE(loaded->notes.size() == 1);
  CHECK(FormatNote(loaded->notes[0]) ==
        "warning[SKEP-5207]: listen.advertise_devices \"localhost:8443\" cannot be reached from "
        "other machines\n");
}

TEST_CASE("an aggregator that listens on this machine alone means it: no warning", "[unit]") {
  const auto loaded = ParseServerConfig(
      "schema = 1\n[listen]\ndevices = \"127.0.0.1:0\"\nadvertise_devices = \"127.0.0.1:0\"\n",
      "server.toml");
  REQUIRE(loaded.has_value());
  CHECK(loaded->notes.empty());
}

TEST_CASE("a warning about an address names no port that is yet to be bound", "[unit]") {
  const auto loaded = ParseServerConfig(
      "schema = 1\n[listen]\nadvertise_devices = \"127.0.0.1:0\"\n", "server.toml");
  REQUIRE(loaded->notes.size() == 1);
  CHECK(loaded->notes[0].text ==
        "listen.advertise_devices \"127.0.0.1\" cannot be reached from other machines");
}

TEST_CASE("what is no regular file is refused at once, whatever kind it is: SKEP-1010", "[unit]") {
  const test::TemporaryFolder folder;
  const auto shown = [](const std::string& path) {
    const auto loaded = LoadServerConfig(path);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.problems().at(0).code == 1010);
    return loaded.problems().at(0).message;
  };
  const std::string pipe = (folder.path() / "pipe.toml").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(shown(pipe) == "cannot be read: it is a pipe");
  CHECK(shown("/dev/zero") == "cannot be read: it is a device");
  CHECK(shown(folder.path().string()) == "cannot be read: it is a folder");
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (folder.path() / "s").string();
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  CHECK(shown(path) == "cannot be read: it is a socket");
  ::close(listener);
}

TEST_CASE("a file with its version alone is a whole configuration", "[unit]") {
  const auto loaded = ParseServerConfig("schema = 1\n", "/etc/skep/server.toml");
  REQUIRE(loaded.has_value());
  const ServerConfig& server = loaded->value;
  CHECK(server.listen.devices == "0.0.0.0:8443");
  CHECK(server.tls.certificate == "/var/lib/skep/pki/server.crt");
  CHECK(server.tls.crl.empty());
  CHECK(server.tls.handshake_deadline == std::chrono::seconds(10));
  CHECK(server.enrolment.certificate_lifetime == std::chrono::hours(24 * 30));
  CHECK(server.session.absent_after == std::chrono::seconds(90));
  CHECK(server.limits.max_update_bytes == 64ULL << 20U);
  CHECK(server.transfer.min_rate == 4096);
  CHECK_FALSE(server.transfer.is_min_rate_given);
  CHECK(server.pace.small_factor == 4.0);
  CHECK(server.store.ballast == 64ULL << 20U);
  CHECK(server.log.rate == 200);
  CHECK(server.drain == std::chrono::seconds(30));
}

TEST_CASE("relative paths are below the store, and the store below the file", "[unit]") {
  const auto loaded = ParseServerConfig(
      "schema = 1\n[store]\ndirectory = \"data\"\n[tls]\ncertificate = \"c.crt\"\nprivate_key = "
      "\"credential:server.key\"\n"
      "[listen]\nadmin_socket = \"admin.sock\"\n[transfer]\nmin_rate = \"1MB/s\"\n",
      "/home/x/server.toml");
  REQUIRE(loaded.has_value());
  CHECK(loaded->value.tls.certificate == "/home/x/data/c.crt");
  CHECK(loaded->value.tls.private_key == "credential:server.key");
  CHECK(loaded->value.listen.admin_socket == "/home/x/data/admin.sock");
  CHECK(loaded->value.transfer.min_rate == 1'000'000);
  CHECK(loaded->value.transfer.is_min_rate_given);
}

TEST_CASE("listeners on free ports are no conflict", "[unit]") {
  CHECK(ParseServerConfig(
            "schema = 1\n[listen]\ndevices = \"127.0.0.1:0\"\nenrol = \"127.0.0.1:0\"\n",
            "server.toml")
            .has_value());
}

TEST_CASE("HOST:PORT is read strictly", "[unit]") {
  CHECK(ParseHostPort("agg.example:8443")->host == "agg.example");
  CHECK(ParseHostPort("[::1]:1")->host == "::1");
  CHECK(ParseHostPort("127.0.0.1:0")->port == 0);
  CHECK(ParseHostPort("h:65535")->port == 65'535);
  for (const std::string_view bad : {"", ":", "h:", ":1", "h", "h:65536", "h:-1", "h:1x", "::1:5",
                                     "[::1]", "[]:1", "h h:1", "h:1\n"}) {
    INFO(bad);
    CHECK_FALSE(ParseHostPort(bad).has_value());
  }
}

TEST_CASE("addresses to listen on are known in every spelling", "[unit]") {
  for (const std::string_view host : {"0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::0", "0"})
    CHECK(IsWildcardHost(host));
  for (const std::string_view host : {"10.0.0.0", "::1", "agg", ""})
    CHECK_FALSE(IsWildcardHost(host));
  for (const std::string_view host : {"localhost", "127.1.2.3", "::1"}) CHECK(IsLoopbackHost(host));
  CHECK_FALSE(IsLoopbackHost("agg.example"));
}

}  // namespace
}  // namespace skep::config
