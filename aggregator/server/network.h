// Network: listeners, connections and one thread for both, behind plain calls.
//
// Knows TLS, frames, caps and deadlines of handshakes; what frames mean and when a session ends is
// its user's question. Everything but Post and Stop happens on the thread that runs it, and so do
// all calls to its users. This is the boundary of Asio: no other header of the server shows it but
// connection.h. Called by Server. Source: Skep protocol 1.0, sections 10.1, 10.2 (T10, T11, T14),
// 13 and 19.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "aggregator/server/model_shelf.h"
#include "aggregator/server/session_machine.h"
#include "shared/base/log.h"
#include "shared/net/tls.h"

namespace skep::aggregator {

// One connection of a device, as its session uses it.
class Link {
 public:
  virtual ~Link() = default;
  // SKEP-3338: the queue is full; then the caller gives up.
  [[nodiscard]] virtual Status Send(Bytes frame) = 0;
  // Chunks of `model`; one after the other if there is one on its way.
  virtual void SendModel(const wire::Transfer& transfer, ModelBytes model) = 0;
  virtual void StopModel(std::uint32_t transfer_id) = 0;
  // In order: what is queued, then the end. Nothing is read any more.
  virtual void Close() = 0;
  // At once.
  virtual void Abort(Error why) = 0;
};

// What a link tells its session.
class LinkUser {
 public:
  virtual ~LinkUser() = default;
  virtual void OnFrame(wire::Frame frame) = 0;
  virtual void OnBytes(const FrameProgress& progress) = 0;
  // Bytes that are no frame (SKEP-3201..3205, 3301), or a peer that does not take its model (3325).
  virtual void OnRefused(int code) = 0;
  // Memory is short: nothing is read for a while.
  virtual void OnReading(bool is_reading) = 0;
  virtual void OnModelSent(std::uint32_t transfer_id) = 0;
  virtual void OnModelStopped(std::uint32_t transfer_id) = 0;
  // The last call; the link is not used again. `why` says how it ended.
  virtual void OnEnded(const Error& why) = 0;
};

struct Visitor {
  DeviceId device;
  crypto::Certificate certificate;
  std::string address;
};

class NetworkUser {
 public:
  virtual ~NetworkUser() = default;
  // A device has shaken hands. The user outlives OnEnded.
  [[nodiscard]] virtual LinkUser& OnDevice(Link& link, Visitor visitor) = 0;
  using Answer = std::function<void(Result<wire::Message>)>;
  // The one request of an enrolment connection. `answer` is called once, on the network's thread.
  virtual void OnEnrolment(const std::string& address, wire::EnrolRequest request,
                           Answer answer) = 0;
  // The time set by SetAlarm has come.
  virtual void OnAlarm() = 0;
  // SIGTERM or SIGINT.
  virtual void OnSignal() = 0;
  // Queues are full: sessions stop reading.
  [[nodiscard]] virtual bool IsCongested() = 0;
};

struct NetworkRules {
  Milliseconds handshake_deadline{};
  std::uint32_t max_handshakes = 64;
  std::uint32_t handshakes_per_address = 8;
  Milliseconds first_frame_deadline{};
  std::uint32_t max_connections = 12'000;
  std::uint32_t connections_per_address = 1024;
  std::size_t send_queue = 0;
  std::size_t connection_memory = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint64_t min_rate = 4096;
  Nanoseconds rate_window{};
  int backlog = 4096;
  bool handles_signals = false;
};

class Network {
 public:
  // `user`, `memory` (of all transfers) and `log` outlive it.
  Network(const NetworkRules& rules, NetworkUser& user, wire::Budget& memory, Log& log);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  enum class Kind { kDevices, kEnrolment };
  // Before Run. The port that was bound; SKEP-5201, 5202, 5209 with `key`, the configuration's name
  // for the address.
  [[nodiscard]] Result<std::uint16_t> Listen(Kind kind, const std::string& key,
                                             const std::string& address,
                                             net::TlsContext::Shared tls);

  // What Listen would refuse, without listening.
  [[nodiscard]] static Status Inspect(const std::string& key, const std::string& address);

  // Any thread; later, on the network's thread, in the order posted. Nothing after Stop.
  void Post(std::function<void()> task);
  // One alarm; a later call replaces it. SteadyTime::max(): none.
  void SetAlarm(SteadyTime at);
  // No new connections.
  void StopListening();

  // Until Stop.
  void Run();
  // Any thread. Connections that are closing have `patience` to do so, the others end at once; then
  // Run returns.
  void Stop(Milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace skep::aggregator
