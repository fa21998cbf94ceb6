// AgentServer: the aggregator's side of a real TLS connection, played by a test.
//
// Runs on a thread of its own on a free port of loopback. A handler answers each message; the
// usual one plays whole rounds of a small model and can be told what to do wrongly. What was heard
// is kept for the test to look at after the server has stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "crypto/signature.h"
#include "shared/model/params.h"
#include "shared/net/tls.h"
#include "shared/wire/messages.h"
#include "tests/crypto/pki_fixture.h"

namespace skep::test {

// One connection, as the server's handlers see it; all on the server's thread.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual void Send(const wire::Message& message) = 0;
  // Bytes as chunks from `offset`; at most `most` bytes of them.
  virtual void SendBody(std::uint32_t transfer_id, BytesView body, std::uint64_t offset,
                        std::uint64_t most) = 0;
  virtual void Cut() = 0;                        // as if a cable broke
  virtual void Close() = 0;                      // in order
  [[nodiscard]] virtual int number() const = 0;  // of this connection, from 0
};

class AgentServer {
 public:
  enum class Kind { kDevices, kEnrolment };
  explicit AgentServer(Kind kind = Kind::kDevices);
  ~AgentServer();

  // Set before Start.
  std::optional<Holder> certificate;                     // else one of the server CA
  std::optional<crypto::Certificate> judges_devices_by;  // else the device CA
  std::function<void(Peer&, const wire::Message&)> on_message;
  std::function<void(Peer&, BytesView payload)> on_chunk;

  void Start();
  // Ends all connections and joins the thread. What was heard may be read then.
  void Stop();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] const Pki& pki() const { return pki_; }

  template <class T>
  [[nodiscard]] std::vector<T> Heard() const {
    std::vector<T> found;
    for (const wire::Message& message : heard) {
      if (const auto* one = std::get_if<T>(&message)) found.push_back(*one);
    }
    return found;
  }
  std::vector<wire::Message> heard;
  int connections = 0;

  struct State;

 private:
  Pki pki_;
  std::unique_ptr<State> state_;
};

}  // namespace skep::test
