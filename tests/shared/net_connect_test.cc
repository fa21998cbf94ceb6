// Connections by way of a scripted HTTP proxy on loopback.
#include <boost/asio/write.hpp>

#include <array>

#include "tests/shared/net_fixture.h"
#include "tests/support/catch.h"

namespace skep::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using test::CodeOf;
using test::DeviceClient;
using test::DeviceListener;
using test::Holder;
using test::Loopback;
using test::Outcome;
using test::Pki;
using test::ReadToEnd;

constexpr auto kToTuple = asio::as_tuple(asio::use_awaitable);
constexpr const char* kHost = "aggregator.invalid";  // a name that nobody can resolve
constexpr std::uint16_t kPort = 8443;

// Reads one request, gives an answer, and then passes bytes on to `target` where there is one, or
// reads until the device hangs up.
struct ScriptedProxy {
  explicit ScriptedProxy(Loopback& at)
      : loopback(at),
        acceptor(at.context(), {asio::ip::address_v4::loopback(), 0}),
        place{"127.0.0.1", acceptor.local_endpoint().port()},
        device(at.context()),
        aggregator(at.context()) {}

  [[nodiscard]] const Endpoint& endpoint() const { return place; }
  void Start() {
    loopback.group().Spawn(Run(*this), nullptr,
                           [](const Status& status) { CHECK(status.has_value()); });
  }

  static Awaitable<Status> Run(ScriptedProxy& proxy) {
    proxy.device = co_await proxy.acceptor.async_accept(asio::use_awaitable);
    proxy.acceptor.close();
    std::array<char, 64> buffer{};
    while (!proxy.request.ends_with("\r\n\r\n")) {
      const auto [failure, count] =
          co_await proxy.device.async_read_some(asio::buffer(buffer), kToTuple);
      if (failure) co_return Error{9001, "the request ended early: " + proxy.request, ""};
      proxy.request.append(buffer.data(), count);
    }
    const auto answer = asio::buffer(proxy.answer);
    [[maybe_unused]] const auto answered =
        co_await asio::async_write(proxy.device, answer, kToTuple);
    if (proxy.target) {
      const tcp::endpoint target = *proxy.target;
      co_await proxy.aggregator.async_connect(target, asio::use_awaitable);
      TaskGroup& group = proxy.loopback.group();
      group.Spawn(Pump(proxy.aggregator, proxy.device, proxy.bytes_down), nullptr, nullptr);
      co_return co_await Pump(proxy.device, proxy.aggregator, proxy.bytes_up);
    }
    if (proxy.hangs_up) {
      proxy.device.close();
      co_return Ok();
    }
    std::size_t ignored = 0;
    co_return co_await Pump(proxy.device, proxy.device, ignored);
  }

  // Until `from` ends; whatever goes wrong is the business of those at the ends.
  static Awaitable<Status> Pump(tcp::socket& from, tcp::socket& to, std::size_t& passed) {
    std::array<char, 4096> buffer{};
    for (;;) {
      const auto [failure, count] = co_await from.async_read_some(asio::buffer(buffer), kToTuple);
      if (failure) break;
      passed += count;
      if (&from == &to) continue;
      const auto bytes = asio::buffer(buffer.data(), count);
      const auto [broken, written] = co_await asio::async_write(to, bytes, kToTuple);
      if (broken) break;
    }
    boost::system::error_code ignored;
    to.shutdown(tcp::socket::shutdown_send, ignored);
    co_return Ok();
  }

  Loopback& loopback;
  tcp::acceptor acceptor;
  Endpoint place;
  tcp::socket device;
  tcp::socket aggregator;
  std::string answer = "HTTP/1.1 200 Connection established\r\n\r\n";
  std::optional<tcp::endpoint> target;
  bool hangs_up = false;
  std::string request;
  std::size_t bytes_up = 0;
  std::size_t bytes_down = 0;
};

Awaitable<Status> SayHello(FramedStream& stream) {
  const std::string text = "hello";
  co_return stream.Send(Bytes(text.begin(), text.end()));
}

ConnectLimits By(const Endpoint& proxy) {
  ConnectLimits limits;
  limits.tcp = test::kPatience;
  limits.proxy = proxy;
  return limits;
}

// An aggregator of `pki` whose certificate names `name`, met through a proxy at kHost.
Outcome MeetThrough(const Pki& pki, const std::string& name, ScriptedProxy& proxy,
                    Loopback& loopback) {
  const Holder server = pki.Server({name});
  proxy.target = loopback.acceptor().local_endpoint();
  proxy.Start();
  Outcome outcome;
  loopback.group().Spawn(
      Loopback::Serve(loopback, DeviceListener(pki, server), ReadToEnd, &outcome), nullptr,
      [&outcome](Status status) { outcome.server = std::move(status); });
  loopback.group().Spawn(
      Loopback::Visit(loopback, {kHost, kPort}, DeviceClient(pki, pki.Device(), kHost), SayHello,
                      By(proxy.endpoint())),
      nullptr, [&outcome](Status status) { outcome.client = std::move(status); });
  loopback.Run();
  return outcome;
}

TEST_CASE("a device talks to its aggregator through a proxy that resolves the name", "[unit]") {
  const Pki pki;
  Loopback loopback;
  ScriptedProxy proxy(loopback);
  const Outcome outcome = MeetThrough(pki, kHost, proxy, loopback);
  CHECK(CodeOf(outcome.client) == 0);
  CHECK(CodeOf(outcome.server) == 0);
  CHECK(outcome.device.has_value());
  CHECK(proxy.request ==
        "CONNECT aggregator.invalid:8443 HTTP/1.1\r\nHost: aggregator.invalid:8443\r\n\r\n");
  CHECK(proxy.bytes_up > 0);
  CHECK(proxy.bytes_down > 0);
}

TEST_CASE("a certificate is judged by the target's name, with a proxy as without", "[unit]") {
  const Pki pki;
  Loopback loopback;
  ScriptedProxy proxy(loopback);
  CHECK(CodeOf(MeetThrough(pki, "127.0.0.1", proxy, loopback).client) == 3112);
}

// What a device learns from a proxy that does not connect it to anything.
Status VisitThrough(Loopback& loopback, const ConnectLimits& limits,
                    const Endpoint& target = {kHost, kPort}) {
  const Pki pki;
  Status ended = Ok();
  loopback.group().Spawn(Loopback::Visit(loopback, target, DeviceClient(pki, pki.Device(), kHost),
                                         test::DoNothing, limits),
                         nullptr, [&ended](Status status) { ended = std::move(status); });
  loopback.Run();
  return ended;
}

Status Answered(const std::string& answer, bool hangs_up = false) {
  Loopback loopback;
  ScriptedProxy proxy(loopback);
  proxy.answer = answer;
  proxy.hangs_up = hangs_up;
  proxy.Start();
  return VisitThrough(loopback, By(proxy.endpoint()));
}

bool Says(const Status& status, std::string_view text) {
  return CodeOf(status) == 3003 &&
         status.error().message.starts_with("cannot reach aggregator.invalid:8443: ") &&
         status.error().message.find(text) != std::string::npos;
}

TEST_CASE("a proxy that refuses is named with its reason", "[unit]") {
  CHECK(Says(Answered("HTTP/1.1 403 Forbidden\r\n\r\nno such port here"),
             "refuses the connection: 403 Forbidden"));
  CHECK(Says(Answered("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"),
             "asks for credentials, which are not supported"));
}

TEST_CASE("a proxy that speaks another language, or too much, is given up", "[unit]") {
  CHECK(Says(Answered("SSH-2.0-OpenSSH_9.2\r\n"), "does not answer as an HTTP proxy"));
  CHECK(Says(Answered("HTTP/1.1 200 OK\r\nX: " + std::string(9000, 'x')),
             "answers with more than 8192 bytes"));
}

TEST_CASE("a proxy that hangs up before its answer is whole is told", "[unit]") {
  CHECK(Says(Answered("", true), "closed the connection without an answer"));
  CHECK(Says(Answered("HTTP/1.1 200 OK\r\nVia: x\r\n", true),
             "closed the connection without an answer"));
}

TEST_CASE("a proxy that does not come to the end of its answer is late", "[unit]") {
  for (const char* begun : {"", "HTTP/1.1 200 OK\r\nVia: "}) {
    Loopback loopback;
    ScriptedProxy proxy(loopback);
    proxy.answer = begun;
    proxy.Start();
    ConnectLimits limits = By(proxy.endpoint());
    limits.tcp = Milliseconds(50);
    CHECK(Says(VisitThrough(loopback, limits), "did not answer within 50 ms"));
  }
}

TEST_CASE("bytes that come with the proxy's answer are the aggregator's", "[unit]") {
  // A fatal alert, handshake_failure, in the segment of the answer's head: nobody says it again.
  const std::string alert("\x15\x03\x03\x00\x02\x02\x28", 7);
  const Status status = Answered("HTTP/1.1 200 OK\r\n\r\n" + alert);
  CHECK(CodeOf(status) == 3114);
}

TEST_CASE("an aggregator that is lost behind the proxy is unreachable, and the way is told",
          "[unit]") {
  Loopback loopback;
  ScriptedProxy proxy(loopback);
  proxy.hangs_up = true;
  proxy.Start();
  const Status status = VisitThrough(loopback, By(proxy.endpoint()));
  REQUIRE(CodeOf(status) == 3001);
  CHECK(
      status.error().message.starts_with("cannot reach aggregator.invalid:8443 by way of the "
                                         "proxy " +
                                         EndpointText(proxy.endpoint()) + ": "));
}

TEST_CASE("a proxy that is not there is told from an aggregator that is not there", "[unit]") {
  Endpoint nobody{"127.0.0.1", 0};
  {
    const Loopback bound;  // once, so that nobody else has it now, then let go
    nobody.port = bound.port();
  }
  Loopback loopback;
  const Status refused = VisitThrough(loopback, By(nobody));
  CHECK(Says(refused, "its proxy: cannot reach " + EndpointText(nobody) + ": connection refused"));
  CHECK(refused.error().hint == "is this the proxy's address, and does it run?");
  Loopback second;
  CHECK(Says(VisitThrough(second, By({"no-such-proxy.invalid", 3128})),
             "its proxy: name not found: no-such-proxy.invalid"));
}

TEST_CASE("a proxy is not asked for a target that cannot be", "[unit]") {
  Loopback loopback;
  const ConnectLimits limits = By({"127.0.0.1", loopback.port()});
  const Status status = VisitThrough(loopback, limits, {"0.0.0.0", kPort});
  REQUIRE(CodeOf(status) == 3001);
  CHECK(status.error().message.find("an address to listen on") != std::string::npos);
}

}  // namespace
}  // namespace skep::net
