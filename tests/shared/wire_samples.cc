#include "tests/shared/wire_samples.h"

#include <cstdlib>

namespace skep::wire::test {

std::string Samples::Letters(std::size_t longest) {
  std::string text(1 + stream_.Below(longest), 'a');
  for (char& letter : text) letter = static_cast<char>('a' + stream_.Below(26));
  return text;
}

Bytes Samples::Blob(std::size_t longest) {
  Bytes bytes(1 + stream_.Below(longest));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(stream_.Word());
  return bytes;
}

template <class Id>
Id Samples::AnyId() {
  Id id;
  for (std::uint8_t& byte : id.bytes) byte = static_cast<std::uint8_t>(stream_.Word());
  return id;
}

template <class Make>
auto Samples::Some(std::size_t least, std::size_t most, Make make) {
  std::vector<decltype(make())> list(least + stream_.Below(most - least + 1));
  for (auto& element : list) element = make();
  return list;
}

TaskRef Samples::Task() {
  return {.run_id = AnyId<RunId>(),
          .round = Positive(),
          .attempt = Positive(),
          .kind = OneOf<TaskKind>(3)};
}

SignedManifest Samples::Signed() {
  return {.payload = Blob(kMaxManifestBytes),
          .key_id = AnyId<KeyId>(),
          .signature = AnyId<Signature>()};
}

ComeBack Samples::Return() {
  ComeBack come_back;
  come_back.latest_ms = Positive();
  come_back.earliest_ms = static_cast<std::uint32_t>(stream_.Below(come_back.latest_ms));
  come_back.reason = OneOf<ComeBackReason>(7);
  return come_back;
}

std::optional<ComeBack> Samples::MaybeReturn() {
  return Coin() ? std::optional<ComeBack>(Return()) : std::nullopt;
}

void Samples::Fill(Ping& m) {
  m.nonce = U64() | 1;
}
void Samples::Fill(Pong& m) {
  m.nonce = U64() | 1;
}
void Samples::Fill(PeerError& m) {
  m = {.code = Positive(),
       .retry = OneOf<RetryClass>(5),
       .retry_after_ms = U32(),
       .in_reply_to = U32(),
       .text = Coin() ? Letters(200) : ""};
}
void Samples::Fill(Goodbye& m) {
  m = {.reason = OneOf<GoodbyeReason>(3), .come_back = MaybeReturn()};
}
void Samples::Fill(Hello& m) {
  m = {.major = Positive(),
       .minor = U32(),
       .min_minor = U32(),
       .software = Letters(64),
       .app_version = Coin() ? Letters(32) : "",
       .clock_ms = U64(),
       .known_key_ids = Some(0, 4, [this] { return AnyId<KeyId>(); })};
}
void Samples::Fill(HelloAck& m) {
  m = {.minor = U32(),
       .software = Letters(64),
       .federation_id = AnyId<FederationId>(),
       .session_id = AnyId<SessionId>(),
       .epoch = Positive(),
       .clock_ms = U64() | 1,
       .ping_interval_ms = Positive(),
       .progress_interval_ms = Positive(),
       .max_hold_ms = U32(),
       .chunk_bytes = Positive(),
       .renew_now = Coin(),
       .signing_key_ids = Some(1, 4, [this] { return AnyId<KeyId>(); }),
       .reconnect_spread_ms = U32()};
}
void Samples::Fill(Poll& m) {
  m = {.population = Letters(64),
       .hold_ms = U32(),
       .max_model_bytes = U64() | 1,
       .max_update_bytes = U64() | 1,
       .encodings = Some(1, 16, [this] { return Encoding{Positive()}; }),
       .task_kinds = Some(1, 8, [this] { return TaskKind{Positive()}; }),
       .evidence = {}};
  if (Coin()) m.evidence = Signed();
}
void Samples::Fill(ComeBack& m) {
  m = Return();
}
void Samples::Fill(TaskOffer& m) {
  m = {.manifest = Signed(),
       .offer_ttl_ms = Positive(),
       .report_within_ms = Positive(),
       .detach_allowed = Coin(),
       .client = U32(),
       .last_included = {}};
  if (Coin()) m.last_included = AnyId<UpdateId>();
}
void Samples::Fill(TaskAccept& m) {
  m = {.task = Task()};
}
void Samples::Fill(TaskDecline& m) {
  m = {.task = Task(), .code = Positive(), .evidence = {}};
  if (Coin()) m.evidence = Signed();
}
void Samples::Fill(PlanRequest& m) {
  m = {.plan_sha256 = AnyId<Hash32>()};
}
void Samples::Fill(PlanReply& m) {
  m = {.plan_sha256 = AnyId<Hash32>(), .plan = Blob(Coin() ? kMaxPlanBytes : 64)};
}
void Samples::Fill(Progress& m) {
  m = {.task = Task(),
       .phase = OneOf<ProgressPhase>(4),
       .permille = static_cast<std::uint32_t>(stream_.Below(1001))};
}
void Samples::Fill(TaskFailed& m) {
  m = {.task = Task(), .code = Positive()};
}
void Samples::Fill(RoundClosed& m) {
  m = {.task = Task(), .reason = OneOf<RoundClosedReason>(4), .come_back = MaybeReturn()};
}
void Samples::Fill(DownloadRequest& m) {
  m = {.transfer_id = Positive(),
       .kind = DownloadKind::kModel,
       .sha256 = AnyId<Hash32>(),
       .offset = U64()};
}
void Samples::Fill(DownloadBegin& m) {
  m = {.transfer_id = Positive(), .size = U64() | 1, .offset = U64(), .chunk_bytes = Positive()};
}
void Samples::Fill(UploadBegin& m) {
  m = {.transfer_id = Positive(),
       .update_id = AnyId<UpdateId>(),
       .task = Task(),
       .encoding = Encoding{U32()},
       .size = U64(),
       .sha256 = AnyId<Hash32>(),
       .layout_sha256 = AnyId<Hash32>(),
       .model_sha256 = AnyId<Hash32>(),
       .weight = Positive(),
       .metrics =
           Some(0, 32, [this] { return MetricValue{.id = Positive(), .value = stream_.Normal()}; }),
       .train_ms = U32()};
}
void Samples::Fill(UploadAccept& m) {
  m = {.transfer_id = Positive(), .offset = U64(), .chunk_bytes = Positive()};
}
void Samples::Fill(TransferProgress& m) {
  m = {.transfer_id = Positive(), .received = U64() | 1};
}
void Samples::Fill(TransferCancel& m) {
  m = {.transfer_id = Positive(), .code = Positive()};
}
void Samples::Fill(UpdateAck& m) {
  m = {.update_id = AnyId<UpdateId>(),
       .sha256 = AnyId<Hash32>(),
       .seq = U64() | 1,
       .disposition = OneOf<Disposition>(2),
       .come_back = MaybeReturn()};
}
void Samples::Fill(UpdateRefused& m) {
  m = {.update_id = AnyId<UpdateId>(),
       .code = Positive(),
       .come_back = MaybeReturn(),
       .transfer_id = Positive(),
       .retry = OneOf<RetryClass>(5),
       .retry_after_ms = U32()};
}
void Samples::Fill(RenewRequest& m) {
  m = {.csr = Blob(2048)};
}
void Samples::Fill(RenewResult& m) {
  m = {.certificate = Blob(4096),
       .chain = Some(0, 2, [this] { return Blob(4096); }),
       .not_after_ms = U64() | 1};
}
void Samples::Fill(SigningKeyUpdate& m) {
  m = {.payload = Blob(kMaxKeyStatementBytes),
       .key_id = AnyId<KeyId>(),
       .signature = AnyId<Signature>()};
}
void Samples::Fill(EnrolRequest& m) {
  m = {.major = Positive(),
       .minor = U32(),
       .secret = AnyId<JoinSecret>(),
       .csr = Blob(2048),
       .software = Letters(64),
       .name_hint = Coin() ? Letters(64) : ""};
}
void Samples::Fill(EnrolResult& m) {
  m = {.device_id = AnyId<DeviceId>(),
       .certificate = Blob(4096),
       .chain = Some(0, 2, [this] { return Blob(4096); }),
       .server_ca = Some(1, 2, [this] { return Blob(4096); }),
       .signing_keys = Some(1, 4, [this] { return AnyId<PublicKey>(); }),
       .device_endpoint = Letters(255),
       .federation_id = AnyId<FederationId>(),
       .populations = Some(1, 16, [this] { return Letters(64); }),
       .not_after_ms = U64() | 1};
}

template <std::size_t kAlternative>
Message Samples::AnyFrom(std::size_t kind) {
  if constexpr (kAlternative < kMessageKinds) {
    if (kind != kAlternative) return AnyFrom<kAlternative + 1>(kind);
    std::variant_alternative_t<kAlternative, Message> message;
    Fill(message);
    return message;
  } else {
    std::abort();
  }
}

Message Samples::Any(std::size_t kind) {
  return AnyFrom<0>(kind);
}

Manifest Samples::AnyManifest() {
  return {.federation_id = AnyId<FederationId>(),
          .run_id = AnyId<RunId>(),
          .epoch = Positive(),
          .round = Positive(),
          .attempt = Positive(),
          .kind = OneOf<TaskKind>(3),
          .population = Letters(64),
          .plan_sha256 = AnyId<Hash32>(),
          .plan_bytes = Positive(),
          .model_sha256 = AnyId<Hash32>(),
          .model_bytes = U64() | 1,
          .layout_sha256 = AnyId<Hash32>(),
          .round_seed = AnyId<Seed32>(),
          .issued_at_ms = U64() | 1,
          .expires_at_ms = U64() | 1,
          .encodings = Some(1, 8, [this] { return Encoding{U32()}; }),
          .max_weight = Positive()};
}

KeyStatement Samples::AnyKeyStatement() {
  return {.federation_id = AnyId<FederationId>(),
          .public_key = AnyId<PublicKey>(),
          .not_before_ms = U64() | 1,
          .retire_old_at_ms = U64() | 1};
}

Plan Samples::AnyPlan() {
  Plan plan;
  const std::size_t tensors = 1 + stream_.Below(6);
  for (std::size_t i = 0; i < tensors; ++i) {
    plan.layout.push_back({.name = "layer." + std::to_string(i) + "/" + Letters(20),
                           .dtype = OneOf<TensorType>(6),
                           .shape = Some(0, 4, [this] { return Upto(30); }),
                           .role = OneOf<TensorRole>(4)});
  }
  plan.params = Some(0, 5, [this] {
    return Param{
        .key = Letters(64), .number = stream_.Normal(), .text = Coin() ? Letters(256) : ""};
  });
  plan.metrics = Some(0, 32, [this] { return Letters(64); });
  if (Coin()) return plan;
  DataSpec& data = plan.data.emplace();
  data.task = OneOf<DataTask>(3);
  data.features = Some(0, 5, [this] {
    return Feature{.name = Letters(64),
                   .kind = OneOf<FeatureKind>(2),
                   .offset = stream_.Normal(),
                   .scale = Coin() ? 1 : stream_.Normal(),
                   .categories = Some(0, 5, [this] { return Letters(64); })};
  });
  data.classes = Some(0, 10, [this] { return Letters(63) + "\xC3\xA9"; });
  for (std::string& name : data.classes)
    name = name.substr(name.size() > 64 ? name.size() - 64 : 0);
  data.label = Coin() ? Letters(64) : "";
  return plan;
}

}  // namespace skep::wire::test
