// The walker's table: one line a field, as section 4 of the protocol lists them.
#include <array>

#include "shared/wire/preparse.h"

namespace skep::wire {
namespace {

using enum FieldType;

constexpr std::uint32_t kAnyU32 = 0xFFFFFFFFU;

constexpr FieldRule U32(std::uint32_t number, std::string_view name,
                        std::uint32_t limit = kAnyU32) {
  return {.number = number, .name = name, .type = kU32, .limit = limit};
}
constexpr FieldRule Enum(std::uint32_t number, std::string_view name, std::uint32_t last) {
  return {.number = number, .name = name, .type = kEnum, .limit = last};
}
constexpr FieldRule Plain(std::uint32_t number, std::string_view name, FieldType type) {
  return {.number = number, .name = name, .type = type};
}
constexpr FieldRule U64(std::uint32_t number, std::string_view name) {
  return Plain(number, name, kU64);
}
constexpr FieldRule Name(std::uint32_t number, std::string_view name) {
  return Plain(number, name, kName);
}
constexpr FieldRule Label(std::uint32_t number, std::string_view name) {
  return Plain(number, name, kLabel);
}
constexpr FieldRule Exactly(std::uint32_t number, std::string_view name, std::uint32_t size) {
  return {.number = number, .name = name, .type = kFixedBytes, .limit = size};
}
constexpr FieldRule AtMost(std::uint32_t number, std::string_view name, std::uint32_t size) {
  return {.number = number, .name = name, .type = kBytes, .limit = size};
}
constexpr FieldRule Text(std::uint32_t number, std::string_view name, std::uint32_t size) {
  return {.number = number, .name = name, .type = kText, .limit = size};
}
constexpr FieldRule Sub(std::uint32_t number, std::string_view name, const MessageRule& message) {
  return {.number = number, .name = name, .type = kMessage, .message = &message};
}
constexpr FieldRule Need(FieldRule field) {
  field.is_required = true;
  return field;
}
constexpr FieldRule List(FieldRule field, std::uint32_t most) {
  field.is_list = true;
  field.most = most;
  return field;
}

constexpr std::array kTaskRefFields{
    Need(Exactly(1, "run_id", 16)),
    Need(U32(2, "round")),
    Need(U32(3, "attempt")),
    Need(Enum(4, "kind", 3)),
};
constexpr MessageRule kTaskRef{"TaskRef", kTaskRefFields};

constexpr std::array kSignedManifestFields{
    Need(AtMost(1, "payload", kMaxManifestBytes)),
    Need(Exactly(2, "key_id", 8)),
    Need(Exactly(3, "signature", 64)),
};
constexpr MessageRule kSignedManifest{"SignedManifest", kSignedManifestFields};

constexpr std::array kPingFields{Need(Plain(1, "nonce", kFixed64))};
constexpr MessageRule kPing{"Ping", kPingFields};
constexpr MessageRule kPong{"Pong", kPingFields};

constexpr std::array kErrorFields{
    Need(U32(1, "code")),  Need(Enum(2, "retry", 5)), U32(3, "retry_after_ms"),
    U32(4, "in_reply_to"), Text(5, "text", 200),
};
constexpr MessageRule kError{"Error", kErrorFields};

constexpr std::array kComeBackFields{
    U32(1, "earliest_ms"),
    Need(U32(2, "latest_ms")),
    Need(Enum(3, "reason", 7)),
};
constexpr MessageRule kComeBack{"ComeBack", kComeBackFields};

constexpr std::array kGoodbyeFields{
    Need(Enum(1, "reason", 3)),
    Sub(2, "come_back", kComeBack),
};
constexpr MessageRule kGoodbye{"Goodbye", kGoodbyeFields};

constexpr std::array kHelloFields{
    Need(U32(1, "major")),
    U32(2, "minor"),
    U32(3, "min_minor"),
    Need(Text(4, "software", 64)),
    Text(5, "app_version", 32),
    U64(6, "clock_ms"),
    List(Exactly(7, "known_key_ids", 8), 4),
};
constexpr MessageRule kHello{"Hello", kHelloFields, true};

constexpr std::array kHelloAckFields{
    U32(1, "minor"),
    Need(Text(2, "software", 64)),
    Need(Exactly(3, "federation_id", 16)),
    Need(Exactly(4, "session_id", 8)),
    Need(U32(5, "epoch")),
    Need(U64(6, "clock_ms")),
    Need(U32(7, "ping_interval_ms")),
    Need(U32(8, "progress_interval_ms")),
    U32(9, "max_hold_ms"),
    Need(U32(10, "chunk_bytes")),
    Plain(11, "renew_now", kBool),
    Need(List(Exactly(12, "signing_key_ids", 8), 4)),
    U32(13, "reconnect_spread_ms"),
};
constexpr MessageRule kHelloAck{"HelloAck", kHelloAckFields, true};

constexpr std::array kPollFields{
    Need(Name(1, "population")),
    U32(2, "hold_ms"),
    Need(U64(3, "max_model_bytes")),
    Need(U64(4, "max_update_bytes")),
    Need(List(Plain(5, "encodings", kCount), 16)),
    Need(List(Plain(6, "task_kinds", kCount), 8)),
    Sub(7, "evidence", kSignedManifest),
};
constexpr MessageRule kPoll{"Poll", kPollFields};

constexpr std::array kTaskOfferFields{
    Need(Sub(1, "manifest", kSignedManifest)),
    Need(U32(2, "offer_ttl_ms")),
    Need(U32(3, "report_within_ms")),
    Plain(4, "detach_allowed", kBool),
    U32(5, "client"),
    Exactly(6, "last_included", 16),
};
constexpr MessageRule kTaskOffer{"TaskOffer", kTaskOfferFields};

constexpr std::array kTaskAcceptFields{Need(Sub(1, "task", kTaskRef))};
constexpr MessageRule kTaskAccept{"TaskAccept", kTaskAcceptFields};

constexpr std::array kTaskDeclineFields{
    Need(Sub(1, "task", kTaskRef)),
    Need(U32(2, "code")),
    Sub(3, "evidence", kSignedManifest),
};
constexpr MessageRule kTaskDecline{"TaskDecline", kTaskDeclineFields};

constexpr std::array kPlanRequestFields{Need(Exactly(1, "plan_sha256", 32))};
constexpr MessageRule kPlanRequest{"PlanRequest", kPlanRequestFields};

constexpr std::array kPlanReplyFields{
    Need(Exactly(1, "plan_sha256", 32)),
    Need(AtMost(2, "plan", kMaxPlanBytes)),
};
constexpr MessageRule kPlanReply{"PlanReply", kPlanReplyFields};

constexpr std::array kProgressFields{
    Need(Sub(1, "task", kTaskRef)),
    Need(Enum(2, "phase", 4)),
    U32(3, "permille", 1000),
};
constexpr MessageRule kProgress{"Progress", kProgressFields};

constexpr std::array kTaskFailedFields{Need(Sub(1, "task", kTaskRef)), Need(U32(2, "code"))};
constexpr MessageRule kTaskFailed{"TaskFailed", kTaskFailedFields};

constexpr std::array kRoundClosedFields{
    Need(Sub(1, "task", kTaskRef)),
    Need(Enum(2, "reason", 4)),
    Sub(3, "come_back", kComeBack),
};
constexpr MessageRule kRoundClosed{"RoundClosed", kRoundClosedFields};

constexpr std::array kDownloadRequestFields{
    Need(U32(1, "transfer_id")),
    Need(Enum(2, "kind", 1)),
    Need(Exactly(3, "sha256", 32)),
    U64(4, "offset"),
};
constexpr MessageRule kDownloadRequest{"DownloadRequest", kDownloadRequestFields};

constexpr std::array kDownloadBeginFields{
    Need(U32(1, "transfer_id")),
    Need(U64(2, "size")),
    U64(3, "offset"),
    Need(U32(4, "chunk_bytes")),
};
constexpr MessageRule kDownloadBegin{"DownloadBegin", kDownloadBeginFields};

constexpr std::array kMetricFields{Need(U32(1, "id")), Plain(2, "value", kAnyDouble)};
constexpr MessageRule kMetric{"Metric", kMetricFields};

constexpr std::array kUploadBeginFields{
    Need(U32(1, "transfer_id")),
    Need(Exactly(2, "update_id", 16)),
    Need(Sub(3, "task", kTaskRef)),
    U32(4, "encoding"),
    U64(5, "size"),
    Need(Exactly(6, "sha256", 32)),
    Need(Exactly(7, "layout_sha256", 32)),
    Need(Exactly(8, "model_sha256", 32)),
    Need(U32(9, "weight")),
    List(Sub(10, "metrics", kMetric), 32),
    U32(11, "train_ms"),
};
constexpr MessageRule kUploadBegin{"UploadBegin", kUploadBeginFields};

constexpr std::array kUploadAcceptFields{
    Need(U32(1, "transfer_id")),
    U64(2, "offset"),
    Need(U32(3, "chunk_bytes")),
};
constexpr MessageRule kUploadAccept{"UploadAccept", kUploadAcceptFields};

constexpr std::array kTransferProgressFields{
    Need(U32(1, "transfer_id")),
    Need(U64(2, "received")),
};
constexpr MessageRule kTransferProgress{"TransferProgress", kTransferProgressFields};

constexpr std::array kTransferCancelFields{Need(U32(1, "transfer_id")), Need(U32(2, "code"))};
constexpr MessageRule kTransferCancel{"TransferCancel", kTransferCancelFields};

constexpr std::array kUpdateAckFields{
    Need(Exactly(1, "update_id", 16)), Need(Exactly(2, "sha256", 32)), Need(U64(3, "seq")),
    Need(Enum(4, "disposition", 2)),   Sub(5, "come_back", kComeBack),
};
constexpr MessageRule kUpdateAck{"UpdateAck", kUpdateAckFields};

constexpr std::array kUpdateRefusedFields{
    Need(Exactly(1, "update_id", 16)), Need(U32(2, "code")),      Sub(3, "come_back", kComeBack),
    Need(U32(4, "transfer_id")),       Need(Enum(5, "retry", 5)), U32(6, "retry_after_ms"),
};
constexpr MessageRule kUpdateRefused{"UpdateRefused", kUpdateRefusedFields};

constexpr std::array kRenewRequestFields{Need(AtMost(1, "csr", 2048))};
constexpr MessageRule kRenewRequest{"RenewRequest", kRenewRequestFields};

constexpr std::array kRenewResultFields{
    Need(AtMost(1, "certificate", 4096)),
    List(AtMost(2, "chain", 4096), 2),
    Need(U64(3, "not_after_ms")),
};
constexpr MessageRule kRenewResult{"RenewResult", kRenewResultFields};

constexpr std::array kSigningKeyUpdateFields{
    Need(AtMost(1, "payload", kMaxKeyStatementBytes)),
    Need(Exactly(2, "key_id", 8)),
    Need(Exactly(3, "signature", 64)),
};
constexpr MessageRule kSigningKeyUpdate{"SigningKeyUpdate", kSigningKeyUpdateFields};

constexpr std::array kEnrolRequestFields{
    Need(U32(1, "major")),          U32(2, "minor"),
    Need(Exactly(3, "secret", 24)), Need(AtMost(4, "csr", 2048)),
    Need(Text(5, "software", 64)),  Name(6, "name_hint"),
};
constexpr MessageRule kEnrolRequest{"EnrolRequest", kEnrolRequestFields, true};

constexpr std::array kEnrolResultFields{
    Need(Exactly(1, "device_id", 16)),
    Need(AtMost(2, "certificate", 4096)),
    List(AtMost(3, "chain", 4096), 2),
    Need(List(AtMost(4, "server_ca", 4096), 2)),
    Need(List(Exactly(5, "signing_keys", 32), 4)),
    Need(Text(6, "device_endpoint", 255)),
    Need(Exactly(7, "federation_id", 16)),
    Need(List(Name(8, "populations"), 16)),
    Need(U64(9, "not_after_ms")),
};
constexpr MessageRule kEnrolResult{"EnrolResult", kEnrolResultFields};

constexpr std::array kManifestFields{
    Need(Exactly(1, "federation_id", 16)),
    Need(Exactly(2, "run_id", 16)),
    Need(U32(3, "epoch")),
    Need(U32(4, "round")),
    Need(U32(5, "attempt")),
    Need(Enum(6, "kind", 3)),
    Need(Name(7, "population")),
    Need(Exactly(8, "plan_sha256", 32)),
    Need(U32(9, "plan_bytes")),
    Need(Exactly(10, "model_sha256", 32)),
    Need(U64(11, "model_bytes")),
    Need(Exactly(12, "layout_sha256", 32)),
    Need(Exactly(13, "round_seed", 32)),
    Need(U64(14, "issued_at_ms")),
    Need(U64(15, "expires_at_ms")),
    Need(List(U32(16, "encodings"), 8)),
    Need(U32(17, "max_weight")),
};

constexpr std::array kKeyStatementFields{
    Need(Exactly(1, "federation_id", 16)),
    Need(Exactly(2, "public_key", 32)),
    Need(U64(3, "not_before_ms")),
    Need(U64(4, "retire_old_at_ms")),
};

constexpr std::array kTensorSpecFields{
    Need(Plain(1, "name", kKey)),
    Need(Enum(2, "dtype", 6)),
    List(Plain(3, "shape", kCount), 8),
    Enum(4, "role", 4),
};
constexpr MessageRule kTensorSpec{"TensorSpec", kTensorSpecFields};

constexpr std::array kParamFields{
    Need(Plain(1, "key", kKey)),
    Plain(2, "number", kDouble),
    Text(3, "text", 256),
};
constexpr MessageRule kParam{"Param", kParamFields};

constexpr std::array kFeatureFields{
    Need(Label(1, "name")),     Need(Enum(2, "kind", 2)),           Plain(3, "offset", kDouble),
    Plain(4, "scale", kDouble), List(Label(5, "categories"), 1000),
};
constexpr MessageRule kFeature{"Feature", kFeatureFields};

constexpr std::array kDataSpecFields{
    Need(Enum(1, "task", 3)),
    List(Sub(2, "features", kFeature), 4096),
    List(Label(3, "classes"), 4096),
    Label(4, "label"),
};
constexpr MessageRule kDataSpec{"DataSpec", kDataSpecFields};

constexpr std::array kPlanFields{
    Need(Enum(1, "schema", 1)),
    Need(List(Sub(2, "layout", kTensorSpec), 1024)),
    List(Sub(3, "params", kParam), 1024),
    List(Name(4, "metrics"), 32),
    Sub(5, "data", kDataSpec),
};

}  // namespace

constexpr MessageRule kSignedManifestRule = kSignedManifest;
constexpr MessageRule kManifestRule{"Manifest", kManifestFields};
constexpr MessageRule kPlanRule{"Plan", kPlanFields};
constexpr MessageRule kKeyStatementRule{"KeyStatement", kKeyStatementFields};

const MessageRule* RuleOf(MessageId id) {
  switch (id) {
    case MessageId::kPing:
      return &kPing;
    case MessageId::kPong:
      return &kPong;
    case MessageId::kError:
      return &kError;
    case MessageId::kGoodbye:
      return &kGoodbye;
    case MessageId::kHello:
      return &kHello;
    case MessageId::kHelloAck:
      return &kHelloAck;
    case MessageId::kPoll:
      return &kPoll;
    case MessageId::kComeBack:
      return &kComeBack;
    case MessageId::kTaskOffer:
      return &kTaskOffer;
    case MessageId::kTaskAccept:
      return &kTaskAccept;
    case MessageId::kTaskDecline:
      return &kTaskDecline;
    case MessageId::kPlanRequest:
      return &kPlanRequest;
    case MessageId::kPlanReply:
      return &kPlanReply;
    case MessageId::kProgress:
      return &kProgress;
    case MessageId::kTaskFailed:
      return &kTaskFailed;
    case MessageId::kRoundClosed:
      return &kRoundClosed;
    case MessageId::kDownloadRequest:
      return &kDownloadRequest;
    case MessageId::kDownloadBegin:
      return &kDownloadBegin;
    case MessageId::kUploadBegin:
      return &kUploadBegin;
    case MessageId::kUploadAccept:
      return &kUploadAccept;
    case MessageId::kTransferProgress:
      return &kTransferProgress;
    case MessageId::kTransferCancel:
      return &kTransferCancel;
    case MessageId::kUpdateAck:
      return &kUpdateAck;
    case MessageId::kUpdateRefused:
      return &kUpdateRefused;
    case MessageId::kRenewRequest:
      return &kRenewRequest;
    case MessageId::kRenewResult:
      return &kRenewResult;
    case MessageId::kSigningKeyUpdate:
      return &kSigningKeyUpdate;
    case MessageId::kEnrolRequest:
      return &kEnrolRequest;
    case MessageId::kEnrolResult:
      return &kEnrolResult;
  }
  return nullptr;
}

}  // namespace skep::wire
