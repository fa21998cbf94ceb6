// A server in this process on loopback, its folder, and devices that speak the protocol by hand.
//
// Devices block: a test is one thread of script. Every wait has a limit (kPatience), after which
// the test fails.
#pragma once

#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aggregator/server/server.h"
#include "crypto/pki/join_string.h"
#include "shared/net/tls.h"
#include "shared/wire/chunk.h"
#include "shared/wire/frame.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::aggregator::test {

// One TLS connection, blocking.
class TlsPeer {
 public:
  // Connects and shakes hands; is_open() says how that went.
  TlsPeer(std::uint16_t port, const net::TlsContext::Shared& context, wire::Role role);
  ~TlsPeer();
  TlsPeer(const TlsPeer&) = delete;
  TlsPeer& operator=(const TlsPeer&) = delete;

  [[nodiscard]] bool is_open() const { return is_open_; }
  void Write(BytesView bytes);
  void Send(const wire::Message& message) { Write(wire::EncodeFrame(message)); }
  // The next frame that is no Ping (those are answered); nothing at the end of the connection.
  [[nodiscard]] std::optional<wire::Frame> Read();
  [[nodiscard]] std::optional<wire::Message> ReadMessage();
  // The next message, which must be a T.
  template <class T>
  T Expect() {
    const auto message = ReadMessage();
    REQUIRE(message);
    INFO("got " << wire::MessageName(wire::IdOf(*message)));
    REQUIRE(std::holds_alternative<T>(*message));
    return std::get<T>(*message);
  }
  // The code of the Error that closes the connection; 0 if it ends without one.
  [[nodiscard]] int ReadEnd();
  // The error in which a read ended, as the client side explains it.
  [[nodiscard]] int fault() const { return fault_; }
  // Without a word, as a process that is killed.
  void Cut();
  void SetChunkBytes(std::uint32_t chunk_bytes) { decoder_.SetChunkBytes(chunk_bytes); }

 private:
  int socket_ = -1;
  net::TlsContext::Shared context_;
  crypto::Owned<SSL> ssl_;
  bool is_open_ = false;
  int fault_ = 0;
  wire::CountingBudget budget_{64 << 20};
  wire::FrameDecoder decoder_;
  Bytes received_;
  std::size_t taken_ = 0;
};

// A device: what enrolment gave it, and a session by hand.
class Device {
 public:
  Device(std::uint16_t port, crypto::PrivateKey key, crypto::Certificate certificate,
         crypto::Certificate server_ca)
      : port_(port),
        key_(std::move(key)),
        certificate_(std::move(certificate)),
        server_ca_(std::move(server_ca)) {}

  // Another process with the same identity.
  [[nodiscard]] Device Twin() const { return {port_, key_, certificate_, server_ca_}; }
  // Connects without a word.
  TlsPeer& Connect();
  // Connects; Hello and HelloAck.
  void Join();
  void Poll(const std::string& population = "pump");
  // What answers a Poll.
  wire::TaskOffer ExpectOffer();
  void Accept(const wire::Manifest& manifest);
  Bytes Download(const Hash32& sha256, std::uint64_t size);
  wire::Plan AskPlan(const Hash32& sha256);
  [[nodiscard]] wire::UploadBegin Begin(const wire::Manifest& manifest, const Bytes& body,
                                        std::uint32_t weight);
  void SendBody(std::uint32_t transfer_id, const Bytes& body, std::uint64_t offset = 0);
  // The chunks from `offset` that end at `end` at the latest.
  void SendPart(std::uint32_t transfer_id, const Bytes& body, std::uint64_t offset,
                std::uint64_t end);
  // Everything from an offer to UpdateAck, with each value of the update equal to `value`.
  wire::UpdateAck Train(const wire::TaskOffer& offer, float value, std::uint32_t weight);

  [[nodiscard]] TlsPeer& peer() { return *peer_; }
  [[nodiscard]] const crypto::Certificate& certificate() const { return certificate_; }
  [[nodiscard]] std::uint32_t NextTransfer() { return ++transfer_; }
  void SetPort(std::uint16_t port) { port_ = port; }

  std::uint32_t chunk_bytes = 0;
  std::uint8_t next_update = 1;

 private:
  std::uint16_t port_;
  crypto::PrivateKey key_;
  crypto::Certificate certificate_;
  crypto::Certificate server_ca_;
  std::unique_ptr<TlsPeer> peer_;
  std::uint32_t transfer_ = 0;
};

class TestServer {
 public:
  // `changes` are replaced lines of server.toml: {"session", "ping_interval = \"1s\""}.
  using Changes = std::vector<std::pair<std::string, std::string>>;
  explicit TestServer(Changes changes = {}, bool handles_signals = false);
  ~TestServer();

  void Start();
  // The same where it may fail.
  [[nodiscard]] Status TryStart();
  std::string devices_address = "127.0.0.1:0";
  // As if the process had ended: what was not written is lost.
  void Kill() { server_.reset(); }
  [[nodiscard]] Server& server() { return *server_; }
  [[nodiscard]] std::uint16_t devices_port() const;
  [[nodiscard]] std::uint16_t enrol_port() const;
  [[nodiscard]] const std::string& folder() const { return folder_text_; }
  [[nodiscard]] const crypto::Authority& device_ca() const { return device_ca_; }
  [[nodiscard]] const crypto::Authority& server_ca() const { return server_ca_; }
  [[nodiscard]] const wire::PublicKey& signing_key() const { return signing_key_.public_key(); }
  [[nodiscard]] const FederationId& federation() const { return federation_; }

  // A population with `count` enrolled devices, in the order of their client numbers.
  std::vector<std::unique_ptr<Device>> Enrol(std::uint32_t count,
                                             const std::string& population = "pump");
  // One enrolment connection: the answer, or the code of its Error.
  Result<wire::EnrolResult> Join(const std::string& join_string, const crypto::PrivateKey& key);

  // A run on a small table: softmax, 6 values.
  StartRequest Request(std::uint32_t rounds, std::uint32_t clients,
                       const std::string& more = "") const;
  StartedRun StartRun(std::uint32_t rounds, std::uint32_t clients, const std::string& more = "");
  // Asks until `is_so` or the patience is over.
  bool Until(const std::function<bool(Server&)>& is_so);
  // SHA-256 over every row of every table, but for when devices were seen.
  [[nodiscard]] Hash32 StoreDigest() const;

  std::vector<std::string> log;

 private:
  skep::test::TemporaryFolder folder_;
  std::string folder_text_;
  Changes changes_;
  bool handles_signals_;
  FederationId federation_;
  crypto::Authority server_ca_;
  crypto::Authority device_ca_;
  crypto::PrivateKey key_;
  crypto::Certificate certificate_;
  crypto::SigningKey signing_key_;
  std::mutex log_mutex_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<Server> server_;
};

[[nodiscard]] wire::Manifest ManifestOf(const wire::TaskOffer& offer);
[[nodiscard]] Bytes UpdateOf(float value);
inline constexpr std::size_t kValues = 6;

}  // namespace skep::aggregator::test
