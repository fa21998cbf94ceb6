// Connection: the coroutines of one accepted socket, for a device and for an enrolment.
//
// Handshake, reading, writing, sending a model, closing. What is read goes to a LinkUser or, of an
// enrolment, to the NetworkUser. Made by Network, in whose task group they run; one thread. Source:
// Skep protocol 1.0, sections 3.3, 6.1 (Closing), 10 and 19.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "aggregator/server/network.h"
#include "shared/net/framed_stream.h"
#include "shared/net/task_group.h"
#include "shared/wire/budget.h"

namespace skep::aggregator {

// Lets a bounded number of handshakes go on at a time, in all and for each address; the others wait
// unread.
class HandshakeGate {
 public:
  HandshakeGate(std::uint32_t in_all, std::uint32_t per_address)
      : in_all_(in_all), per_address_(per_address) {}

  [[nodiscard]] bool TryEnter(const std::string& address);
  void Leave(const std::string& address);
  // Whoever waits is woken by every Leave.
  std::list<boost::asio::steady_timer*> waiting;

 private:
  std::uint32_t in_all_;
  std::uint32_t per_address_;
  std::uint32_t inside_ = 0;
  std::unordered_map<std::string, std::uint32_t> by_address_;
};

// What all connections of a Network share.
struct ConnectionContext {
  const NetworkRules& rules;
  NetworkUser& user;
  wire::Budget& memory;
  HandshakeGate gate;
  // After its handshake a connection beyond a cap is told this number and closed; 0 = none.
  std::function<int(const std::string& address)> cap_of;
};

class Connection {
 public:
  Connection(ConnectionContext& context, boost::asio::ip::tcp::socket socket,
             net::TlsContext::Shared tls, std::string address);
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From the handshake to the end.
  virtual net::Awaitable<Status> Serve() = 0;
  // At once.
  void AbortNow(Error why);

 protected:
  [[nodiscard]] net::Awaitable<Status> Open();
  // Sends the message Error and nothing more.
  void Tell(int code, wire::MessageId in_reply_to);
  net::Awaitable<void> CloseInOrder();
  net::Awaitable<bool> WaitABit();

  ConnectionContext& context_;
  boost::asio::steady_timer timer_;
  std::string address_;
  std::optional<boost::asio::ip::tcp::socket> socket_;  // until the handshake
  net::TlsContext::Shared tls_;
  net::FramedStream::Owner stream_;
  net::TaskGroup tasks_;  // the writer, and what else serves this connection
  bool is_aborted_ = false;
};

[[nodiscard]] std::unique_ptr<Connection> MakeConnection(Network::Kind kind,
                                                         ConnectionContext& context,
                                                         boost::asio::ip::tcp::socket socket,
                                                         net::TlsContext::Shared tls,
                                                         std::string address);

}  // namespace skep::aggregator
