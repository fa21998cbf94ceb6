#include "shared/net/proxy.h"

#include <algorithm>

#include "shared/base/log.h"
#include "shared/base/try.h"

namespace skep::net {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::string_view kVersion = "HTTP/1.";
constexpr std::size_t kStatusAt = 9;  // "HTTP/1.1 200"
constexpr std::size_t kStatusEnd = 12;

Error NoProxy(const std::string& why) {
  return Error{1102, "proxy: " + why, "give http://HOST:PORT"};
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// "HTTP/1.x NNN", and a space before what may follow.
bool IsStatusLine(std::string_view line) {
  return line.size() >= kStatusEnd && line.starts_with(kVersion) && IsDigit(line[7]) &&
         line[8] == ' ' &&
         std::all_of(line.begin() + kStatusAt, line.begin() + kStatusEnd, IsDigit) &&
         (line.size() == kStatusEnd || line[kStatusEnd] == ' ');
}

std::string_view FirstLine(std::string_view head) {
  std::string_view line = head.substr(0, head.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

Result<Endpoint> ParseProxy(std::string_view text) {
  // Before anything of it is repeated: a password may stand there.
  if (text.find('@') != std::string_view::npos) {
    return NoProxy("a user name and a password are not supported");
  }
  const std::string shown = "\"" + EscapePeerText(text) + "\"";
  if (!text.starts_with(kScheme)) return NoProxy(shown + " does not begin with http://");
  text.remove_prefix(kScheme.size());
  if (text.find_first_of("/?#") != std::string_view::npos) {
    return NoProxy(shown + " has something behind its port");
  }
  const auto endpoint = ParseEndpoint(text);
  if (!endpoint) return NoProxy(shown + " is not http://HOST:PORT");
  if (endpoint->port == 0 || IsWildcard(endpoint->host)) {
    return NoProxy(shown + " cannot be connected to");
  }
  return *endpoint;
}

std::string ConnectRequest(const Endpoint& target) {
  const std::string place = EndpointText(target);
  return "CONNECT " + place + " HTTP/1.1\r\nHost: " + place + "\r\n\r\n";
}

Error ProxyFault(const ProxyRoute& route, const std::string& cause, const std::string& hint) {
  return Error{3003,
               "cannot reach " + EndpointText(route.target) + ": the proxy " +
                   EndpointText(route.proxy) + " " + cause,
               hint};
}

Error ProxyUnreachable(const ProxyRoute& route, const Error& why) {
  return Error{3003, "cannot reach " + EndpointText(route.target) + ": its proxy: " + why.message,
               "is this the proxy's address, and does it run?"};
}

Result<std::size_t> ProxyAnswer::Take(BytesView bytes) {
  std::size_t count = 0;
  while (count < bytes.size() && !is_done_) {
    head_ += static_cast<char>(bytes[count++]);
    // What speaks first, or another language, may wait for us for ever.
    if (head_.size() <= kVersion.size() && !kVersion.starts_with(head_)) return NoHttp();
    if (head_.ends_with("\n\r\n") || head_.ends_with("\n\n")) {
      SKEP_TRY(Judge());
    } else if (++taken_ >= kLongest) {
      return ProxyFault(route_, "answers with more than " + std::to_string(kLongest) + " bytes",
                        "is this a proxy, and is it the right port?");
    }
  }
  return count;
}

Status ProxyAnswer::Judge() {
  const std::string_view line = FirstLine(head_);
  if (!IsStatusLine(line)) return NoHttp();
  const std::string_view status = line.substr(kStatusAt, kStatusEnd - kStatusAt);
  if (status.front() == '1' && status != "101") {  // an interim answer: the real one follows
    head_.clear();
    return Ok();
  }
  if (status.front() == '2') {
    is_done_ = true;
    return Ok();
  }
  if (status == "407") {
    return ProxyFault(route_, "asks for credentials, which are not supported",
                      "use a proxy that asks for none");
  }
  const std::string cause = "refuses the connection: " + EscapePeerText(line.substr(kStatusAt));
  if (status.front() == '5') {
    return ProxyFault(route_, cause,
                      "it may not reach the aggregator: is that running, and is it this port?");
  }
  return ProxyFault(route_, cause, "ask its operator to allow this host and port");
}

Error ProxyAnswer::NoHttp() const {
  return ProxyFault(route_, "does not answer as an HTTP proxy",
                    "is this a proxy, and is it the right port?");
}

}  // namespace skep::net
