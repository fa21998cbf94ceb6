#include "shared/config/host_port.h"

#include <charconv>

namespace skep::config {

std::optional<HostPort> ParseHostPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  // A name has no colon; an IPv6 address without brackets would leave its port in doubt.
  constexpr std::string_view kName =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  constexpr std::string_view kAddress = "0123456789abcdefABCDEF:.%";
  const std::string_view allowed = is_bracketed ? kAddress : kName;
  if (host.empty() || host.size() > 253 ||
      host.find_first_not_of(allowed) != std::string_view::npos)
    return std::nullopt;
  HostPort parsed{.host = std::string(host), .port = 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
  if (error != std::errc{} || port.empty() || end != port.data() + port.size()) return std::nullopt;
  return parsed;
}

bool IsWildcardHost(std::string_view host) {
  // Every spelling of the zero address: 0.0.0.0, ::, 0:0:0:0:0:0:0:0, ::0, 0.
  return !host.empty() && host.find_first_not_of("0:.") == std::string_view::npos;
}

bool IsLoopbackHost(std::string_view host) {
  return host == "localhost" || host == "::1" || host.substr(0, 4) == "127.";
}

}  // namespace skep::config
