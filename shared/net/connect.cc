#include "shared/net/connect.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/try.h"
#include "shared/net/proxy.h"

namespace skep::net {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
// NOLINTNEXTLINE(google-build-using-namespace): the only way to get ||
using namespace asio::experimental::awaitable_operators;

constexpr auto kToTuple = asio::as_tuple(asio::use_awaitable);

using Addresses = std::vector<tcp::endpoint>;

// What a look-up that nobody can interrupt leaves behind: whoever gave up waiting has let go of it.
struct LookUp {
  explicit LookUp(const asio::any_io_executor& executor) : resolver(executor), done(executor) {}
  tcp::resolver resolver;
  asio::steady_timer done;
  error_code failure;
  Addresses found;
  bool is_done = false;
};

awaitable<Result<Addresses>> Resolve(Endpoint endpoint, Milliseconds limit) {
  error_code not_address;
  const auto address = asio::ip::make_address(endpoint.host, not_address);
  if (!not_address) co_return Addresses{tcp::endpoint(address, endpoint.port)};
  const auto executor = co_await asio::this_coro::executor;
  const auto look_up = std::make_shared<LookUp>(executor);
  look_up->done.expires_after(limit);
  // A callback with shared state and not an awaited operation: getaddrinfo may take longer than
  // anyone waits.
  look_up->resolver.async_resolve(
      endpoint.host, std::to_string(endpoint.port),
      [look_up](const error_code& failure, const tcp::resolver::results_type& results) {
        look_up->failure = failure;
        for (const auto& result : results) look_up->found.push_back(result.endpoint());
        look_up->is_done = true;
        look_up->done.cancel();
      });
  [[maybe_unused]] const auto woken = co_await look_up->done.async_wait(kToTuple);
  if (!look_up->is_done) co_return NotFoundIn(endpoint, limit);
  if (look_up->failure) co_return NotFound(endpoint, look_up->failure.message());
  co_return look_up->found;
}

// A connection, and until when it was to stand.
struct Connected {
  tcp::socket socket;
  SteadyTime until;
};

awaitable<Result<Connected>> ConnectTo(Endpoint endpoint, tcp::endpoint address,
                                       Milliseconds limit) {
  const auto executor = co_await asio::this_coro::executor;
  const SteadyTime until = ReadClock().steady + limit;
  tcp::socket socket(executor);
  asio::steady_timer timer(executor, until);
  auto winner = co_await (socket.async_connect(address, kToTuple) || timer.async_wait(kToTuple));
  if (winner.index() != 0) {
    co_return TimedOut(endpoint, limit);
  }
  const error_code failure = std::get<0>(std::get<0>(winner));
  if (failure) co_return Unreachable(endpoint, failure.value());
  co_return Connected{std::move(socket), until};
}

awaitable<Result<Connected>> ConnectToAny(Endpoint endpoint, ConnectLimits limits) {
  SKEP_CO_TRY(CheckReachable(endpoint));
  SKEP_CO_ASSIGN(const Addresses addresses, co_await Resolve(endpoint, limits.resolve));
  // A look-up that succeeds has at least one address.
  Result<Connected> last = NotFound(endpoint, "no address");
  for (const tcp::endpoint& address : addresses) {
    last = co_await ConnectTo(endpoint, address, limits.tcp);
    if (last.has_value()) break;
  }
  co_return last;
}

Error NoAnswer(const ProxyRoute& route, Milliseconds limit) {
  return ProxyFault(route, "did not answer within " + LimitText(limit),
                    "it may not reach the aggregator: is that running, and is it this port?");
}

Error HungUp(const ProxyRoute& route) {
  return ProxyFault(route, "closed the connection without an answer",
                    "is this a proxy, and is it the right port?");
}

// Asks for the target and reads the head of the answer. Bytes are looked at before they are taken,
// so that those behind the head stay in the socket, for TLS.
awaitable<Status> PassThrough(Connected& connected, ProxyRoute route, Milliseconds limit) {
  tcp::socket& socket = connected.socket;
  asio::steady_timer timer(socket.get_executor(), connected.until);
  const std::string request = ConnectRequest(route.target);
  const auto asked = asio::buffer(request);
  auto sent = co_await (asio::async_write(socket, asked, kToTuple) || timer.async_wait(kToTuple));
  if (sent.index() != 0) {
    co_return NoAnswer(route, limit);
  }
  ProxyAnswer answer(route);
  std::array<std::uint8_t, 1024> bytes{};
  const auto buffer = asio::buffer(bytes);
  // A write that failed does not end this: what the proxy said before may say why.
  while (!answer.is_done()) {
    auto seen = co_await (socket.async_receive(buffer, tcp::socket::message_peek, kToTuple) ||
                          timer.async_wait(kToTuple));
    if (seen.index() != 0) {
      co_return NoAnswer(route, limit);
    }
    const auto [failure, count] = std::get<0>(seen);
    if (failure) {
      co_return HungUp(route);
    }
    const Result<std::size_t> head = answer.Take(BytesView(bytes).first(count));
    if (!head.has_value()) {
      co_return head.error();
    }
    error_code ignored;  // they are there
    socket.receive(asio::buffer(bytes.data(), *head), 0, ignored);
  }
  co_return Ok();
}

}  // namespace

awaitable<Result<tcp::socket>> ConnectTcp(Endpoint endpoint, ConnectLimits limits) {
  if (!limits.proxy) {
    SKEP_CO_ASSIGN(Connected direct, co_await ConnectToAny(endpoint, limits));
    co_return std::move(direct.socket);
  }
  SKEP_CO_TRY(CheckReachable(endpoint));
  const ProxyRoute route{.proxy = *limits.proxy, .target = endpoint};
  Result<Connected> connected = co_await ConnectToAny(route.proxy, limits);
  if (!connected.has_value()) {
    co_return ProxyUnreachable(route, connected.error());
  }
  const Status passed = co_await PassThrough(*connected, route, limits.tcp);
  if (!passed.has_value()) {
    co_return passed.error();
  }
  co_return std::move(connected->socket);
}

}  // namespace skep::net
