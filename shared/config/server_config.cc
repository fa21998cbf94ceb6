#include "shared/config/server_config.h"

#include <array>

#include <fmt/format.h>

#include "shared/config/experiment_values.h"
#include "shared/config/reader.h"

namespace skep::config {
namespace {

std::uint32_t Small(const Effective& e, std::string_view path) {
  return static_cast<std::uint32_t>(e.Whole(path));
}

void Add(Reading& reading, int code, std::string message, std::string hint = {}) {
  reading.problems.push_back(
      {.code = code, .message = std::move(message), .hint = std::move(hint)});
}

// False if the address was reported as malformed.
bool CheckAddress(Reading& reading, std::string_view path) {
  const std::string& text = reading.effective.Text(path);
  if (text.empty() || ParseHostPort(text)) return true;
  Add(reading, 5202, fmt::format("{} \"{}\": not ADDRESS:PORT", path, text));
  return false;
}

bool IsOnLoopback(const std::string& address) {
  const auto parsed = ParseHostPort(address);
  return parsed && IsLoopbackHost(parsed->host);
}

void CheckAdvertised(Reading& reading, std::string_view path, std::string_view listener) {
  const std::string& text = reading.effective.Text(path);
  if (!CheckAddress(reading, path) || text.empty()) return;
  const std::string host = ParseHostPort(text)->host;
  if (IsWildcardHost(host)) {
    Add(reading, 5213,
        fmt::format("{} \"{}\" is an address to listen on; devices need one to connect to", path,
                    text));
  } else if (IsLoopbackHost(host) && !IsOnLoopback(reading.effective.Text(listener))) {
    // Who listens on this machine alone means it. Port 0 is not known yet.
    const std::string shown = ParseHostPort(text)->port == 0 ? host : text;
    reading.notes.push_back(
        {.code = 5207,
         .text = fmt::format("{} \"{}\" cannot be reached from other machines", path, shown)});
  }
}

void CheckListeners(Reading& reading) {
  const Effective& e = reading.effective;
  for (const std::string_view path :
       {"listen.devices", "listen.enrol", "listen.est", "listen.admin"}) {
    if (reading.IsSound({path})) (void)CheckAddress(reading, path);
  }
  if (reading.IsSound({"listen.advertise_devices"})) {
    CheckAdvertised(reading, "listen.advertise_devices", "listen.devices");
  }
  if (reading.IsSound({"listen.advertise_enrol"})) {
    CheckAdvertised(reading, "listen.advertise_enrol", "listen.enrol");
  }
  const std::string& devices = e.Text("listen.devices");
  const auto parsed = ParseHostPort(devices);
  // Port 0 is a free one, another for each listener.
  if (parsed && parsed->port != 0 && devices == e.Text("listen.enrol")) {
    Add(reading, 5204, "listen.devices and listen.enrol are the same address");
  }
  if (!e.Text("listen.admin").empty() && e.Text("admin.token_file").empty() &&
      e.Text("admin.client_ca").empty()) {
    Add(reading, 5203, "listen.admin is set but neither admin.token_file nor admin.client_ca",
        "set one, or use the socket");
  }
}

void CheckPair(Reading& reading, std::string_view a, std::string_view b) {
  const bool has_a = reading.effective.IsGiven(a);
  if (has_a == reading.effective.IsGiven(b)) return;
  reading.AddAtKey(has_a ? a : b, {.code = 1103,
                                   .message = fmt::format("\"{}\" is set but \"{}\" is not",
                                                          has_a ? a : b, has_a ? b : a),
                                   .hint = "set both or neither"});
}

std::string KibibytesText(std::uint64_t bytes) {
  return fmt::format("{} KiB", bytes / 1024);
}

void CheckMemory(Reading& reading) {
  const Effective& e = reading.effective;
  if (!reading.IsSound({"limits.connection_memory", "transfer.chunk_bytes"})) return;
  const std::uint64_t memory = e.Size("limits.connection_memory");
  const std::uint64_t needed = e.Size("transfer.chunk_bytes") + 128 * 1024;
  if (memory >= needed) return;
  const bool is_memory_given = e.IsGiven("limits.connection_memory");
  reading.AddAtKey(
      is_memory_given ? "limits.connection_memory" : "transfer.chunk_bytes",
      {.code = 1103,
       .message = fmt::format(
           "\"limits.connection_memory\" ({}) is below \"transfer.chunk_bytes\" + 128 KiB ({})",
           KibibytesText(memory), KibibytesText(needed))});
}

void CheckServer(Reading& reading) {
  const Effective& e = reading.effective;
  CheckListeners(reading);
  CheckPair(reading, "tls.certificate", "tls.private_key");
  CheckMemory(reading);
  if (reading.IsSound({"enrolment.enabled"}) && e.Boolean("enrolment.enabled") &&
      e.Text("tls.device_ca_key").empty()) {
    Add(reading, 5110, "enrolment.enabled is true but tls.device_ca_key is empty",
        "set the key or enabled = false");
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOrdered{
      {{"pace.min_return", "pace.max_return"},
       {"session.progress_interval", "session.progress_lease"}}};
  for (const auto& [low, high] : kOrdered) {
    if (reading.IsSound({low, high}) && e.Duration(low) > e.Duration(high))
      AddExcess(reading, low, high);
  }
  if (reading.IsSound({"store.low_disk", "store.critical_disk"}) &&
      e.Size("store.critical_disk") > e.Size("store.low_disk"))
    AddExcess(reading, "store.critical_disk", "store.low_disk");
}

// "credential:NAME" names a secret of the service manager, not a path.
std::string PathIn(const std::string& store, const std::string& text) {
  return text.substr(0, 11) == "credential:" ? text : PathBelow(store, text);
}

void FillAddresses(const Effective& e, ServerConfig& server) {
  server.listen.devices = e.Text("listen.devices");
  server.listen.enrol = e.Text("listen.enrol");
  server.listen.est = e.Text("listen.est");
  server.listen.admin_socket = PathBelow(server.store.directory, e.Text("listen.admin_socket"));
  server.listen.admin = e.Text("listen.admin");
  server.listen.trusted_proxies = e.Texts("listen.trusted_proxies");
  server.listen.advertise_devices = e.Text("listen.advertise_devices");
  server.listen.advertise_enrol = e.Text("listen.advertise_enrol");
  server.listen.backlog = Small(e, "listen.backlog");
}

void FillIdentity(const Effective& e, ServerConfig& server) {
  const std::string& store = server.store.directory;
  auto& tls = server.tls;
  tls.certificate = PathIn(store, e.Text("tls.certificate"));
  tls.private_key = PathIn(store, e.Text("tls.private_key"));
  tls.server_ca = PathIn(store, e.Text("tls.server_ca"));
  tls.device_ca = PathIn(store, e.Text("tls.device_ca"));
  tls.device_ca_key = PathIn(store, e.Text("tls.device_ca_key"));
  tls.crl = PathIn(store, e.Text("tls.crl"));
  tls.crl_refresh = e.Duration("tls.crl_refresh");
  tls.handshake_deadline = e.Duration("tls.handshake_deadline");
  tls.max_handshakes = Small(e, "tls.max_handshakes");
  tls.handshakes_per_address = Small(e, "tls.handshakes_per_address");
  server.signing_key = PathIn(store, e.Text("signing.key"));
  auto& enrolment = server.enrolment;
  enrolment.enabled = e.Boolean("enrolment.enabled");
  enrolment.certificate_lifetime = e.Duration("enrolment.certificate_lifetime");
  enrolment.clock_skew = e.Duration("enrolment.clock_skew");
  enrolment.token_ttl = e.Duration("enrolment.token_ttl");
  enrolment.renew_after = e.Number("enrolment.renew_after");
  enrolment.renew_jitter = e.Number("enrolment.renew_jitter");
  enrolment.max_devices = Small(e, "enrolment.max_devices");
  enrolment.attempts_per_address = Small(e, "enrolment.attempts_per_address");
}

void FillSession(const Effective& e, ServerConfig::Session& session) {
  session.first_frame_deadline = e.Duration("session.first_frame_deadline");
  session.header_deadline = e.Duration("session.header_deadline");
  session.ping_interval = e.Duration("session.ping_interval");
  session.ping_deadline = e.Duration("session.ping_deadline");
  session.idle_limit = e.Duration("session.idle_limit");
  session.max_hold = e.Duration("session.max_hold");
  session.absent_after = e.Duration("session.absent_after");
  session.offer_ttl = e.Duration("session.offer_ttl");
  session.progress_interval = e.Duration("session.progress_interval");
  session.progress_lease = e.Duration("session.progress_lease");
  session.reconnect_spread = e.Duration("session.reconnect_spread");
  session.max_held = Small(e, "session.max_held");
  session.messages_per_second = Small(e, "session.messages_per_second");
  session.message_burst = Small(e, "session.message_burst");
  session.min_minor = Small(e, "session.min_minor");
  session.detach = e.Boolean("session.detach");
}

void FillLimits(const Effective& e, ServerConfig& server) {
  auto& limits = server.limits;
  limits.max_connections = Small(e, "limits.max_connections");
  limits.connections_per_address = Small(e, "limits.connections_per_address");
  limits.connection_memory = e.Size("limits.connection_memory");
  limits.transfer_memory = e.Size("limits.transfer_memory");
  limits.send_queue = e.Size("limits.send_queue");
  limits.concurrent_uploads = Small(e, "limits.concurrent_uploads");
  limits.concurrent_downloads = Small(e, "limits.concurrent_downloads");
  limits.max_update_bytes = e.Size("limits.max_update_bytes");
  limits.max_model_bytes = e.Size("limits.max_model_bytes");
  limits.upload_bytes_factor = Small(e, "limits.upload_bytes_factor");
  limits.engine_queue = Small(e, "limits.engine_queue");
  server.transfer = {.chunk_bytes = e.Size("transfer.chunk_bytes"),
                     .min_rate = e.Size("transfer.min_rate"),
                     .progress_every = e.Size("transfer.progress_every"),
                     .rate_window = e.Duration("transfer.rate_window"),
                     .is_min_rate_given = e.IsGiven("transfer.min_rate")};
  server.pace = {.headroom = e.Number("pace.headroom"),
                 .small_factor = e.Number("pace.small_factor"),
                 .min_return = e.Duration("pace.min_return"),
                 .max_return = e.Duration("pace.max_return"),
                 .overload_return = e.Duration("pace.overload_return")};
  server.admission = {.strikes = Small(e, "admission.strikes"),
                      .quarantine = e.Duration("admission.quarantine")};
}

void FillStore(const Effective& e, const std::string& folder, ServerConfig::Store& store) {
  store.directory = PathBelow(folder, e.Text("store.directory"));
  store.group_delay = e.Duration("store.group_delay");
  store.group_max = Small(e, "store.group_max");
  store.keep_rounds = Small(e, "store.keep_rounds");
  store.segment_bytes = e.Size("store.segment_bytes");
  store.wal_limit = e.Size("store.wal_limit");
  store.low_disk = e.Size("store.low_disk");
  store.critical_disk = e.Size("store.critical_disk");
  store.ballast = e.Size("store.ballast");
  store.keep_updates = e.Boolean("store.keep_updates");
}

void FillService(const Effective& e, ServerConfig& server) {
  const std::string& store = server.store.directory;
  server.compute_workers = Small(e, "workers.compute");
  server.io_workers = Small(e, "workers.io");
  server.admin = {.group = e.Text("admin.group"),
                  .token_file = PathIn(store, e.Text("admin.token_file")),
                  .client_ca = PathIn(store, e.Text("admin.client_ca")),
                  .allow_hosts = e.Texts("admin.allow_hosts"),
                  .max_event_streams = Small(e, "admin.max_event_streams"),
                  .event_buffer = Small(e, "admin.event_buffer")};
  server.metrics = {.enabled = e.Boolean("metrics.enabled"), .path = e.Text("metrics.path")};
  server.log = {.format = e.Text("log.format"),
                .level = e.Text("log.level"),
                .addresses = e.Text("log.addresses"),
                .rate = Small(e, "log.rate")};
  server.drain = e.Duration("service.drain");
  server.engine_stall = e.Duration("service.engine_stall");
}

}  // namespace

Validated<Loaded<ServerConfig>> ParseServerConfig(const std::string& text,
                                                  const std::string& path) {
  Reading reading = ReadConfiguration(ServerSchema(), text, path, {});
  if (!reading.is_readable) return std::move(reading.problems);
  ApplyConditions(reading);
  CheckServer(reading);
  if (!reading.problems.empty()) {
    SortProblems(reading.problems);
    return std::move(reading.problems);
  }
  const Effective& e = reading.effective;
  ServerConfig server;
  FillStore(e, FolderOf(path), server.store);
  FillAddresses(e, server);
  FillIdentity(e, server);
  FillSession(e, server.session);
  FillLimits(e, server);
  FillService(e, server);
  return Loaded<ServerConfig>{std::move(server), std::move(reading.effective),
                              std::move(reading.notes)};
}

Validated<Loaded<ServerConfig>> LoadServerConfig(const std::string& path) {
  const auto text = ReadConfigurationFile(path);
  if (!text) return text.problems();
  return ParseServerConfig(*text, path);
}

}  // namespace skep::config
