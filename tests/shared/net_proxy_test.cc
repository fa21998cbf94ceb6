// What is said to an HTTP proxy, and how its answer is read.
#include "shared/net/proxy.h"
#include "tests/support/catch.h"

namespace skep::net {
namespace {

ProxyRoute Route() {
  return {.proxy = {"proxy.test", 3128}, .target = {"agg.example", 8443}};
}

// What comes of an answer that arrives in pieces of `step` bytes.
struct Read {
  Status status = Ok();
  bool is_done = false;
  std::size_t head = 0;  // bytes that were taken
};

Read ReadIn(std::string_view text, std::size_t step) {
  Read read;
  ProxyAnswer answer(Route());
  for (std::size_t at = 0; at < text.size() && !answer.is_done(); at += step) {
    const Result<std::size_t> taken = answer.Take(AsBytes(text.substr(at, step)));
    if (!taken.has_value()) {
      read.status = taken.error();
      return read;
    }
    read.head += *taken;
  }
  read.is_done = answer.is_done();
  return read;
}

std::string Refusal(std::string_view text) {
  const Read whole = ReadIn(text, text.size());
  const Read bytewise = ReadIn(text, 1);
  REQUIRE_FALSE(whole.status.has_value());
  REQUIRE_FALSE(bytewise.status.has_value());
  CHECK(whole.status.error().code == 3003);
  CHECK_FALSE(whole.status.error().hint.empty());
  CHECK(whole.status.error().message == bytewise.status.error().message);
  return whole.status.error().message;
}

constexpr const char* kRefused = "cannot reach agg.example:8443: the proxy proxy.test:3128 ";

TEST_CASE("a proxy is http://HOST:PORT", "[unit]") {
  CHECK(ParseProxy("http://proxy.test:3128").value() == Endpoint{"proxy.test", 3128});
  CHECK(ParseProxy("http://192.0.2.1:80").value() == Endpoint{"192.0.2.1", 80});
  CHECK(ParseProxy("http://[2001:db8::1]:3128").value() == Endpoint{"2001:db8::1", 3128});
}

TEST_CASE("any other text for a proxy is refused, and the message says why", "[unit]") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "does not begin with http://"},
      {"proxy.test:3128", "does not begin with http://"},
      {"https://proxy.test:3128", "does not begin with http://"},
      {"socks5://proxy.test:1080", "does not begin with http://"},
      {"http://proxy.test:3128/", "something behind its port"},
      {"http://proxy.test:3128/path", "something behind its port"},
      {"http://proxy.test:3128?x", "something behind its port"},
      {"http://proxy.test:3128#x", "something behind its port"},
      {"http://proxy.test", "is not http://HOST:PORT"},
      {"http://:3128", "is not http://HOST:PORT"},
      {"http://proxy.test:65536", "is not http://HOST:PORT"},
      {"http://proxy test:3128", "is not http://HOST:PORT"},
      {"http://proxy.test\r\nX:3128", "\\x0d\\x0aX"},
      {"http://proxy.test:0", "cannot be connected to"},
      {"http://0.0.0.0:3128", "cannot be connected to"},
      {"http://[::]:3128", "cannot be connected to"},
  };
  for (const auto& [text, why] : cases) {
    INFO(text);
    const auto refused = ParseProxy(text);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == 1102);
    CHECK(refused.error().message.find(why) != std::string::npos);
  }
}

TEST_CASE("a password in a proxy's address is refused and not repeated", "[unit]") {
  const auto refused = ParseProxy("http://bee:hunter2@proxy.test:3128");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 1102);
  CHECK(refused.error().message == "proxy: a user name and a password are not supported");
  CHECK(refused.error().hint.find("hunter2") == std::string::npos);
}

TEST_CASE("the target goes to the proxy as it is written, IPv6 in brackets", "[unit]") {
  CHECK(ConnectRequest({"Agg.Example", 8443}) ==
        "CONNECT Agg.Example:8443 HTTP/1.1\r\nHost: Agg.Example:8443\r\n\r\n");
  CHECK(ConnectRequest({"2001:db8::1", 8443}) ==
        "CONNECT [2001:db8::1]:8443 HTTP/1.1\r\nHost: [2001:db8::1]:8443\r\n\r\n");
}

TEST_CASE("any 2xx lets through, and what follows the head is not taken", "[unit]") {
  const std::string heads[] = {
      "HTTP/1.1 200 Connection established\r\n\r\n",
      "HTTP/1.0 200 OK\r\nProxy-Agent: x\r\nContent-Length: 7\r\n\r\n",
      "HTTP/1.1 299\r\n\r\n",
      "HTTP/1.1 204 \r\nA: b\r\n\r\n",
      "HTTP/1.1 200 OK\nVia: x\n\n",
      "HTTP/1.1 100\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
  };
  for (const std::string& head : heads) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, head.size() + 100}) {
      INFO(head << " in steps of " << step);
      const Read read = ReadIn(head + "\x16\x03\x03", step);
      CHECK(read.status.has_value());
      CHECK(read.is_done);
      CHECK(read.head == head.size());
    }
  }
}

TEST_CASE("a refusal tells status and reason, escaped and cut", "[unit]") {
  CHECK(Refusal("HTTP/1.1 403 Forbidden\r\nX: y\r\n\r\n") ==
        kRefused + std::string("refuses the connection: 403 Forbidden"));
  CHECK(Refusal("HTTP/1.1 502\r\n\r\n") == kRefused + std::string("refuses the connection: 502"));
  CHECK(Refusal("HTTP/1.1 302 Moved\r\n\r\n") ==
        kRefused + std::string("refuses the connection: 302 Moved"));
  CHECK(Refusal("HTTP/1.1 101 Switching\r\n\r\n") ==
        kRefused + std::string("refuses the connection: 101 Switching"));
  CHECK(Refusal("HTTP/1.1 403 \x1b[2J\r\n\r\n") ==
        kRefused + std::string("refuses the connection: 403 \\x1b[2J"));
  CHECK(Refusal("HTTP/1.1 403 " + std::string(5000, 'n') + "\r\n\r\n").size() < 200);
}

TEST_CASE("a proxy that wants credentials is told apart", "[unit]") {
  CHECK(
      Refusal("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n") ==
      kRefused + std::string("asks for credentials, which are not supported"));
}

TEST_CASE("what is no HTTP is refused at its first wrong byte", "[unit]") {
  for (const std::string_view text :
       {std::string_view("SSH-2.0-x"), std::string_view("\x16\x03\x03\x00\x2a"),
        std::string_view("HTTP/2 200\r\n\r\n"), std::string_view("HTTX"),
        std::string_view("\r\n\r\n"), std::string_view("\0\0\0\0", 4)}) {
    CHECK(Refusal(text) == kRefused + std::string("does not answer as an HTTP proxy"));
  }
  for (const std::string_view head :
       {"HTTP/1.x 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1  200\r\n\r\n", "HTTP/1.1 2a0 OK\r\n\r\n", "HTTP/1.1\r\n\r\n"}) {
    INFO(head);
    CHECK(Refusal(head) == kRefused + std::string("does not answer as an HTTP proxy"));
  }
}

TEST_CASE("an answer of more than 8 KiB is refused, with interim answers or without", "[unit]") {
  const std::string begin = "HTTP/1.1 200 OK\r\nX: ";
  const std::string end = "\r\n\r\n";
  const std::string longest =
      begin + std::string(ProxyAnswer::kLongest - begin.size() - end.size(), 'x') + end;
  CHECK(ReadIn(longest, longest.size()).is_done);
  CHECK(Refusal(begin + "x" + longest.substr(begin.size())) ==
        kRefused + std::string("answers with more than 8192 bytes"));
  std::string interim;
  while (interim.size() <= ProxyAnswer::kLongest + 1000) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  CHECK(Refusal(interim) == kRefused + std::string("answers with more than 8192 bytes"));
}

}  // namespace
}  // namespace skep::net
