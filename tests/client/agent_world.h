// AgentWorld: a device with an identity, data and a storage folder, and a server that plays rounds.
//
// The model is a softmax of two columns and two classes; the data are a small table that is read
// from disk. A test says what goes wrong by changing `Aggregator`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/agent/agent.h"
#include "client/agent/local_trainer.h"
#include "shared/config/client_config.h"
#include "shared/wire/chunk.h"
#include "tests/client/agent_server.h"
#include "tests/support/temporary_folder.h"

namespace skep::test {

inline constexpr const char* kPopulation = "pump";

// Plays the aggregator: one run, round after round. Every member is used on the server's thread.
class Aggregator {
 public:
  explicit Aggregator(AgentServer& server);

  // What is offered, and what is done wrongly.
  std::uint32_t rounds = 1;  // then ComeBack with this window
  wire::ComeBack come_back{
      .earliest_ms = 0, .latest_ms = 1, .reason = wire::ComeBackReason::kNoWork};
  std::uint32_t ping_interval_ms = 30'000;
  ClientNumber client = 3;
  std::function<void(wire::Manifest&)> change_manifest;  // before it is signed
  std::function<void(wire::SignedManifest&)> change_signature;
  std::function<void(wire::Plan&)> change_plan;
  // True: handled, the usual answer is not given.
  std::function<bool(Peer&, const wire::Message&)> before;
  std::function<bool(Peer&, BytesView)> before_chunk;

  // What was taken.
  struct Update {
    wire::UploadBegin begin;
    Bytes body;
  };
  std::vector<Update> updates;
  std::uint32_t round = 1;  // open now

  [[nodiscard]] const Bytes& model() const { return model_; }
  [[nodiscard]] const crypto::SigningKey& key() const { return key_; }
  [[nodiscard]] wire::Manifest ManifestOf(std::uint32_t number);
  [[nodiscard]] wire::SignedManifest Signed(const wire::Manifest& manifest) const;
  [[nodiscard]] wire::HelloAck Ack() const;
  void Offer(Peer& peer);
  void SendModel(Peer& peer, const wire::DownloadRequest& request);
  void BeginUpload(Peer& peer, const wire::UploadBegin& begin);
  void Acknowledge(Peer& peer, wire::Disposition disposition);

 private:
  void On(Peer& peer, const wire::Message& message);
  void OnChunk(Peer& peer, BytesView payload);
  [[nodiscard]] Bytes Plan();

  AgentServer& server_;
  crypto::SigningKey key_ = crypto::SigningKey::Make().value();
  Bytes model_;
  std::optional<wire::UploadBegin> begun_;
  std::optional<wire::ChunkReceiver> receiver_;
  Bytes received_;
  std::map<UpdateId, Bytes> partial_;
};

class AgentWorld {
 public:
  AgentWorld();

  TemporaryFolder folder;
  AgentServer server;
  Aggregator aggregator{server};
  agent::AgentSettings settings;
  config::ClientConfig config;     // its data
  agent::TrainingDevice device{};  // the CPU
  std::vector<std::string> lines;  // of the log
  std::string host = "127.0.0.1";
  std::uint32_t haste = 1000;
  std::optional<crypto::Validity> validity;  // of the device's certificate

  [[nodiscard]] std::string StorageFolder() const { return (folder.path() / "device").string(); }
  // As an enrolment would leave it.
  void Enrol();
  // One process from start to end; the server runs meanwhile and goes on.
  [[nodiscard]] agent::Outcome RunAgent();
  // At another address than that of its enrolment.
  [[nodiscard]] agent::Outcome RunAgentAt(const net::Endpoint& endpoint);
  // As RunAgent, then the server is stopped.
  [[nodiscard]] agent::Outcome RunToEnd();
  [[nodiscard]] bool Logged(const std::string& part) const;

 private:
  bool is_started_ = false;
};

}  // namespace skep::test
