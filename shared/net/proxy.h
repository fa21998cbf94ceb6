// Proxy: how a device asks an HTTP proxy for a connection to its aggregator (CONNECT), and what the
// proxy answers.
//
// Text only; connect.cc moves the bytes. Takes nothing from the environment and sends no
// credentials. What then goes through the proxy is TLS with the aggregator, judged as if there were
// no proxy. Any thread. Source: RFC 9110, sections 9.3.6 and 15; RFC 9112, sections 2 to 4.
#pragma once

#include <string>
#include <string_view>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/net/endpoint.h"

namespace skep::net {

// "http://HOST:PORT", HOST and PORT as in ParseEndpoint. SKEP-1102 for another scheme, a user name
// (which is not repeated in the message), a path, a missing port, or an address to listen on.
[[nodiscard]] Result<Endpoint> ParseProxy(std::string_view text);

struct ProxyRoute {
  Endpoint proxy;
  Endpoint target;
};

// Request line, Host, empty line. The target's host goes in as it is: one of ParseEndpoint's.
[[nodiscard]] std::string ConnectRequest(const Endpoint& target);

// SKEP-3003, "cannot reach TARGET: the proxy HOST:PORT cause".
[[nodiscard]] Error ProxyFault(const ProxyRoute& route, const std::string& cause,
                               const std::string& hint);
// SKEP-3003 for a proxy that itself was not reached, because of `why`.
[[nodiscard]] Error ProxyUnreachable(const ProxyRoute& route, const Error& why);

// The head of the proxy's answer, as its bytes come.
class ProxyAnswer {
 public:
  static constexpr std::size_t kLongest = 8192;

  explicit ProxyAnswer(ProxyRoute route) : route_(std::move(route)) {}

  // How many of `bytes` belong to the head; those behind it are the aggregator's. SKEP-3003 as soon
  // as it is clear that the connection does not come about: refused, credentials wanted, no HTTP,
  // too long.
  [[nodiscard]] Result<std::size_t> Take(BytesView bytes);
  // The head is whole, and the connection stands.
  [[nodiscard]] bool is_done() const { return is_done_; }

 private:
  [[nodiscard]] Status Judge();
  [[nodiscard]] Error NoHttp() const;

  ProxyRoute route_;
  std::string head_;
  std::size_t taken_ = 0;  // with interim answers
  bool is_done_ = false;
};

}  // namespace skep::net
