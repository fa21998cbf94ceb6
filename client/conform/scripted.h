// Scripted: an aggregator that does what a check needs, also what a real one never does.
//
// It has the identity and the signing key of a Host's federation, so that devices that enrolled
// there trust it. One connection at a time, on a thread of its own and a free port of loopback; a
// handler answers each message. Frames of chunks are not taken. Source: Skep protocol 1.0,
// sections 4 to 6 and 10.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "crypto/signature.h"
#include "shared/base/clock.h"
#include "shared/net/tls.h"
#include "shared/wire/messages.h"

namespace skep::conform {

// The connection that a handler answers on; only during its call.
class ScriptedPeer {
 public:
  virtual ~ScriptedPeer() = default;
  virtual void Send(const wire::Message& message) = 0;
  virtual void SendRaw(BytesView bytes) = 0;  // within TLS, in no frame of ours
  virtual void SendBody(std::uint32_t transfer_id, BytesView body, std::uint64_t offset) = 0;
  virtual void Close() = 0;
};

inline constexpr std::uint32_t kScriptedChunk = 16 * 1024;

class Scripted {
 public:
  using Handler = std::function<void(ScriptedPeer&, const wire::Message&)>;

  // Listens when it returns; nobody is served until Serve. SKEP-5201.
  [[nodiscard]] static Result<std::unique_ptr<Scripted>> Listen();
  ~Scripted();
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // With the keys in that folder. The handler is called on the thread of the server and gets no
  // Hello: that is answered.
  [[nodiscard]] Status Serve(const std::string& pki_folder, const FederationId& federation);
  void SetHandler(Handler handler);

  [[nodiscard]] const FederationId& federation() const { return federation_; }
  [[nodiscard]] const crypto::SigningKey& key() const { return *key_; }
  // When each connection came, and when the last one ended.
  [[nodiscard]] std::vector<SteadyTime> Arrivals();
  [[nodiscard]] std::size_t ended();

 private:
  Scripted() = default;
  void Run();
  void ServeOne(int socket);
  friend class ScriptedConnection;

  int listener_ = -1;
  int waker_ = -1;
  std::uint16_t port_ = 0;
  FederationId federation_{};
  std::optional<crypto::SigningKey> key_;
  net::TlsContext::Shared tls_;
  std::atomic<bool> must_stop_{false};
  std::mutex mutex_;
  Handler handler_;  // guarded by mutex_, as the following
  std::vector<SteadyTime> arrivals_;
  std::size_t ended_ = 0;
  std::thread thread_;
};

}  // namespace skep::conform
