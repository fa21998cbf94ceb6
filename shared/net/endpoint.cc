#include "shared/net/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "shared/base/file.h"

namespace skep::net {
namespace {

constexpr std::size_t kLongestHost = 253;

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= kLongestHost &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '-';
         });
}

bool IsIpv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

Error CannotReach(const Endpoint& endpoint, const std::string& cause, const std::string& hint) {
  return Error{3001, "cannot reach " + EndpointText(endpoint) + ": " + cause, hint};
}

}  // namespace

std::optional<Endpoint> ParseEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view port = text.substr(colon + 1);
  Endpoint endpoint;
  const auto [end, failure] =
      std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (failure != std::errc() || end != port.data() + port.size()) return std::nullopt;
  if (port.size() > 1 && port.front() == '0') return std::nullopt;
  const std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    endpoint.host = host.substr(1, host.size() - 2);
    if (!IsIpv6(endpoint.host)) return std::nullopt;
    return endpoint;
  }
  if (!IsHostName(host)) return std::nullopt;
  endpoint.host = host;
  return endpoint;
}

std::string EndpointText(const Endpoint& endpoint) {
  const bool needs_brackets = endpoint.host.find(':') != std::string::npos;
  const std::string host = needs_brackets ? "[" + endpoint.host + "]" : endpoint.host;
  return host + ":" + std::to_string(endpoint.port);
}

bool IsWildcard(const std::string& host) {
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return four.s_addr == INADDR_ANY;
  in6_addr six{};
  if (inet_pton(AF_INET6, host.c_str(), &six) != 1) return false;
  return std::memcmp(&six, &in6addr_any, sizeof(six)) == 0;
}

Status CheckReachable(const Endpoint& endpoint) {
  if (IsWildcard(endpoint.host)) {
    return CannotReach(endpoint,
                       endpoint.host + " is an address to listen on, not one to connect to",
                       "use the aggregator's name, or 127.0.0.1 on the same machine");
  }
  if (endpoint.port == 0) {
    return CannotReach(endpoint, "0 is not a port to connect to",
                       "use the port that the aggregator printed at its start");
  }
  return Ok();
}

Error Unreachable(const Endpoint& endpoint, int system_error) {
  if (system_error == ECONNREFUSED) {
    return CannotReach(endpoint, "connection refused",
                       "nothing listens there: is the aggregator running, and is it this port?");
  }
  if (system_error == ETIMEDOUT) {
    return CannotReach(endpoint, "timed out", "a firewall may drop what is sent to this port");
  }
  return CannotReach(endpoint, SystemReason(system_error),
                     "check the network between the two machines");
}

std::string LimitText(Milliseconds limit) {
  const auto count = limit.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

Error TimedOut(const Endpoint& endpoint, Milliseconds limit) {
  return CannotReach(endpoint, "timed out after " + LimitText(limit),
                     "a firewall may drop what is sent to this port");
}

Error NotFound(const Endpoint& endpoint, const std::string& why) {
  return Error{3002, "name not found: " + endpoint.host + ": " + why,
               "check the spelling and this machine's name service"};
}

Error NotFoundIn(const Endpoint& endpoint, Milliseconds limit) {
  return NotFound(endpoint, "no answer within " + LimitText(limit));
}

}  // namespace skep::net
