#include "aggregator/server/network.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "aggregator/server/connection.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using net::Awaitable;

constexpr auto kToTuple = asio::as_tuple(asio::use_awaitable);
constexpr Milliseconds kAfterFault{50};
constexpr Milliseconds kStopPatience{2000};
// Sockets that may wait for a handshake beside the connections that are allowed.
constexpr std::uint32_t kWaiting = 64;

}  // namespace

struct Network::State {
  State(const NetworkRules& the_rules, NetworkUser& user, wire::Budget& memory, Log& the_log)
      : rules(the_rules),
        log(the_log),
        context{rules, user, memory,
                HandshakeGate(rules.max_handshakes, rules.handshakes_per_address),
                [this](const std::string& address) { return CapOf(address); }},
        alarm(io),
        room(io),
        signals(io),
        group(io.get_executor()),
        reserve(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}
  ~State() {
    if (reserve >= 0) ::close(reserve);
  }

  struct Listener {
    tcp::acceptor acceptor;
    Kind kind;
    net::TlsContext::Shared tls;
    asio::steady_timer pause;
  };

  [[nodiscard]] int CapOf(const std::string& address) const;
  Awaitable<Status> AcceptAll(Listener* listener);
  void Take(Listener& listener, tcp::socket socket);
  Awaitable<Status> ServeOne(std::shared_ptr<Connection> connection);
  void Ended(const std::string& address, const Status& status);
  bool MeetFault(Listener& listener, const error_code& fault);
  void WaitForSignal();
  void BeginStop(Milliseconds patience);
  Awaitable<void> StopAll(Milliseconds patience);

  NetworkRules rules;
  Log& log;
  asio::io_context io{1};
  ConnectionContext context;
  asio::steady_timer alarm;
  asio::steady_timer room;  // cancelled when a connection ends
  asio::signal_set signals;
  net::TaskGroup group;
  std::list<Listener> listeners;
  std::unordered_map<std::string, std::uint32_t> by_address;
  std::uint32_t connections = 0;
  int reserve;  // given up to tell a peer that there is no descriptor left for it
  bool is_stopping = false;
  bool has_ended = false;
};

int Network::State::CapOf(const std::string& address) const {
  if (connections > rules.max_connections) return 3331;
  const auto entry = by_address.find(address);
  return entry != by_address.end() && entry->second > rules.connections_per_address ? 3332 : 0;
}

Awaitable<Status> Network::State::AcceptAll(Listener* listener) {
  while (listener->acceptor.is_open()) {
    if (connections >= rules.max_connections + kWaiting) {
      room.expires_at(SteadyTime::max());
      [[maybe_unused]] const auto woken = co_await room.async_wait(kToTuple);
      continue;
    }
    auto accepted = co_await listener->acceptor.async_accept(kToTuple);
    const error_code fault = std::get<0>(accepted);
    if (!listener->acceptor.is_open()) break;
    if (!fault) {
      Take(*listener, std::move(std::get<1>(accepted)));
    } else if (!MeetFault(*listener, fault)) {
      listener->pause.expires_after(kAfterFault);
      [[maybe_unused]] const auto woken = co_await listener->pause.async_wait(kToTuple);
    }
  }
  co_return Ok();
}

// True if accepting can go on at once. Out of descriptors, the reserve is spent on the peer that
// waits, so that it learns of its refusal; the loop survives everything.
bool Network::State::MeetFault(Listener& listener, const error_code& fault) {
  if (fault == asio::error::connection_aborted) return true;
  log.Write({.level = LogLevel::kWarning,
             .code = 3331,
             .event = "listener.fault",
             .message = "a connection could not be accepted: " + fault.message()});
  const bool is_out = fault == asio::error::no_descriptors ||
                      fault == boost::system::errc::too_many_files_open_in_system;
  if (!is_out || reserve < 0) return false;
  ::close(reserve);
  error_code ignored;
  tcp::socket refused(io);
  listener.acceptor.non_blocking(true, ignored);
  listener.acceptor.accept(refused, ignored);
  refused.close(ignored);
  reserve = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return false;
}

void Network::State::Take(Listener& listener, tcp::socket socket) {
  error_code failure;
  const auto peer = socket.remote_endpoint(failure);
  if (failure || is_stopping) return;
  const std::string address = peer.address().to_string();
  ++connections;
  ++by_address[address];
  const std::shared_ptr<Connection> connection =
      MakeConnection(listener.kind, context, std::move(socket), listener.tls, address);
  group.Spawn(
      ServeOne(connection),
      [connection] {
        connection->AbortNow({3337, "the aggregator stops", ""});
      },
      [this, address](const Status& status) { Ended(address, status); });
}

Awaitable<Status> Network::State::ServeOne(std::shared_ptr<Connection> connection) {
  Status status = co_await connection->Serve();
  co_return status;
}

void Network::State::Ended(const std::string& address, const Status& status) {
  --connections;
  const auto entry = by_address.find(address);
  if (--entry->second == 0) by_address.erase(entry);
  room.cancel();
  if (status.has_value()) return;
  log.Write({.level = LogLevel::kDebug,
             .code = status.error().code,
             .event = "connection.ended",
             .message = status.error().message});
}

void Network::State::WaitForSignal() {
  signals.async_wait([this](const error_code& failure, int) {
    if (failure) return;
    context.user.OnSignal();
    WaitForSignal();
  });
}

void Network::State::BeginStop(Milliseconds patience) {
  if (std::exchange(is_stopping, true)) return;
  asio::co_spawn(io, StopAll(patience), [this](const std::exception_ptr&) { io.stop(); });
}

Awaitable<void> Network::State::StopAll(Milliseconds patience) {
  error_code ignored;
  signals.cancel(ignored);
  alarm.cancel();
  for (Listener& listener : listeners) listener.acceptor.close(ignored);
  room.cancel();
  const SteadyTime until = ReadClock().steady + patience;
  [[maybe_unused]] const bool has_ended_already = co_await group.WaitUntil(until);
  co_await group.Stop(kStopPatience);
}

Network::Network(const NetworkRules& rules, NetworkUser& user, wire::Budget& memory, Log& log)
    : state_(std::make_unique<State>(rules, user, memory, log)) {
  if (rules.handles_signals) {
    state_->signals.add(SIGTERM);
    state_->signals.add(SIGINT);
    state_->WaitForSignal();
  }
}

Network::~Network() {
  if (state_->has_ended) return;
  Stop(Milliseconds(0));
  Run();
}

namespace {

Error CannotListen(const std::string& key, const std::string& address, const error_code& failure) {
  const int code = failure == asio::error::address_in_use  ? 5201
                   : failure == asio::error::access_denied ? 5209
                                                           : 5202;
  const std::string reason = code == 5201   ? "address in use"
                             : code == 5209 ? "this user may not listen on so low a port"
                                            : failure.message();
  return {code, fmt::format("{} {}: {}", key, address, reason), ""};
}

Result<tcp::acceptor> Bind(asio::io_context& io, const std::string& key,
                           const std::string& address) {
  const auto endpoint = net::ParseEndpoint(address);
  error_code failure;
  const auto ip = endpoint ? asio::ip::make_address(endpoint->host, failure) : asio::ip::address();
  if (!endpoint || failure) {
    return Error{5202, fmt::format("{} \"{}\": not ADDRESS:PORT", key, address), ""};
  }
  const tcp::endpoint local(ip, endpoint->port);
  tcp::acceptor acceptor(io);
  acceptor.open(local.protocol(), failure);
  if (!failure) acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure) acceptor.bind(local, failure);
  if (failure) return CannotListen(key, address, failure);
  return acceptor;
}

}  // namespace

Status Network::Inspect(const std::string& key, const std::string& address) {
  asio::io_context io;
  SKEP_ASSIGN([[maybe_unused]] const tcp::acceptor bound, Bind(io, key, address));
  return Ok();
}

Result<std::uint16_t> Network::Listen(Kind kind, const std::string& key, const std::string& address,
                                      net::TlsContext::Shared tls) {
  SKEP_ASSIGN(tcp::acceptor acceptor, Bind(state_->io, key, address));
  error_code failure;
  acceptor.listen(state_->rules.backlog, failure);
  if (failure) return CannotListen(key, address, failure);
  const std::uint16_t port = acceptor.local_endpoint(failure).port();
  state_->listeners.push_back(
      {std::move(acceptor), kind, std::move(tls), asio::steady_timer(state_->io)});
  state_->group.Spawn(state_->AcceptAll(&state_->listeners.back()), nullptr, nullptr);
  return port;
}

void Network::Post(std::function<void()> task) {
  asio::post(state_->io, std::move(task));
}

void Network::SetAlarm(SteadyTime at) {
  state_->alarm.expires_at(at);
  state_->alarm.async_wait([this](const error_code& failure) {
    if (!failure) state_->context.user.OnAlarm();
  });
}

void Network::StopListening() {
  error_code ignored;
  for (State::Listener& listener : state_->listeners) listener.acceptor.close(ignored);
}

void Network::Run() {
  const auto guard = asio::make_work_guard(state_->io);
  state_->io.run();
  state_->has_ended = true;
}

void Network::Stop(Milliseconds patience) {
  asio::post(state_->io, [this, patience] { state_->BeginStop(patience); });
}

}  // namespace skep::aggregator
