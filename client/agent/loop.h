// Loop: the one network thread of a client: timers, and connections to the aggregator.
//
// Hides Asio from the rest of the client: whoever uses it sees plain callbacks, all on the thread
// that called Run. Decides nothing: what is sent, and when to come back, is the session's. Post is
// thread-safe, everything else belongs to that thread (or to the time before Run).
// Source: Skep protocol 1.0, sections 3, 6.2 and 19.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "client/session.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/net/endpoint.h"
#include "shared/net/tls.h"
#include "shared/wire/frame.h"
#include "shared/wire/messages.h"

namespace skep::agent {

class Loop {
 public:
  // `haste`: the clock of this loop runs that many times faster than the machine's. Tests alone
  // set it, so that waits of hours take no time and nobody has to sleep.
  explicit Loop(std::uint32_t haste = 1);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] Now Clock() const;
  // From any thread: runs `action` in the loop.
  void Post(std::function<void()> action);
  // Runs `action` once, `after` from now by the loop's clock, unless the loop is stopped before.
  void After(Nanoseconds after, std::function<void()> action);

  // Until Stop. May be called once.
  void Run();
  // Ends Run once open links have said what they had to say, within `patience`.
  void Stop(Milliseconds patience = Milliseconds(1500));

  struct State;
  [[nodiscard]] State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

struct LinkLimits {
  Milliseconds resolve{3000};
  Milliseconds tcp{3000};
  Milliseconds handshake{30000};
  Milliseconds first_answer{30000};  // silence that is borne until SetSilence
  Milliseconds linger{1000};
};

struct LinkSetup {
  net::Endpoint endpoint;
  net::TlsContext::Shared tls;
  wire::Role role = wire::Role::kClient;
  LinkLimits limits;
  std::optional<net::Endpoint> proxy{};  // HTTP CONNECT by way of it
};

// What a link tells its owner.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void OnOpen() = 0;  // the handshake is done
  virtual void OnMessage(wire::Message message) = 0;
  // The payload of a chunk frame. An error ends the link with it.
  [[nodiscard]] virtual Status OnChunk(BytesView payload) = 0;
  virtual void OnBodySent(std::uint32_t transfer_id) = 0;
  // Last, and exactly once; a link that could not be opened says nothing before.
  virtual void OnClosed(const Error& why) = 0;
};

// One connection, from the name to the close. Ends with the numbers of FramedStream::Connect, of
// FrameDecoder and DecodeMessage, or SKEP-3324 when the aggregator was silent for too long.
class Link {
 public:
  Link(Loop& loop, LinkSetup setup, LinkEvents& events);
  // Nothing is told after this. The connection is closed in order, by itself.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Nothing is sent on a link that is not open or is closing.
  void Send(const wire::Message& message);
  // Streams a body as chunks, after bodies given before.
  void SendBody(const client::SendBody& body);
  // Stops it at the next chunk boundary.
  void CancelBody(std::uint32_t transfer_id);
  void SetChunkBytes(std::uint32_t chunk_bytes);
  void SetSilence(Milliseconds longest);
  // Sends what is queued and closes. OnClosed follows.
  void Close();

  // Of frames, both ways, since the last call.
  struct Traffic {
    std::uint64_t up = 0;
    std::uint64_t down = 0;
  };
  [[nodiscard]] Traffic TakeTraffic();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace skep::agent
