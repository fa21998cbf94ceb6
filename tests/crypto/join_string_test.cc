#include "crypto/pki/join_string.h"

#include <numeric>

#include "tests/support/catch.h"

namespace skep::crypto {
namespace {

// The vector of the protocol: pin 00..1f, secret 40..57.
JoinString Example() {
  JoinString join;
  join.host = "agg.example";
  join.port = 8444;
  std::iota(join.pin.bytes.begin(), join.pin.bytes.end(), std::uint8_t{0});
  std::iota(join.secret.bytes.begin(), join.secret.bytes.end(), std::uint8_t{0x40});
  return join;
}

const std::string kExample =
    "https://agg.example:8444#SKEP1-"
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9AQUJDREVGR0hJSktMTU5PUFFSU1RVVlfuheRb";

int CodeOf(std::string_view text) {
  const auto join = ParseJoinString(text);
  return join.has_value() ? 0 : join.error().code;
}

// The example with another part before '#', its checksum made right.
std::string WithFront(const std::string& host, std::uint16_t port) {
  JoinString join = Example();
  join.host = host;
  join.port = port;
  return FormatJoinString(join);
}

TEST_CASE("a join string is written as in the protocol's vector", "[unit]") {
  CHECK(FormatJoinString(Example()) == kExample);
}

TEST_CASE("the protocol's vector is read back whole", "[unit]") {
  const auto join = ParseJoinString(kExample);
  REQUIRE(join.has_value());
  CHECK(join->host == "agg.example");
  CHECK(join->port == 8444);
  CHECK(join->pin == Example().pin);
  CHECK(join->secret == Example().secret);
}

TEST_CASE("the token id is the protocol's", "[unit]") {
  CHECK(TokenIdOf(Example().secret).Hex() == "d8856551750f4ee4");
}

TEST_CASE("white space around a join string is dropped", "[unit]") {
  CHECK(CodeOf(" \t" + kExample + "\r\n") == 0);
}

TEST_CASE("names, addresses and the ends of the port range are read", "[unit]") {
  for (const char* host : {"a", "192.0.2.1", "2001:db8::1", "::1", "A-9.example"}) {
    INFO(host);
    const auto join = ParseJoinString(WithFront(host, 1));
    REQUIRE(join.has_value());
    CHECK(join->host == host);
  }
  CHECK(CodeOf(WithFront("a", 65535)) == 0);
  CHECK(CodeOf(WithFront(std::string(253, 'a'), 1)) == 0);
}

TEST_CASE("every changed character is noticed", "[unit]") {
  for (std::size_t i = 0; i < kExample.size(); ++i) {
    for (const char other : {'A', 'z', '0', '-', '.', ' ', '='}) {
      std::string damaged = kExample;
      if (damaged[i] == other) continue;
      damaged[i] = other;
      INFO(i << " became '" << other << "'");
      CHECK(CodeOf(damaged) == 3116);
    }
  }
}

TEST_CASE("every shortened join string is noticed", "[unit]") {
  for (std::size_t size = 0; size < kExample.size(); ++size) {
    INFO(size);
    CHECK(CodeOf(std::string_view(kExample).substr(0, size)) == 3116);
  }
  CHECK(CodeOf(kExample + "A") == 3116);
  CHECK(CodeOf(kExample + " A") == 3116);
}

TEST_CASE("hosts that are none are refused even with a right checksum", "[unit]") {
  for (const std::string& host :
       {std::string(), std::string("a_b"), std::string("a b"), std::string("a/b"),
        std::string("user@a"), std::string("::g"), std::string(254, 'a')}) {
    INFO(host);
    CHECK(CodeOf(WithFront(host, 1)) == 3116);
  }
}

TEST_CASE("port 0 is refused even with a right checksum", "[unit]") {
  CHECK(CodeOf(WithFront("agg.example", 0)) == 3116);
}

TEST_CASE("a refused join string is not repeated in the message", "[unit]") {
  std::string damaged = kExample;
  damaged.back() = 'X';
  const auto join = ParseJoinString(damaged);
  REQUIRE_FALSE(join.has_value());
  CHECK(join.error().message.find("AAEC") == std::string::npos);
  CHECK(join.error().message.find("agg.example") == std::string::npos);
}

}  // namespace
}  // namespace skep::crypto
