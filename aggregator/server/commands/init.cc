#include "aggregator/server/commands/init.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/object.hpp>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "aggregator/server/commands/server_toml.h"
#include "aggregator/server/commands/text.h"
#include "aggregator/store/sqlite_store.h"
#include "crypto/csprng.h"
#include "crypto/pki/authority.h"
#include "crypto/signature.h"
#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/config/host_port.h"

namespace skep::aggregator {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemStore = "/var/lib/skep";
constexpr const char* kSystemSocket = "/run/skep/admin.sock";
constexpr std::size_t kLongestHost = 253;

struct Places {
  fs::path config;
  fs::path store;
  ServerToml toml;  // with what stands in the file

  [[nodiscard]] fs::path Pki(const char* name) const { return store / "pki" / name; }
  [[nodiscard]] std::vector<fs::path> Files() const {
    return {store / "skep.db",    config,
            Pki("server-ca.crt"), Pki("server-ca.key"),
            Pki("device-ca.crt"), Pki("device-ca.key"),
            Pki("server.crt"),    Pki("server.key"),
            Pki("manifest.key")};
  }
};

struct Federation {
  FederationId id;
  WallMs certificate_ends = 0;
};

// What was made, in order; removed again unless `Keep` is called.
class Made {
 public:
  ~Made() {
    std::error_code ignored;
    // A folder goes only if nobody else has put something into it.
    for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) fs::remove(*path, ignored);
  }
  Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  void Add(const fs::path& path) { paths_.push_back(path); }
  void Keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

Status CheckHost(const std::string& host) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
  if (config::IsWildcardHost(host)) {
    return Error{5213,
                 "\"" + host + "\" is an address to listen on; devices need one to connect to",
                 "give the name or address under which devices reach this machine"};
  }
  const bool is_ipv6 =
      host.find(':') != std::string::npos && config::ParseHostPort("[" + host + "]:1").has_value();
  const bool is_plain = !host.empty() && host.size() <= kLongestHost &&
                        host.find_first_not_of(kLetters) == std::string::npos;
  if (is_ipv6 || is_plain) return Ok();
  return Error{5408, "--name \"" + host + "\" is no host name and no address",
               "letters, digits, dots and hyphens, as in agg.example"};
}

// The names that the certificate has: this machine's own ones belong together.
std::vector<std::string> Hosts(const std::string& host) {
  std::vector<std::string> hosts{host};
  if (!config::IsLoopbackHost(host)) return hosts;
  for (const char* other : {"localhost", "127.0.0.1", "::1"}) {
    if (host != other) hosts.emplace_back(other);
  }
  return hosts;
}

Places PlacesFor(const GlobalOptions& options, const InitOptions& init) {
  Places places;
  places.config = options.config;
  places.store = kSystemStore;
  places.toml.store = kSystemStore;
  places.toml.admin_socket = kSystemSocket;
  if (!init.folder.empty()) {
    if (!options.is_config_given) places.config = fs::path(init.folder) / "server.toml";
    places.store = fs::path(init.folder) / "store";
    // Relative, so that the folder can be moved, as long as the configuration lies in it.
    const bool is_inside = !options.is_config_given;
    places.toml.store = is_inside ? "store" : fs::absolute(places.store).string();
    places.toml.admin_socket = "../admin.sock";
  }
  if (!options.socket.empty()) places.toml.admin_socket = fs::absolute(options.socket).string();
  places.toml.host = init.host;
  places.toml.devices_port = init.devices_port;
  places.toml.enrol_port = init.enrol_port;
  places.toml.is_loopback = config::IsLoopbackHost(init.host);
  return places;
}

bool IsThere(const fs::path& path) {
  std::error_code ignored;
  // What this user may not even look at fails with its reason when it is written.
  const fs::file_type type = fs::symlink_status(path, ignored).type();
  return type != fs::file_type::not_found && type != fs::file_type::none;
}

// SKEP-4004 with everything that is there.
Status CheckNothingThere(const Places& places) {
  std::string there;
  std::size_t keys = 0;
  for (const fs::path& path : places.Files()) {
    if (!IsThere(path)) continue;
    if (path.parent_path() == places.store / "pki") {
      ++keys;
    } else {
      there += (there.empty() ? "" : ", ") + path.string();
    }
  }
  if (keys > 0) {
    there += (there.empty() ? "" : ", ") + std::to_string(keys) + " keys and certificates in " +
             (places.store / "pki").string();
  }
  if (there.empty()) return Ok();
  std::string whose;
  if (const auto authority = crypto::Certificate::Load(places.Pki("server-ca.crt").string())) {
    whose = " of \"" + authority->Subject() + "\"";
  }
  return Error{4004, "there is an installation" + whose + " already: " + there,
               "nothing was changed; serve it with --config " + places.config.string() +
                   ", or choose another --dir"};
}

Status MakeFolder(const fs::path& folder, Made& made) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return Ok();
  SKEP_TRY(MakeFolder(folder.parent_path(), made));
  if (::mkdir(folder.c_str(), 0700) != 0) {
    return Error{4001, "cannot make " + folder.string() + ": " + SystemReason(errno), ""};
  }
  made.Add(folder);
  return Ok();
}

Status WriteText(const fs::path& path, const std::string& text, mode_t mode, Made& made) {
  made.Add(path);
  SKEP_TRY(WriteFileAtomically(path.string(), AsBytes(text)));
  if (::chmod(path.c_str(), mode) == 0) return Ok();
  return Error{4001, "cannot set the mode of " + path.string() + ": " + SystemReason(errno), ""};
}

Status StoreAuthority(const Places& places, const char* certificate, const char* key,
                      const crypto::Authority& authority, Made& made) {
  made.Add(places.Pki(key));
  SKEP_TRY(authority.key().Store(places.Pki(key).string()));
  return WriteText(places.Pki(certificate), authority.certificate().ToPem(), 0644, made);
}

Result<Federation> MakeFederation(const Places& places, Made& made) {
  const WallMs now = ReadClock().wall;
  Federation federation;
  SKEP_ASSIGN(federation.id, crypto::RandomId<FederationId>());
  using crypto::Authority;
  using crypto::AuthorityKind;
  SKEP_ASSIGN(const auto servers, Authority::Make(AuthorityKind::kServer, federation.id, now));
  SKEP_ASSIGN(const auto devices, Authority::Make(AuthorityKind::kDevice, federation.id, now));
  SKEP_TRY(StoreAuthority(places, "server-ca.crt", "server-ca.key", servers, made));
  SKEP_TRY(StoreAuthority(places, "device-ca.crt", "device-ca.key", devices, made));

  SKEP_ASSIGN(const auto key, crypto::PrivateKey::MakeP256());
  federation.certificate_ends =
      now + static_cast<WallMs>(crypto::kServerCertificateLifetime.count());
  const crypto::Validity validity{servers.certificate().NotBefore(), federation.certificate_ends};
  SKEP_ASSIGN(const auto certificate, servers.IssueServer(key, Hosts(places.toml.host), validity));
  made.Add(places.Pki("server.key"));
  SKEP_TRY(key.Store(places.Pki("server.key").string()));
  SKEP_TRY(WriteText(places.Pki("server.crt"), certificate.ToPem(), 0644, made));

  SKEP_ASSIGN(const auto signing, crypto::SigningKey::Make());
  made.Add(places.Pki("manifest.key"));
  SKEP_TRY(signing.Store(places.Pki("manifest.key").string()));
  SKEP_ASSIGN(const auto store, SqliteStore::Create(places.store.string(), federation.id, now));
  for (const char* name : {"skep.db", "skep.db-wal", "skep.db-shm", "LOCK"}) {
    made.Add(places.store / name);
  }
  SKEP_TRY(store->SetSigningKey(signing.public_key()));
  return federation;
}

Result<Federation> Init(const Places& places) {
  SKEP_TRY(CheckHost(places.toml.host));
  SKEP_TRY(CheckNothingThere(places));
  Made made;
  SKEP_TRY(MakeFolder(places.store / "pki", made));
  SKEP_TRY(MakeFolder(places.config.parent_path(), made));
  SKEP_ASSIGN(const Federation federation, MakeFederation(places, made));
  // Last: without it nothing can be served, so that an init that was cut short shows.
  SKEP_TRY(WriteText(places.config, FormatServerToml(places.toml), 0640, made));
  made.Keep();
  return federation;
}

}  // namespace

int RunInit(const GlobalOptions& options, const InitOptions& init) {
  if (const Status user = CheckUser(options); !user) return Fail(options, user.error());
  const Places places = PlacesFor(options, init);
  const Result<Federation> made = Init(places);
  if (!made) return Fail(options, made.error());
  const std::string id = made->id.Hex();
  const std::string until = DayText(made->certificate_ends);
  std::string text = "created federation " + ShortId(id) +
                     "  server CA, device CA, server certificate (until " + until +
                     "), manifest key\n";
  GlobalOptions next = options;
  next.config = places.config.string();
  next.is_config_given = next.config != GlobalOptions().config;
  // The service reads the default place.
  text += "next: " +
          (next.is_config_given ? Runnable(next, "skep-aggregator serve")
                                : std::string("sudo systemctl enable --now skep-aggregator")) +
          "\n";
  const boost::json::object data{{"federation", id},
                                 {"config", places.config.string()},
                                 {"store", places.store.string()},
                                 {"certificate_ends_ms", made->certificate_ends}};
  return Succeed(options, data, text);
}

}  // namespace skep::aggregator
