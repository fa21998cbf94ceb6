#include "aggregator/server/commands/server_toml.h"

#include <fmt/format.h>

#include "shared/config/value.h"

namespace skep::aggregator {
namespace {

std::string HostPortText(const std::string& host, unsigned port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
}

constexpr const char* kTemplate =
    R"(# Skep aggregator. Any key: skep-aggregator config explain KEY. This file: skep-aggregator check.
schema = 1

[listen]
# Mutual TLS for devices, and enrolment by join strings ("" = none). Port 0: a free one, which is
# kept for later starts.
devices = {devices}
enrol = {enrol}
# What devices are told to connect to. The host must be in the server certificate; port 0 stands
# for the one above.
advertise_devices = {advertise_devices}
advertise_enrol = {advertise_enrol}
# For the commands of this program; mode 0660. Relative paths are below the store.
admin_socket = {socket}

[store]
# Database, models and, in pki/, the keys. A relative path is below this file's folder.
directory = {store}

[enrolment]
# certificate_lifetime = "30d"
# token_ttl = "7d"

[limits]
# max_connections = 12000
# max_update_bytes = "64MiB"

[log]
# format = "text"
# level = "info"
)";

}  // namespace

std::string FormatServerToml(const ServerToml& values) {
  const auto quoted = [](const std::string& text) { return config::ToToml(config::Value(text)); };
  const bool is_ipv6 = values.host.find(':') != std::string::npos;
  const std::string everywhere = is_ipv6 ? "::" : "0.0.0.0";
  const std::string here = is_ipv6 ? "::1" : "127.0.0.1";
  const std::string& bound = values.is_loopback ? here : everywhere;
  std::string text = fmt::format(
      kTemplate, fmt::arg("devices", quoted(HostPortText(bound, values.devices_port))),
      fmt::arg("enrol", quoted(HostPortText(bound, values.enrol_port))),
      fmt::arg("socket", quoted(values.admin_socket)),
      fmt::arg("advertise_devices", quoted(HostPortText(values.host, values.devices_port))),
      fmt::arg("advertise_enrol", quoted(HostPortText(values.host, values.enrol_port))),
      fmt::arg("store", quoted(values.store)));
  return text;
}

}  // namespace skep::aggregator
