#include "aggregator/server/commands/serve.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "aggregator/server/admin.h"
#include "aggregator/server/admin_socket.h"
#include "aggregator/server/commands/check.h"
#include "aggregator/server/commands/reload.h"
#include "aggregator/server/commands/text.h"
#include "aggregator/server/server.h"
#include "kernels/backend.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

using config::ServerConfig;

Result<std::optional<crypto::Authority>> DeviceAuthority(const ServerConfig& server,
                                                         const crypto::Certificate& certificate) {
  std::optional<crypto::Authority> authority;
  const std::string& path = server.tls.device_ca_key;
  if (!server.enrolment.enabled || path.empty()) return authority;
  SKEP_ASSIGN(auto key, crypto::PrivateKey::Load(path));
  SKEP_ASSIGN(authority,
              crypto::Authority::From(certificate, std::move(key), NameOf(server, path)));
  return authority;
}

Status UseSigningKey(SqliteStore& store, const wire::PublicKey& key) {
  SKEP_TRY(CheckSigningKey(store, key));
  SKEP_ASSIGN(const auto recorded, store.SigningKey());
  return recorded ? Ok() : store.SetSigningKey(key);
}

Result<std::unique_ptr<Server>> StartServer(const ServerConfig& server, std::vector<Error> warnings,
                                            Log& log) {
  using crypto::Certificate;
  SKEP_ASSIGN(auto certificate, Certificate::Load(server.tls.certificate));
  SKEP_ASSIGN(auto key, crypto::PrivateKey::Load(server.tls.private_key));
  SKEP_ASSIGN(auto server_ca, Certificate::Load(server.tls.server_ca));
  SKEP_ASSIGN(auto device_ca, Certificate::Load(server.tls.device_ca));
  SKEP_ASSIGN(auto authority, DeviceAuthority(server, device_ca));
  SKEP_ASSIGN(auto signing_key, crypto::SigningKey::Load(server.signing_key));
  SKEP_ASSIGN(auto store, SqliteStore::Open(server.store.directory, std::nullopt));
  SKEP_TRY(UseSigningKey(*store, signing_key.public_key()));
  return Server::Start({.config = server,
                        .store = std::move(store),
                        .certificate = std::move(certificate),
                        .key = std::move(key),
                        .server_ca = std::move(server_ca),
                        .device_ca = std::move(device_ca),
                        .device_authority = std::move(authority),
                        .signing_key = std::move(signing_key),
                        .warnings = std::move(warnings),
                        .isa = kernels::DetectIsa(),
                        .handles_signals = true,
                        .log = &log});
}

LogOptions LoggingOf(const ServerConfig& server) {
  LogOptions options;
  options.sink = StandardErrorSink();
  options.format = server.log.format == "json" ? LogFormat::kJson : LogFormat::kText;
  options.level = ParseLogLevel(server.log.level).value_or(LogLevel::kInfo);
  options.rate = server.log.rate;
  return options;
}

// As many files as this process may open: the check has looked at the hard limit.
void RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string ReadyText(const StatusView& status, const std::string& socket) {
  std::string text = "ready ";
  for (const ListenerView& listener : status.listeners) {
    text += " " + listener.name + " " + listener.address + " ";
  }
  return text + " admin " + socket + "  federation " + ShortId(status.federation.Hex()) + "\n";
}

// Everything that stops a start, before the store is touched.
std::vector<Error> Inspect(ServerConfig& server, std::vector<Error>& warnings) {
  std::vector<Error> errors = ResolveCredentials(server);
  InstallationProblems found = InspectInstallation(server, ReadClock().wall);
  errors.insert(errors.end(), found.errors.begin(), found.errors.end());
  warnings.insert(warnings.end(), found.warnings.begin(), found.warnings.end());
  // Recovery reads the store itself, and would be told of alone.
  const std::vector<Error> later =
      InspectStart(server, errors.empty() ? StoreDepth::kOutside : StoreDepth::kContent);
  errors.insert(errors.end(), later.begin(), later.end());
  return errors;
}

int Serve(const GlobalOptions& options, const config::Loaded<ServerConfig>& loaded,
          std::vector<Error> warnings) {
  const ServerConfig& server = loaded.value;
  Log log(LoggingOf(server));
  log.Write({.event = "service.started",
             .message = "started",
             .fields = {{"version", options.version}, {"store", server.store.directory}}});
  for (const Error& warning : warnings) log.Warning(warning.code, warning.message);
  RaiseOpenFiles();
  auto reload = std::make_optional<Reload>(options, loaded.effective, log);
  auto running = StartServer(server, std::move(warnings), log);
  if (!running) return Fail(options, running.error());
  Server& control = **running;

  const std::string socket =
      std::filesystem::path(server.listen.admin_socket).lexically_normal().string();
  AdminApi api(control, {.version = options.version, .pid = ::getpid(), .admin_socket = socket});
  auto listener =
      AdminListener::Start({.path = socket, .group = server.admin.group},
                           [&api](const AdminRequest& request) { return api.Answer(request); });
  const Result<StatusView> status = control.GetStatus();
  if (!listener || !status) {
    control.Stop(Server::StopKind::kNow);
    (void)control.Wait();
    return Fail(options, listener ? status.error() : listener.error());
  }
  PrintOut(ReadyText(*status, socket));
  (void)std::fflush(stdout);
  reload->Begin(control);
  const int code = control.Wait();
  reload.reset();
  return code;
}

}  // namespace

int RunServe(const GlobalOptions& options) {
  if (const Status user = CheckUser(options); !user) return Fail(options, user.error());
  auto loaded = config::LoadServerConfig(options.config);
  if (!loaded) return Fail(options, loaded.problems());
  std::vector<Error> warnings;
  for (const config::Note& note : loaded->notes) {
    if (note.code != 0) warnings.push_back({note.code, note.text, note.hint});
  }
  const std::vector<Error> errors = Inspect(loaded->value, warnings);
  if (!errors.empty()) return Fail(options, errors);
  return Serve(options, *loaded, std::move(warnings));
}

}  // namespace skep::aggregator
