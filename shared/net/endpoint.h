// Endpoint: a host and a port, as people write them, and what people are told when nobody can be
// reached there.
//
// Text only: nothing is resolved or connected here. Any thread. Source: Skep interfaces, section 5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::net {

struct Endpoint {
  std::string host;  // a name or an address; IPv6 without brackets
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "agg.example:8443", "192.0.2.1:0", "[::1]:8443". Nothing for other text; port 0 is for the caller
// to judge.
[[nodiscard]] std::optional<Endpoint> ParseEndpoint(std::string_view text);
[[nodiscard]] std::string EndpointText(const Endpoint& endpoint);

// The address that means "all of this machine's" to a listener and nothing to a client: 0.0.0.0 or
// ::, however written.
[[nodiscard]] bool IsWildcard(const std::string& host);

// SKEP-3001 if it is a wildcard or has port 0: then there is nothing to try.
[[nodiscard]] Status CheckReachable(const Endpoint& endpoint);

// SKEP-3001, "cannot reach HOST:PORT: cause", for an error number of the system and for a wait that
// was too long.
[[nodiscard]] Error Unreachable(const Endpoint& endpoint, int system_error);
[[nodiscard]] Error TimedOut(const Endpoint& endpoint, Milliseconds limit);
// "3 s", "250 ms".
[[nodiscard]] std::string LimitText(Milliseconds limit);

// SKEP-3002, "name not found: HOST: why".
[[nodiscard]] Error NotFound(const Endpoint& endpoint, const std::string& why);
[[nodiscard]] Error NotFoundIn(const Endpoint& endpoint, Milliseconds limit);

}  // namespace skep::net
