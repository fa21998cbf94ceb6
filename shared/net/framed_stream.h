// FramedStream: one TLS connection: bytes in, whole frames out through a bounded queue, a deadline
// for every wait.
//
// Knows neither what a frame holds nor when it is due: the session gives bytes to its decoder and
// says how long it will wait. The session's coroutine reads and closes; a second one runs
// RunWriter; both stand in the session's TaskGroup. Everything happens on the socket's executor,
// which runs one thing at a time. A stream outlives the coroutines that use it. Called by the
// listeners and sessions of the aggregator and by the client's agent. Source: Skep protocol 1.0,
// sections 6, 10.2, 13 and 19.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/net/connect.h"
#include "shared/net/endpoint.h"
#include "shared/net/tls.h"

namespace skep::net {

// When a wait is too long, and the number that says so.
struct Deadline {
  SteadyTime at;
  int code;

  Deadline(SteadyTime when, int number) : at(when), code(number) {}
  // From now.
  [[nodiscard]] static Deadline In(Milliseconds span, int number);
};

// A frame with a part that is shared, such as a chunk of a model.
struct OutgoingFrame {
  Bytes head;
  BytesView body;                     // sent after the head
  std::shared_ptr<const void> owner;  // keeps the body in place

  explicit OutgoingFrame(Bytes whole) : head(std::move(whole)) {}
  OutgoingFrame(Bytes first, BytesView rest, std::shared_ptr<const void> keeper)
      : head(std::move(first)), body(rest), owner(std::move(keeper)) {}
};

class FramedStream {
 public:
  using Owner = std::unique_ptr<FramedStream>;

  // Aggregator: takes an accepted socket; Handshake comes next. `send_queue` bounds what Send may
  // queue, in bytes.
  [[nodiscard]] static Result<Owner> Accept(boost::asio::ip::tcp::socket socket,
                                            TlsContext::Shared context, std::size_t send_queue);

  // Device: resolves, connects and shakes hands. SKEP-3002 if the name is not found, SKEP-3001 if
  // nobody answers, SKEP-3003 if a proxy does not let it through, with the cause in the form
  // "cannot reach HOST:PORT: cause"; failures of trust keep their own numbers (tls.h).
  [[nodiscard]] static boost::asio::awaitable<Result<Owner>> Connect(Endpoint endpoint,
                                                                     TlsContext::Shared context,
                                                                     ConnectLimits limits,
                                                                     std::size_t send_queue);

  ~FramedStream();
  FramedStream(const FramedStream&) = delete;
  FramedStream& operator=(const FramedStream&) = delete;

  // Aggregator. On failure the alert is sent and the connection closed, after a linger so that the
  // alert arrives.
  boost::asio::awaitable<Status> Handshake(Deadline deadline);

  // At least one byte; 0 only for a clean end by close_notify. SKEP-3001 for an end without one,
  // the deadline's number when it passes, or Abort's error. Every error is final: it is the answer
  // to all later calls.
  boost::asio::awaitable<Result<std::size_t>> ReadSome(std::span<std::uint8_t> into,
                                                       Deadline deadline);

  // Ends a pending and every later ReadSome with SKEP-3001 and leaves the connection as it is, so
  // that whoever read may close it in order.
  void StopReading();

  // Queues a frame; never waits. SKEP-3338 if the queue would exceed its bound: then nothing is
  // queued.
  [[nodiscard]] Status Send(Bytes frame);
  // Queues a frame outside of that bound, once fewer than two such frames are queued. One caller at
  // a time.
  boost::asio::awaitable<Status> SendBulk(OutgoingFrame frame, Deadline deadline);
  // Writes what is queued until FinishSending was called and all is written, or the first error.
  // Run exactly once.
  boost::asio::awaitable<Status> RunWriter();
  // After this nothing more may be queued.
  void FinishSending();
  [[nodiscard]] std::size_t queued_bytes() const;

  // Orderly: what is queued, close_notify, half-close, discard at most 64 KiB, close; all within
  // `linger`. No read may be pending.
  boost::asio::awaitable<void> Close(Milliseconds linger);
  // At once: pending and later calls end with `why`, unless there was an error before.
  void Abort(Error why);

  [[nodiscard]] std::optional<crypto::DeviceIdentity> device() const;
  [[nodiscard]] std::optional<crypto::Certificate> peer_certificate() const;
  // The peer's address without its port; the proxy's where there is one.
  [[nodiscard]] const std::string& peer_address() const;
  // Of frames, not of TLS records.
  [[nodiscard]] std::uint64_t bytes_received() const;
  [[nodiscard]] std::uint64_t bytes_sent() const;

 private:
  struct State;
  explicit FramedStream(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace skep::net
