// Connect: a TCP connection to an endpoint: its name resolved, its addresses tried, by way of a
// proxy where there is one.
//
// What goes over the connection is framed_stream.h. On the executor of the caller's coroutine.
// Source: Skep protocol 1.0, sections 13 and 19.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <optional>

#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/net/endpoint.h"

namespace skep::net {

struct ConnectLimits {
  Milliseconds resolve{3000};
  Milliseconds tcp{3000};  // for each address, with the answer of a proxy
  Milliseconds handshake{30000};
  // HTTP CONNECT by way of it: then its name alone is resolved here.
  std::optional<Endpoint> proxy{};
};

// SKEP-3002 if the name is not found, SKEP-3001 if nobody answers, SKEP-3003 where the proxy is not
// reached or does not pass the connection on.
[[nodiscard]] boost::asio::awaitable<Result<boost::asio::ip::tcp::socket>> ConnectTcp(
    Endpoint endpoint, ConnectLimits limits);

}  // namespace skep::net
