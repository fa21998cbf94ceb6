#include "tests/client/scripted_server.h"

namespace skep::client::test {

wire::Plan MakePlan() {
  const std::vector<std::string> lines{"dense 3"};
  const auto model = model::ModelSpec::Parse({4}, lines).value();
  wire::Plan plan;
  for (const model::TensorSpec& tensor : model.layout()->tensors()) {
    plan.layout.push_back({.name = tensor.name,
                           .dtype = static_cast<wire::TensorType>(tensor.dtype),
                           .shape = tensor.shape,
                           .role = static_cast<wire::TensorRole>(tensor.role)});
  }
  plan.params = {{.key = "client.learning_rate", .number = 0.5, .text = {}},
                 {.key = "client.batch_size", .number = 4, .text = {}},
                 {.key = "client.local_epochs", .number = 1, .text = {}},
                 {.key = "model.input", .number = 0, .text = "4"},
                 {.key = "model.layer.0001", .number = 0, .text = lines[0]}};
  plan.metrics = {"train_loss", "loss", "accuracy"};
  return plan;
}

Body MakeModel() {
  auto bytes = std::make_shared<Bytes>(15 * sizeof(float));
  for (std::size_t i = 0; i < bytes->size(); i += sizeof(float)) (*bytes)[i] = std::uint8_t(i);
  const Hash32 hash = Sha256::Of(*bytes);
  return {std::move(bytes), hash};
}

wire::TaskOffer OfferedTask::Message() const {
  return {.manifest = {.payload = payload.value_or(wire::EncodeManifest(manifest)),
                       .key_id = MakeId<KeyId>(3),
                       .signature = MakeId<wire::Signature>(4)},
          .offer_ttl_ms = offer_ttl_ms,
          .report_within_ms = report_within_ms,
          .detach_allowed = true,
          .client = client,
          .last_included = std::nullopt};
}

OfferedTask MakeTask(std::uint32_t round, wire::TaskKind kind) {
  const Bytes plan = wire::EncodePlan(MakePlan()).value();
  OfferedTask task;
  wire::Manifest& manifest = task.manifest;
  manifest.federation_id = MakeId<FederationId>(1);
  manifest.run_id = MakeId<RunId>(2);
  manifest.epoch = 1;
  manifest.round = round;
  manifest.attempt = 1;
  manifest.kind = kind;
  manifest.population = "pump";
  manifest.plan_sha256 = Sha256::Of(plan);
  manifest.plan_bytes = static_cast<std::uint32_t>(plan.size());
  manifest.model_sha256 = MakeModel().sha256;
  manifest.model_bytes = MakeModel().bytes->size();
  manifest.layout_sha256 = model::ModelSpec::Parse({4}, {"dense 3"}).value().layout()->hash();
  manifest.round_seed = MakeId<Seed32>(5);
  manifest.issued_at_ms = kWall;
  manifest.expires_at_ms = kWall + 20 * 60 * 1000;
  manifest.encodings = {wire::Encoding::kF32};
  manifest.max_weight = 1000;
  return task;
}

PendingUpdate MakeUpdate(const wire::TaskRef& task, wire::Encoding encoding) {
  const std::size_t size = encoding == wire::Encoding::kNone ? 0 : 15 * sizeof(float);
  PendingUpdate update;
  update.task = task;
  update.body.bytes = std::make_shared<const Bytes>(size, std::uint8_t{1});
  update.body.sha256 = Sha256::Of(*update.body.bytes);
  update.encoding = encoding;
  update.layout = MakeTask().manifest.layout_sha256;
  update.model = MakeModel().sha256;
  update.weight = 120;
  update.metrics = {{1, 0.75}};
  update.train_ms = 12;
  return update;
}

Script::Script(SessionConfig config) : session(std::move(config), device) {}

SessionConfig Script::MakeConfig() {
  SessionConfig config;
  config.population = "pump";
  config.federation = MakeId<FederationId>(1);
  config.max_model_bytes = 1000;
  config.max_update_bytes = 1000;
  return config;
}

wire::HelloAck Script::MakeAck() {
  return {.minor = 0,
          .software = "skep-aggregator 0.1.0",
          .federation_id = MakeId<FederationId>(1),
          .session_id = MakeId<SessionId>(9),
          .epoch = 1,
          .clock_ms = kWall,
          .ping_interval_ms = 30'000,
          .progress_interval_ms = 15'000,
          .max_hold_ms = 60'000,
          .chunk_bytes = kChunk,
          .renew_now = false,
          .signing_key_ids = {MakeId<KeyId>(3)},
          .reconnect_spread_ms = 0};
}

void Script::Step(Input input) {
  outputs = session.Step(now, std::move(input));
  for (const Output& output : outputs) {
    const auto* timer = std::get_if<ArmTimer>(&output);
    if (timer == nullptr) continue;
    armed_ = timer->timer;
    armed_after_ = timer->after;
  }
}

void Script::FireTimer() {
  Wait(armed_after_);
  Step(TimerFired{armed_});
}

void Script::ReachDeciding() {
  Connect();
  Offer(MakeTask());
  REQUIRE(session.state() == SessionState::kDeciding);
}

void Script::ReachDownloading() {
  device.plans[MakeTask().manifest.plan_sha256] = std::make_shared<const wire::Plan>(MakePlan());
  Connect();
  Offer(MakeTask());
  REQUIRE(session.state() == SessionState::kDownloading);
}

void Script::ReachTraining(const OfferedTask& task) {
  device.plans[MakeTask().manifest.plan_sha256] = std::make_shared<const wire::Plan>(MakePlan());
  device.model = MakeModel();
  if (session.state() == SessionState::kConnecting) Connect();
  Offer(task);
  REQUIRE(session.state() == SessionState::kTraining);
}

void Script::ReachUploading() {
  ReachTraining();
  Step(TrainingDone{.update = MakeUpdate(MakeTask().Ref())});
  REQUIRE(session.state() == SessionState::kUploading);
}

void Script::ReachSending() {
  ReachUploading();
  Hear(wire::UploadAccept{.transfer_id = 1, .offset = 0, .chunk_bytes = kChunk});
  REQUIRE(Get<SendBody>() != nullptr);
}

void Script::ReachSettling() {
  ReachSending();
  Step(BodySent{1});
  REQUIRE(session.state() == SessionState::kSettling);
}

int Script::Messages() const {
  int count = 0;
  for (const Output& output : outputs) count += std::holds_alternative<Send>(output) ? 1 : 0;
  return count;
}

const Note* Script::NoteOf(Note::Kind kind) const {
  for (const Output& output : outputs) {
    const auto* note = std::get_if<Note>(&output);
    if (note != nullptr && note->kind == kind) return note;
  }
  return nullptr;
}

Nanoseconds Script::ReconnectAfter() const {
  const auto* reconnect = Get<Reconnect>();
  return reconnect == nullptr ? Nanoseconds(-1) : reconnect->after;
}

void CheckDeclined(const Script& script, std::uint32_t code) {
  const auto* decline = script.Said<wire::TaskDecline>();
  REQUIRE(decline != nullptr);
  CHECK(decline->code == code);
  CHECK(script.Said<wire::TaskAccept>() == nullptr);
  CHECK(script.Said<wire::Poll>() != nullptr);
  CHECK(script.session.state() == SessionState::kPolling);
  const Note* note = script.NoteOf(Note::Kind::kDeclined);
  REQUIRE(note != nullptr);
  CHECK(note->code == static_cast<int>(code));
}

}  // namespace skep::client::test
