// Two parties on loopback for tests: an aggregator's listener on a free port, a device, one thread,
// deadlines for all.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "shared/net/framed_stream.h"
#include "shared/net/task_group.h"
#include "tests/crypto/pki_fixture.h"

namespace skep::test {

inline constexpr Milliseconds kPatience{20000};
inline constexpr std::size_t kSendQueue = 256 * 1024;

// What a party does once its handshake is done. Must not be a capturing lambda that is itself a
// coroutine.
using Party = std::function<net::Awaitable<Status>(net::FramedStream&)>;

struct Outcome {
  Status server = Error{9001, "never ran", ""};
  Status client = Error{9001, "never ran", ""};
  std::optional<crypto::DeviceIdentity> device;
  std::string address;
};

inline int CodeOf(const Status& status) {
  return status.has_value() ? 0 : status.error().code;
}

// Reads until the clean end. The usual party of the side that is not looked at.
inline net::Awaitable<Status> ReadToEnd(net::FramedStream& stream) {
  std::array<std::uint8_t, 4096> buffer{};
  for (;;) {
    const auto count = co_await stream.ReadSome(buffer, net::Deadline::In(kPatience, 3324));
    if (!count.has_value()) co_return count.error();
    if (*count == 0) co_return Ok();
  }
}

inline net::Awaitable<Status> DoNothing(net::FramedStream&) {
  co_return Ok();
}

class Loopback {
 public:
  Loopback()
      : acceptor_(context_, {boost::asio::ip::address_v4::loopback(), 0}),
        group_(context_.get_executor()) {}

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] boost::asio::io_context& context() { return context_; }
  [[nodiscard]] boost::asio::ip::tcp::acceptor& acceptor() { return acceptor_; }
  [[nodiscard]] net::TaskGroup& group() { return group_; }
  void Run() { context_.run(); }

  // One connection from end to end.
  Outcome Meet(const net::TlsContext::Shared& server, const net::TlsContext::Shared& client,
               const Party& server_party, const Party& client_party,
               const std::string& host = "127.0.0.1") {
    Outcome outcome;
    group_.Spawn(Serve(*this, server, server_party, &outcome), nullptr,
                 [&outcome](Status status) { outcome.server = std::move(status); });
    group_.Spawn(Visit(*this, net::Endpoint{host, port()}, client, client_party), nullptr,
                 [&outcome](Status status) { outcome.client = std::move(status); });
    Run();
    return outcome;
  }

  static net::Awaitable<Status> Serve(Loopback& loopback, net::TlsContext::Shared tls, Party party,
                                      Outcome* outcome) {
    auto socket = co_await loopback.acceptor_.async_accept(boost::asio::use_awaitable);
    auto made = net::FramedStream::Accept(std::move(socket), std::move(tls), kSendQueue);
    if (!made.has_value()) co_return made.error();
    net::FramedStream& stream = **made;
    outcome->address = stream.peer_address();
    Status status = co_await stream.Handshake(net::Deadline::In(kPatience, 3326));
    outcome->device = stream.device();
    if (status.has_value()) status = co_await Talk(loopback, stream, std::move(party));
    co_return status;
  }

  static net::Awaitable<Status> Visit(Loopback& loopback, net::Endpoint endpoint,
                                      net::TlsContext::Shared tls, Party party,
                                      net::ConnectLimits limits = {}) {
    auto made = co_await net::FramedStream::Connect(std::move(endpoint), std::move(tls), limits,
                                                    kSendQueue);
    if (!made.has_value()) co_return made.error();
    net::FramedStream& stream = **made;
    Status status = co_await Talk(loopback, stream, std::move(party));
    co_return status;
  }

  static net::Awaitable<Status> Talk(Loopback& loopback, net::FramedStream& stream, Party party) {
    net::TaskGroup writer(loopback.context_.get_executor());
    writer.Spawn(stream.RunWriter(), nullptr, nullptr);
    Status status = co_await party(stream);
    co_await stream.Close(Milliseconds(1000));
    co_await writer.Stop(kPatience);
    co_return status;
  }

 private:
  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  net::TaskGroup group_;
};

inline net::TlsContext::Shared DeviceListener(const Pki& pki, const Holder& server) {
  const net::Credentials own{server.certificate, server.key, {}};
  return net::TlsContext::ForDeviceListener(
             own, {pki.device_ca.certificate(), pki.federation, nullptr, std::nullopt})
      .value();
}
inline net::TlsContext::Shared DeviceListener(const Pki& pki) {
  return DeviceListener(pki, pki.Server());
}

inline net::TlsContext::Shared DeviceClient(const Pki& pki, const Holder& device,
                                            const std::string& host = "127.0.0.1") {
  const net::Credentials own{device.certificate, device.key, {}};
  return net::TlsContext::ForDevice(own,
                                    {pki.server_ca.certificate(), std::nullopt, host, std::nullopt})
      .value();
}

inline net::TlsContext::Shared EnrolmentListener(const Pki& pki) {
  const Holder server = pki.Server();
  return net::TlsContext::ForEnrolmentListener(
             {server.certificate, server.key, {pki.server_ca.certificate()}})
      .value();
}

inline net::TlsContext::Shared EnrolmentClient(const Hash32& pin,
                                               const std::string& host = "127.0.0.1") {
  return net::TlsContext::ForEnrolment({std::nullopt, pin, host, std::nullopt}).value();
}

}  // namespace skep::test
