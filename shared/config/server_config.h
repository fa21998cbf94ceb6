// ServerConfig: server.toml as typed values, and the checks that need nothing but the file.
//
// Certificates, keys, addresses in use and the clock are judged by the server itself. Plain values,
// any thread. Source: docs/reference/server.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/config/experiment.h"
#include "shared/config/host_port.h"

namespace skep::config {

// Paths are joined with the store's folder where they are relative; "credential:NAME" stays as
// written.
struct ServerConfig {
  struct Listen {
    std::string devices, enrol, est;  // ADDRESS:PORT; "" = no listener
    std::string admin_socket, admin;
    std::vector<std::string> trusted_proxies;
    std::string advertise_devices, advertise_enrol;  // HOST:PORT, or ""
    std::uint32_t backlog = 4096;
  } listen;
  struct Tls {
    std::string certificate, private_key, server_ca, device_ca, device_ca_key, crl;
    Nanoseconds crl_refresh{}, handshake_deadline{};
    std::uint32_t max_handshakes = 64, handshakes_per_address = 8;
  } tls;
  std::string signing_key;
  struct Enrolment {
    bool enabled = true;
    Nanoseconds certificate_lifetime{}, clock_skew{}, token_ttl{};
    double renew_after = 0.5, renew_jitter = 0.1;
    std::uint32_t max_devices = 100'000, attempts_per_address = 10;
  } enrolment;
  struct Session {
    Nanoseconds first_frame_deadline{}, header_deadline{}, ping_interval{}, ping_deadline{},
        idle_limit{};
    Nanoseconds max_hold{}, absent_after{}, offer_ttl{}, progress_interval{}, progress_lease{},
        reconnect_spread{};
    std::uint32_t max_held = 1000, messages_per_second = 50, message_burst = 200, min_minor = 0;
    bool detach = true;
  } session;
  struct Limits {
    std::uint32_t max_connections = 12'000, connections_per_address = 1024;
    std::uint64_t connection_memory = 0, transfer_memory = 0, send_queue = 0;
    std::uint32_t concurrent_uploads = 1024, concurrent_downloads = 1024;
    std::uint64_t max_update_bytes = 0, max_model_bytes = 0;
    std::uint32_t upload_bytes_factor = 3, engine_queue = 65'536;
  } limits;
  struct Transfer {
    std::uint64_t chunk_bytes = 0, min_rate = 0, progress_every = 0;  // min_rate: bytes per second
    Nanoseconds rate_window{};
    bool is_min_rate_given = false;
  } transfer;
  struct Pace {
    double headroom = 1.5, small_factor = 4;
    Nanoseconds min_return{}, max_return{}, overload_return{};
  } pace;
  struct Admission {
    std::uint32_t strikes = 3;
    Nanoseconds quarantine{};
  } admission;
  struct Store {
    std::string directory;
    Nanoseconds group_delay{};
    std::uint32_t group_max = 512, keep_rounds = 100;
    std::uint64_t segment_bytes = 0, wal_limit = 0, low_disk = 0, critical_disk = 0, ballast = 0;
    bool keep_updates = false;
  } store;
  std::uint32_t compute_workers = 0, io_workers = 1;  // 0: one per CPU
  struct Admin {
    std::string group, token_file, client_ca;
    std::vector<std::string> allow_hosts;
    std::uint32_t max_event_streams = 32, event_buffer = 10'000;
  } admin;
  struct Metrics {
    bool enabled = true;
    std::string path;
  } metrics;
  struct Logging {
    std::string format, level, addresses;  // text, json; debug..error; full, truncate, none
    std::uint32_t rate = 200;
  } log;
  Nanoseconds drain{}, engine_stall{};
};

// Notes hold the warnings (SKEP-5207). Relative paths are below store.directory; a relative
// store.directory is below the folder of the file.
[[nodiscard]] Validated<Loaded<ServerConfig>> LoadServerConfig(const std::string& path);
[[nodiscard]] Validated<Loaded<ServerConfig>> ParseServerConfig(const std::string& text,
                                                                const std::string& path);

}  // namespace skep::config
