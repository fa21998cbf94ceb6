#include "tests/client/agent_world.h"

#include <algorithm>

#include "client/agent/state.h"
#include "client/cli/data_source.h"
#include "client/embed/app_host.h"
#include "crypto/pki/request.h"
#include "shared/base/rng.h"
#include "shared/base/sha256.h"
#include "shared/model/model_spec.h"
#include "shared/wire/codec.h"

namespace skep::test {
namespace {

constexpr std::uint32_t kChunkBytes = wire::kSmallestChunkBytes;
// Many outputs that nobody uses make the model larger than a chunk.
constexpr std::uint32_t kHidden = 3000;

model::ModelSpec Model() {
  return model::ModelSpec::Parse({2}, {"dense " + std::to_string(kHidden), "relu", "dense 2"})
      .value();
}

RunId TheRun() {
  RunId id;
  id.bytes.fill(0xA1);
  return id;
}

wire::Plan MakePlan() {
  const model::ModelSpec model = Model();
  wire::Plan plan;
  for (const model::TensorSpec& tensor : model.layout()->tensors()) {
    plan.layout.push_back({.name = tensor.name,
                           .dtype = static_cast<wire::TensorType>(tensor.dtype),
                           .shape = tensor.shape,
                           .role = static_cast<wire::TensorRole>(tensor.role)});
  }
  plan.params = {{.key = "client.learning_rate", .number = 0.1, .text = {}},
                 {.key = "client.batch_size", .number = 4, .text = {}},
                 {.key = "client.local_epochs", .number = 1, .text = {}},
                 {.key = "model.input", .number = 0, .text = "2"},
                 {.key = "model.layer.0001", .number = 0, .text = model.lines()[0]},
                 {.key = "model.layer.0002", .number = 0, .text = model.lines()[1]},
                 {.key = "model.layer.0003", .number = 0, .text = model.lines()[2]}};
  plan.metrics = {"train_loss", "loss", "accuracy"};
  plan.data = wire::DataSpec{.task = wire::DataTask::kClassification,
                             .features = {{.name = "a"}, {.name = "b"}},
                             .classes = {"no", "yes"},
                             .label = "y"};
  return plan;
}

std::string Table() {
  std::string table = "b,a,y\n";
  for (int row = 0; row < 20; ++row) {
    table += std::to_string(row) + "." + std::to_string(row % 7) + "," + std::to_string(20 - row) +
             (row % 3 == 0 ? ",yes\n" : ",no\n");
  }
  return table;
}

}  // namespace

Aggregator::Aggregator(AgentServer& server) : server_(server) {
  const model::Params params = model::InitialParams(Model(), model::Initialiser::kFanIn, 42);
  const BytesView bytes = AsBytes(params.values());
  model_.assign(bytes.begin(), bytes.end());
  server.on_message = [this](Peer& peer, const wire::Message& message) { On(peer, message); };
  server.on_chunk = [this](Peer& peer, BytesView payload) { OnChunk(peer, payload); };
}

Bytes Aggregator::Plan() {
  wire::Plan plan = MakePlan();
  if (change_plan) change_plan(plan);
  return wire::EncodePlan(plan).value();
}

wire::Manifest Aggregator::ManifestOf(std::uint32_t number) {
  const Bytes plan = Plan();
  const WallMs now = ReadClock().wall;
  wire::Manifest manifest;
  manifest.federation_id = server_.pki().federation;
  manifest.run_id = TheRun();
  manifest.epoch = 1;
  manifest.round = number;
  manifest.attempt = 1;
  manifest.population = kPopulation;
  manifest.plan_sha256 = Sha256::Of(plan);
  manifest.plan_bytes = static_cast<std::uint32_t>(plan.size());
  manifest.model_sha256 = Sha256::Of(model_);
  manifest.model_bytes = model_.size();
  manifest.layout_sha256 = Model().layout()->hash();
  manifest.round_seed = RoundSeed(42, number);
  manifest.issued_at_ms = now;
  manifest.expires_at_ms = now + 20 * 60 * 1000;
  manifest.encodings = {wire::Encoding::kF32};
  manifest.max_weight = 1000;
  if (change_manifest) change_manifest(manifest);
  return manifest;
}

wire::SignedManifest Aggregator::Signed(const wire::Manifest& manifest) const {
  wire::SignedManifest statement;
  statement.payload = wire::EncodeManifest(manifest);
  statement.key_id = key_.id();
  statement.signature = key_.Sign(crypto::SignedKind::kManifest, statement.payload).value();
  if (change_signature) change_signature(statement);
  return statement;
}

wire::HelloAck Aggregator::Ack() const {
  wire::HelloAck ack;
  ack.software = "skep-aggregator test";
  ack.federation_id = server_.pki().federation;
  ack.session_id.bytes.fill(9);
  ack.epoch = 1;
  ack.clock_ms = ReadClock().wall;
  ack.ping_interval_ms = ping_interval_ms;
  ack.progress_interval_ms = 15'000;
  ack.max_hold_ms = 60'000;
  ack.chunk_bytes = kChunkBytes;
  ack.signing_key_ids = {key_.id()};
  return ack;
}

void Aggregator::Offer(Peer& peer) {
  peer.Send(wire::TaskOffer{.manifest = Signed(ManifestOf(round)),
                            .offer_ttl_ms = 600'000,
                            .report_within_ms = 600'000,
                            .detach_allowed = true,
                            .client = client,
                            .last_included = std::nullopt});
}

void Aggregator::SendModel(Peer& peer, const wire::DownloadRequest& request) {
  peer.Send(wire::DownloadBegin{request.transfer_id, model_.size(), request.offset, kChunkBytes});
  peer.SendBody(request.transfer_id, model_, request.offset, model_.size());
}

void Aggregator::BeginUpload(Peer& peer, const wire::UploadBegin& begin) {
  begun_ = begin;
  const auto stored = [&](const Update& update) {
    return update.begin.update_id == begin.update_id;
  };
  if (std::any_of(updates.begin(), updates.end(), stored)) {
    return Acknowledge(peer, wire::Disposition::kDuplicate);
  }
  received_ = partial_[begin.update_id];
  receiver_.emplace(wire::Transfer{.id = begin.transfer_id,
                                   .total = begin.size,
                                   .offset = received_.size(),
                                   .chunk_bytes = kChunkBytes});
  peer.Send(wire::UploadAccept{begin.transfer_id, received_.size(), kChunkBytes});
}

void Aggregator::Acknowledge(Peer& peer, wire::Disposition disposition) {
  wire::UpdateAck ack;
  ack.update_id = begun_->update_id;
  ack.sha256 = begun_->sha256;
  ack.seq = 17;
  ack.disposition = disposition;
  ack.come_back = come_back;
  peer.Send(ack);
}

void Aggregator::On(Peer& peer, const wire::Message& message) {
  if (before && before(peer, message)) return;
  if (std::holds_alternative<wire::Hello>(message)) return peer.Send(Ack());
  if (std::holds_alternative<wire::Poll>(message)) {
    return round <= rounds ? Offer(peer) : peer.Send(come_back);
  }
  if (const auto* request = std::get_if<wire::PlanRequest>(&message)) {
    return peer.Send(wire::PlanReply{request->plan_sha256, Plan()});
  }
  if (const auto* request = std::get_if<wire::DownloadRequest>(&message)) {
    return SendModel(peer, *request);
  }
  if (const auto* begin = std::get_if<wire::UploadBegin>(&message)) {
    return BeginUpload(peer, *begin);
  }
  if (std::holds_alternative<wire::TaskDecline>(message)) ++round;
}

void Aggregator::OnChunk(Peer& peer, BytesView payload) {
  if (before_chunk && before_chunk(peer, payload)) return;
  const Result<wire::Chunk> chunk = receiver_->Accept(payload);
  if (!chunk.has_value()) return peer.Cut();
  Append(received_, chunk->data);
  partial_[begun_->update_id] = received_;
  if (!receiver_->is_done()) return;
  updates.push_back({*begun_, received_});
  ++round;
  Acknowledge(peer, wire::Disposition::kAccepted);
}

AgentWorld::AgentWorld() {
  settings.software = "skep-client test";
  settings.population = kPopulation;
  settings.caps = {.cpu = 1, .memory = 64 << 20, .storage = 64 << 20, .bytes_per_day = 64 << 20};
  config.data.path = folder.Write("table.csv", Table()).string();
  config.data.label = "y";
  config.data.test_fraction = 0;
  config.data.client_test_fraction = 0.2;
  settings.limits.linger = Milliseconds(1000);
  settings.once = true;
}

void AgentWorld::Enrol() {
  const agent::Storage storage = agent::Storage::Create(StorageFolder()).value();
  const crypto::PrivateKey key = agent::KeepKey(storage).value();
  const Pki& pki = server.pki();
  const auto request = crypto::CertificateRequest::Check(crypto::MakeRequest(key).value()).value();
  const crypto::Certificate certificate =
      pki.device_ca
          .IssueDevice(request, {pki.federation, DeviceOf(7)}, validity.value_or(pki.Valid()))
          .value();
  wire::EnrolResult answer;
  answer.device_id = DeviceOf(7);
  answer.certificate = certificate.ToDer();
  answer.server_ca = {pki.server_ca.certificate().ToDer()};
  answer.signing_keys = {aggregator.key().public_key()};
  answer.device_endpoint = host + ":" + std::to_string(server.port());
  answer.federation_id = pki.federation;
  answer.populations = {kPopulation};
  answer.not_after_ms = certificate.NotAfter();
  const Hash32 pin = pki.server_ca.certificate().KeyHash();
  SKEP_CHECK(agent::StoreIdentity(storage, key, pin, answer, pki.now).has_value());
}

agent::Outcome AgentWorld::RunAgent() {
  if (!is_started_) server.Start();
  is_started_ = true;
  return RunAgentAt({host, server.port()});
}

agent::Outcome AgentWorld::RunAgentAt(const net::Endpoint& endpoint) {
  agent::Storage storage = agent::Storage::Open(StorageFolder()).value();
  agent::Identity identity = agent::LoadIdentity(storage).value();
  agent::State state = agent::LoadState(storage).value();
  settings.endpoint = endpoint;
  Log log({.format = LogFormat::kShortText,
           .level = LogLevel::kDebug,
           .sink = [this](LogLevel, std::string_view line) { lines.emplace_back(line); }});
  cli::FileSource source(config,
                         [&log](int code, const std::string& text) { log.Warning(code, text); });
  embed::Options options;
  options.eligibility = settings.eligibility;
  options.caps = settings.caps;
  embed::AppHost application(options, source.functions(), nullptr, log);
  application.UseDevice(device);
  agent::Loop loop(haste);
  agent::Agent agent(settings, storage, identity, state, loop, application, log);
  return agent.Run();
}

agent::Outcome AgentWorld::RunToEnd() {
  agent::Outcome outcome = RunAgent();
  server.Stop();
  return outcome;
}

bool AgentWorld::Logged(const std::string& part) const {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

}  // namespace skep::test
