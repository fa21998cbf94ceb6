#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "crypto/pki/certificate.h"
#include "shared/config/server_config.h"
#include "tests/aggregator/command_fixture.h"

namespace skep::test {
namespace {

namespace fs = std::filesystem;

unsigned ModeOf(const fs::path& path) {
  struct stat facts {};
  REQUIRE(::lstat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777U;
}

// Path, mode, time of change and content of everything below a folder.
std::map<std::string, std::string> Picture(const fs::path& root) {
  std::map<std::string, std::string> picture;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    struct stat facts {};
    REQUIRE(::lstat(entry.path().c_str(), &facts) == 0);
    std::string text = std::to_string(facts.st_mode) + " " + std::to_string(facts.st_mtim.tv_sec) +
                       "." + std::to_string(facts.st_mtim.tv_nsec);
    if (entry.is_regular_file()) text += " " + ReadText(entry.path());
    picture[entry.path().string()] = text;
  }
  return picture;
}

std::vector<std::string> InitWords(const fs::path& dir, const std::string& host) {
  return {"init", "--allow-root", "--name", host, "--dir", dir.string()};
}

TEST_CASE("init makes keys that nobody else reads, and folders that nobody else enters", "[unit]") {
  const Installation agg;
  for (const char* key : {"server-ca.key", "device-ca.key", "server.key", "manifest.key"}) {
    CHECK(ModeOf(agg.pki(key)) == 0600U);
  }
  for (const char* certificate : {"server-ca.crt", "device-ca.crt", "server.crt"}) {
    CHECK(ModeOf(agg.pki(certificate)) == 0644U);
  }
  CHECK(ModeOf(agg.config()) == 0640U);
  CHECK(ModeOf(agg.root() / "store") == 0700U);
  CHECK(ModeOf(agg.pki("")) == 0700U);
  CHECK(ModeOf(agg.root() / "store" / "skep.db") == 0600U);
}

TEST_CASE("what init makes passes check", "[unit]") {
  const Installation agg;
  const Outcome check = agg.Run({"check"});
  CHECK(check.code == 0);
  CHECK(check.out == agg.config().string() + ": ok\n");
}

TEST_CASE("the folder that init made can be moved", "[unit]") {
  const Installation agg;
  const fs::path moved = agg.root().parent_path() / "moved";
  fs::rename(agg.root(), moved);
  CHECK(Aggregator({"check", "--allow-root", "--config", (moved / "server.toml").string()}).code ==
        0);
}

TEST_CASE("the server's certificate names the host, and this machine's own names together",
          "[unit]") {
  const TemporaryFolder folder;
  REQUIRE(Aggregator(InitWords(folder.path() / "a", "agg.example")).code == 0);
  REQUIRE(Aggregator(InitWords(folder.path() / "b", "localhost")).code == 0);
  const auto named =
      crypto::Certificate::Load((folder.path() / "a/store/pki/server.crt").string()).value();
  CHECK(named.Names() == std::vector<std::string>{"agg.example"});
  const auto local =
      crypto::Certificate::Load((folder.path() / "b/store/pki/server.crt").string()).value();
  CHECK(local.NamesHost("localhost"));
  CHECK(local.NamesHost("127.0.0.1"));
  const auto config = config::LoadServerConfig((folder.path() / "a/server.toml").string());
  REQUIRE(config.has_value());
  CHECK(config->value.listen.advertise_devices == "agg.example:8443");
  CHECK(config->value.listen.advertise_enrol == "agg.example:8444");
  CHECK(config->value.listen.devices == "0.0.0.0:8443");
}

TEST_CASE("an address of IPv6 is written with its brackets", "[unit]") {
  const TemporaryFolder folder;
  REQUIRE(Aggregator(InitWords(folder.path() / "a", "2001:db8::1")).code == 0);
  const auto config = config::LoadServerConfig((folder.path() / "a/server.toml").string());
  REQUIRE(config.has_value());
  CHECK(config->value.listen.advertise_devices == "[2001:db8::1]:8443");
  CHECK(config->value.listen.devices == "[::]:8443");
}

TEST_CASE("init on an installation is exit 2, says what is there, and changes no byte", "[unit]") {
  const Installation agg;
  const auto before = Picture(agg.root());
  const Outcome again = Aggregator(InitWords(agg.root(), "127.0.0.1"));
  CHECK(again.code == 2);
  CHECK(again.err.rfind("error[SKEP-4004]: there is an installation of \"skep server CA ", 0) == 0);
  CHECK(again.err.find((agg.root() / "store/skep.db").string()) != std::string::npos);
  CHECK(again.err.find("7 keys and certificates") != std::string::npos);
  CHECK(again.out.empty());
  CHECK(Picture(agg.root()) == before);
}

TEST_CASE("a single file of an installation is enough to refuse", "[unit]") {
  const TemporaryFolder folder;
  (void)folder.Write("a/store/pki/server.key", "precious");
  const Outcome outcome = Aggregator(InitWords(folder.path() / "a", "127.0.0.1"));
  CHECK(outcome.code == 2);
  CHECK(ReadText(folder.path() / "a/store/pki/server.key") == "precious");
  CHECK_FALSE(fs::exists(folder.path() / "a/server.toml"));
}

TEST_CASE("an init that cannot finish leaves nothing behind", "[unit]") {
  const TemporaryFolder folder;
  // The store's folder is open to others: its keys are made, its database is refused.
  fs::create_directories(folder.path() / "a/store");
  ::chmod((folder.path() / "a/store").c_str(), 0755);
  const auto before = Picture(folder.path());
  const Outcome outcome = Aggregator(InitWords(folder.path() / "a", "127.0.0.1"));
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("error[SKEP-4004]") == 0);
  CHECK(outcome.err.find("chmod 0700") != std::string::npos);
  CHECK(fs::is_empty(folder.path() / "a/store"));
  CHECK(Picture(folder.path()).size() == before.size());
}

TEST_CASE("a host that devices cannot connect to is refused before anything is made", "[unit]") {
  const TemporaryFolder folder;
  for (const auto& [host, code] :
       std::vector<std::pair<std::string, std::string>>{{"0.0.0.0", "5213"},
                                                        {"::", "5213"},
                                                        {"agg example", "5408"},
                                                        {"", "5408"},
                                                        {"agg.example:8443", "5408"},
                                                        {"agg_1", "5408"},
                                                        {std::string(300, 'a'), "5408"}}) {
    INFO(host);
    const Outcome outcome = Aggregator(InitWords(folder.path() / "a", host));
    CHECK(outcome.code == 2);
    CHECK(outcome.err.rfind("error[SKEP-" + code + "]: ", 0) == 0);
    CHECK_FALSE(fs::exists(folder.path() / "a"));
  }
}

TEST_CASE("root needs --allow-root for what writes or reads files: SKEP-5210", "[unit]") {
  if (::geteuid() != 0) SKEP_SKIP("this user is not root");
  const TemporaryFolder folder;
  const Outcome init =
      Aggregator({"init", "--name", "127.0.0.1", "--dir", (folder.path() / "a").string()});
  CHECK(init.code == 2);
  CHECK(init.err ==
        "error[SKEP-5210]: running as root is refused\n"
        "   use the service user, or --allow-root in a container\n");
  CHECK_FALSE(fs::exists(folder.path() / "a"));
  CHECK(Aggregator({"serve"}).err.rfind("error[SKEP-5210]", 0) == 0);
  CHECK(Aggregator({"check"}).err.rfind("error[SKEP-5210]", 0) == 0);
}

}  // namespace
}  // namespace skep::test
