#include "aggregator/server/commands/check.h"

#include <sys/resource.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "aggregator/server/admin_json.h"
#include "aggregator/server/admin_socket.h"
#include "aggregator/server/commands/text.h"
#include "aggregator/server/network.h"
#include "crypto/pki/authority.h"
#include "crypto/pki/inspect.h"
#include "crypto/signature.h"
#include "shared/base/try.h"
#include "shared/config/host_port.h"
#include "shared/net/endpoint.h"

namespace skep::aggregator {
namespace {

namespace fs = std::filesystem;
using config::ServerConfig;

// Files, sockets of the administration and the store beside the connections.
constexpr std::uint64_t kOwnFiles = 512;

constexpr std::string_view kCredential = "credential:";

// One that could not be resolved has been reported.
bool IsCredential(const std::string& path) {
  return path.rfind(kCredential, 0) == 0;
}

class Inspector {
 public:
  explicit Inspector(const ServerConfig& server) : server_(server) {}

  void Files(WallMs now);
  void OpenFiles();
  InstallationProblems Take() && { return std::move(found_); }

 private:
  // The value; without one its error is noted, with the file called as the operator wrote it.
  template <class T>
  std::optional<T> Value(Result<T> result, const std::string& path) {
    if (result.has_value()) return std::move(result).value();
    Error error = std::move(result).error();
    if (const std::size_t at = error.message.find(path); at != std::string::npos) {
      error.message.replace(at, path.size(), NameOf(server_, path));
    }
    found_.errors.push_back(std::move(error));
    return std::nullopt;
  }
  void DeviceAuthority(const crypto::Certificate& certificate);

  const ServerConfig& server_;
  InstallationProblems found_;
};

void Inspector::DeviceAuthority(const crypto::Certificate& certificate) {
  const std::string& path = server_.tls.device_ca_key;
  if (!server_.enrolment.enabled || path.empty() || IsCredential(path)) return;
  const auto key = Value(crypto::PrivateKey::Load(path), path);
  if (!key || certificate.BelongsTo(*key)) return;
  found_.errors.push_back(
      {5102,
       NameOf(server_, path) + " does not belong to " + NameOf(server_, server_.tls.device_ca),
       ""});
}

void Inspector::Files(WallMs now) {
  const auto& tls = server_.tls;
  using crypto::Certificate;
  const auto certificate = Value(Certificate::Load(tls.certificate), tls.certificate);
  const auto server_ca = Value(Certificate::Load(tls.server_ca), tls.server_ca);
  const auto device_ca = Value(Certificate::Load(tls.device_ca), tls.device_ca);
  std::optional<crypto::PrivateKey> key;
  if (!IsCredential(tls.private_key)) {
    key = Value(crypto::PrivateKey::Load(tls.private_key), tls.private_key);
  }
  if (device_ca) DeviceAuthority(*device_ca);
  if (!IsCredential(server_.signing_key)) {
    (void)Value(crypto::SigningKey::Load(server_.signing_key), server_.signing_key);
  }
  if (!certificate || !server_ca || !device_ca || !key) return;

  crypto::ServerFiles files{.certificate = *certificate,
                            .key = *key,
                            .server_ca = *server_ca,
                            .device_ca = *device_ca,
                            .certificate_name = NameOf(server_, tls.certificate),
                            .key_name = NameOf(server_, tls.private_key),
                            .advertised = {}};
  const auto advertise = [&files](const char* name, const std::string& text) {
    const auto parsed = config::ParseHostPort(text);
    if (parsed) files.advertised.push_back({name, parsed->host});
  };
  advertise("listen.advertise_devices", server_.listen.advertise_devices);
  advertise("listen.advertise_enrol", server_.listen.advertise_enrol);
  for (Error& problem : crypto::InspectServerFiles(files, now)) {
    auto& list = crypto::IsWarning(problem) ? found_.warnings : found_.errors;
    list.push_back(std::move(problem));
  }
}

void Inspector::OpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  // What this process may raise by itself (serve does) is no problem of the operator's.
  const std::uint64_t needed = server_.limits.max_connections + kOwnFiles;
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= needed) return;
  found_.errors.push_back(
      {5205,
       "open-file limit " + std::to_string(limit.rlim_max) + "; limits.max_connections " +
           std::to_string(server_.limits.max_connections) + " needs " + std::to_string(needed),
       "LimitNOFILE=65536"});
}

// Everything that recovery reads.
Status ReadAll(SqliteStore& store) {
  SKEP_TRY(store.CheckPages());
  SKEP_TRY(store.Load());
  SKEP_TRY(store.Devices());
  return Ok();
}

// ADDRESS:PORT as `serve` listens on it: a free port is kept from start to start.
std::string ListenAddress(const std::string& configured, std::uint16_t kept) {
  const auto parsed = net::ParseEndpoint(configured);
  if (!parsed || parsed->port != 0 || kept == 0) return configured;
  return net::EndpointText({parsed->host, kept});
}

std::string WarningText(const Error& warning) {
  return config::FormatNote({.code = warning.code, .text = warning.message, .hint = warning.hint});
}

}  // namespace

std::string NameOf(const ServerConfig& server, const std::string& path) {
  const fs::path below = fs::path(path).lexically_relative(server.store.directory);
  if (below.empty() || *below.begin() == "..") return path;
  return below.string();
}

std::vector<Error> ResolveCredentials(ServerConfig& server) {
  std::vector<Error> missing;
  const char* folder = std::getenv("CREDENTIALS_DIRECTORY");
  for (std::string* path : {&server.tls.private_key, &server.tls.device_ca_key, &server.signing_key,
                            &server.admin.token_file}) {
    if (!IsCredential(*path)) continue;
    const std::string name = path->substr(kCredential.size());
    const fs::path file = fs::path(folder == nullptr ? "" : folder) / name;
    std::error_code ignored;
    const bool is_plain = !name.empty() && name.find('/') == std::string::npos;
    if (folder != nullptr && is_plain && fs::is_regular_file(file, ignored)) {
      *path = file.string();
    } else {
      missing.push_back({5113, "credential \"" + name + "\" not found in the credentials directory",
                         "add LoadCredential= to the unit"});
    }
  }
  return missing;
}

InstallationProblems InspectInstallation(const ServerConfig& server, WallMs now) {
  Inspector inspector(server);
  inspector.Files(now);
  inspector.OpenFiles();
  return std::move(inspector).Take();
}

Status CheckSigningKey(SqliteStore& store, const wire::PublicKey& key) {
  SKEP_ASSIGN(const auto recorded, store.SigningKey());
  if (!recorded || *recorded == key) return Ok();
  return Error{5115,
               "signing.key is not the manifest key recorded in the store (" +
                   ShortId(crypto::KeyIdOf(*recorded).Hex()) + "...)",
               "restore the key"};
}

std::vector<Error> InspectStart(const ServerConfig& server, StoreDepth depth) {
  std::vector<Error> errors;
  const auto note = [&errors](const Status& status) {
    if (!status) errors.push_back(status.error());
  };
  BoundPorts ports;
  bool is_served = false;
  const auto opened = SqliteStore::OpenForReading(server.store.directory, std::nullopt);
  if (opened) {
    SqliteStore& store = **opened;
    is_served = store.is_in_use();
    if (depth == StoreDepth::kContent) note(ReadAll(store));
    if (const auto bound = store.Ports()) ports = *bound;
    const auto key = crypto::SigningKey::Load(server.signing_key);
    if (key) note(CheckSigningKey(store, key->public_key()));
  } else {
    errors.push_back(opened.error());
  }
  const auto take = [&](const Status& status) {
    if (!status && !(is_served && status.error().code == 5201)) note(status);
  };
  take(Network::Inspect("listen.devices", ListenAddress(server.listen.devices, ports.devices)));
  const bool enrols = server.enrolment.enabled && !server.tls.device_ca_key.empty();
  if (enrols && !server.listen.enrol.empty()) {
    take(Network::Inspect("listen.enrol", ListenAddress(server.listen.enrol, ports.enrol)));
  }
  take(AdminListener::Inspect(fs::path(server.listen.admin_socket).lexically_normal().string()));
  return errors;
}

int RunCheck(const GlobalOptions& options) {
  if (const Status user = CheckUser(options); !user) return Fail(options, user.error());
  auto loaded = config::LoadServerConfig(options.config);
  if (!loaded) return Fail(options, loaded.problems());
  std::vector<Error> errors = ResolveCredentials(loaded->value);
  const InstallationProblems found = InspectInstallation(loaded->value, ReadClock().wall);
  errors.insert(errors.end(), found.errors.begin(), found.errors.end());
  const std::vector<Error> later = InspectStart(loaded->value, StoreDepth::kContent);
  errors.insert(errors.end(), later.begin(), later.end());
  if (!errors.empty()) return Fail(options, errors);
  std::string text;
  for (const config::Note& note : loaded->notes) text += config::FormatNote(note);
  for (const Error& warning : found.warnings) text += WarningText(warning);
  boost::json::array notes = ToJsonArray(loaded->notes);
  const boost::json::object data{{"config", options.config},
                                 {"store", loaded->value.store.directory},
                                 {"notes", std::move(notes)},
                                 {"warnings", ToJsonArray(found.warnings)}};
  Tell(options, text);
  return Succeed(options, data, options.config + ": ok\n");
}

int RunConfigEffective(const GlobalOptions& options) {
  const auto loaded = config::LoadServerConfig(options.config);
  if (!loaded) return Fail(options, loaded.problems());
  boost::json::object data;
  for (const config::Setting& setting : loaded->effective.settings()) {
    if (!setting.value) continue;
    data[setting.key->path] = {{"value", config::ToToml(*setting.value)},
                               {"source", setting.SourceText()}};
  }
  return Deliver(options, data, loaded->effective.AsTable());
}

}  // namespace skep::aggregator
