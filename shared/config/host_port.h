// HOST:PORT as it stands in configurations: read, and recognised where it cannot work.
//
// No name is looked up here. Pure functions, any thread. Source: docs/reference/server.md
// ([listen]).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace skep::config {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  std::uint16_t port = 0;
};
// "host:8443", "[::1]:8443", "127.0.0.1:0"; nothing for another form.
[[nodiscard]] std::optional<HostPort> ParseHostPort(std::string_view text);
// 0.0.0.0, [::] and their other spellings: to listen on, never to connect to.
[[nodiscard]] bool IsWildcardHost(std::string_view host);
// localhost and the loopback addresses.
[[nodiscard]] bool IsLoopbackHost(std::string_view host);

}  // namespace skep::config
