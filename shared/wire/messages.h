// The control messages and signed objects of the protocol as plain values.
//
// What a peer said, after the walker, protobuf and the rules across fields have accepted it: an
// enumeration holds a listed value, a required field is there, a text is in its character set. What
// only a session or a round can judge (legal now? known run? known encoding?) is not checked here.
// A number that was not sent reads 0, a list that was not sent is empty.
// Every member has an initialiser, so that a message is written by naming what it says.
//
// Made by codec.h; read by sessions and engines of both sides. Plain values, no thread rules.
// Source: Skep protocol 1.0, section 4 (names and field names are those of its table).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/wire/plan.h"

namespace skep::wire {

inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint32_t kMinor = 0;
inline constexpr std::uint32_t kMaxControlBytes = 65'536;
inline constexpr std::uint32_t kMaxPlanBytes = 61'440;
inline constexpr std::uint32_t kMaxManifestBytes = 2'048;
inline constexpr std::uint32_t kMaxKeyStatementBytes = 512;

using JoinSecret = FixedBytes<24, struct JoinSecretTag>;
using PublicKey = FixedBytes<32, struct PublicKeyTag>;  // Ed25519
using Signature = FixedBytes<64, struct SignatureTag>;  // Ed25519

enum class MessageId : std::uint16_t {
  kPing = 0x0001,
  kPong = 0x0002,
  kError = 0x0003,
  kGoodbye = 0x0004,
  kHello = 0x0010,
  kHelloAck = 0x0011,
  kPoll = 0x0012,
  kComeBack = 0x0013,
  kTaskOffer = 0x0014,
  kTaskAccept = 0x0015,
  kTaskDecline = 0x0016,
  kPlanRequest = 0x0017,
  kPlanReply = 0x0018,
  kProgress = 0x0019,
  kTaskFailed = 0x001A,
  kRoundClosed = 0x001B,
  kDownloadRequest = 0x0020,
  kDownloadBegin = 0x0021,
  kUploadBegin = 0x0022,
  kUploadAccept = 0x0023,
  kTransferProgress = 0x0024,
  kTransferCancel = 0x0025,
  kUpdateAck = 0x0026,
  kUpdateRefused = 0x0027,
  kRenewRequest = 0x0030,
  kRenewResult = 0x0031,
  kSigningKeyUpdate = 0x0032,
  kEnrolRequest = 0x0040,
  kEnrolResult = 0x0041,
};

enum class TaskKind : std::uint32_t { kTrain = 1, kEvaluate = 2, kRehearse = 3 };

// How an update body is written; tensor_codec.h has the sizes. A peer may name others in a list.
enum class Encoding : std::uint32_t {
  kNone = 0,  // evaluation: no body
  kF32 = 1,
  kF16 = 2,
  kBf16 = 3,
  kI8Block = 4,
  kTopK = 5,
  kPartialSum = 6,
};

// What the receiver of an error may do about it (section 12.1).
enum class RetryClass : std::uint32_t {
  kNever = 1,
  kSession = 2,
  kReconnect = 3,
  kRejoin = 4,
  kUpgrade = 5,
};

enum class GoodbyeReason : std::uint32_t { kDone = 1, kDraining = 2, kAppStop = 3 };

enum class ComeBackReason : std::uint32_t {
  kNoWork = 1,
  kRoundFull = 2,
  kPacing = 3,
  kDraining = 4,
  kOverloaded = 5,
  kPaused = 6,
  kQuarantined = 7,
};

enum class ProgressPhase : std::uint32_t {
  kDownloading = 1,
  kTraining = 2,
  kEncoding = 3,
  kUploading = 4,
};

enum class RoundClosedReason : std::uint32_t {
  kComplete = 1,
  kDeadline = 2,
  kAbandoned = 3,
  kStopped = 4,
};

enum class DownloadKind : std::uint32_t { kModel = 1 };

enum class Disposition : std::uint32_t { kAccepted = 1, kDuplicate = 2 };

// Names one attempt at one task of one run.
struct TaskRef {
  RunId run_id{};
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
  TaskKind kind = TaskKind::kTrain;

  friend auto operator<=>(const TaskRef&, const TaskRef&) = default;
};

// Bytes to verify before they are parsed, and who signed them. Never serialised again.
struct SignedManifest {
  Bytes payload{};  // a Manifest
  KeyId key_id{};
  Signature signature{};

  friend bool operator==(const SignedManifest&, const SignedManifest&) = default;
};

struct Ping {
  static constexpr MessageId kId = MessageId::kPing;
  std::uint64_t nonce = 0;

  friend bool operator==(const Ping&, const Ping&) = default;
};

struct Pong {
  static constexpr MessageId kId = MessageId::kPong;
  std::uint64_t nonce = 0;  // of the Ping answered

  friend bool operator==(const Pong&, const Pong&) = default;
};

// The message `Error` of the table; skep::Error is our own failure.
struct PeerError {
  static constexpr MessageId kId = MessageId::kError;
  std::uint32_t code = 0;
  RetryClass retry = RetryClass::kNever;
  std::uint32_t retry_after_ms = 0;
  std::uint32_t in_reply_to = 0;  // message id, or 0
  std::string text{};             // a catalogue entry, never a peer's bytes

  friend bool operator==(const PeerError&, const PeerError&) = default;
};

struct ComeBack {
  static constexpr MessageId kId = MessageId::kComeBack;
  std::uint32_t earliest_ms = 0;
  std::uint32_t latest_ms = 0;  // >= earliest_ms
  ComeBackReason reason = ComeBackReason::kNoWork;

  friend bool operator==(const ComeBack&, const ComeBack&) = default;
};

struct Goodbye {
  static constexpr MessageId kId = MessageId::kGoodbye;
  GoodbyeReason reason = GoodbyeReason::kDone;
  std::optional<ComeBack> come_back{};

  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

struct Hello {
  static constexpr MessageId kId = MessageId::kHello;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t min_minor = 0;
  std::string software{};
  std::string app_version{};
  std::uint64_t clock_ms = 0;
  std::vector<KeyId> known_key_ids{};

  friend bool operator==(const Hello&, const Hello&) = default;
};

struct HelloAck {
  static constexpr MessageId kId = MessageId::kHelloAck;
  std::uint32_t minor = 0;
  std::string software{};
  FederationId federation_id{};
  SessionId session_id{};
  std::uint32_t epoch = 0;
  std::uint64_t clock_ms = 0;
  std::uint32_t ping_interval_ms = 0;
  std::uint32_t progress_interval_ms = 0;
  std::uint32_t max_hold_ms = 0;
  std::uint32_t chunk_bytes = 0;
  bool renew_now = false;
  std::vector<KeyId> signing_key_ids{};
  std::uint32_t reconnect_spread_ms = 0;

  friend bool operator==(const HelloAck&, const HelloAck&) = default;
};

struct Poll {
  static constexpr MessageId kId = MessageId::kPoll;
  std::string population{};
  std::uint32_t hold_ms = 0;
  std::uint64_t max_model_bytes = 0;
  std::uint64_t max_update_bytes = 0;
  std::vector<Encoding> encodings{};   // unknown values are ignored
  std::vector<TaskKind> task_kinds{};  // unknown values are ignored
  std::optional<SignedManifest> evidence{};

  friend bool operator==(const Poll&, const Poll&) = default;
};

struct TaskOffer {
  static constexpr MessageId kId = MessageId::kTaskOffer;
  SignedManifest manifest{};
  std::uint32_t offer_ttl_ms = 0;
  std::uint32_t report_within_ms = 0;
  bool detach_allowed = false;
  ClientNumber client = 0;
  std::optional<UpdateId> last_included{};  // this device's latest update in a published model

  friend bool operator==(const TaskOffer&, const TaskOffer&) = default;
};

struct TaskAccept {
  static constexpr MessageId kId = MessageId::kTaskAccept;
  TaskRef task{};

  friend bool operator==(const TaskAccept&, const TaskAccept&) = default;
};

struct TaskDecline {
  static constexpr MessageId kId = MessageId::kTaskDecline;
  TaskRef task{};
  std::uint32_t code = 0;
  std::optional<SignedManifest> evidence{};

  friend bool operator==(const TaskDecline&, const TaskDecline&) = default;
};

struct PlanRequest {
  static constexpr MessageId kId = MessageId::kPlanRequest;
  Hash32 plan_sha256{};

  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

struct PlanReply {
  static constexpr MessageId kId = MessageId::kPlanReply;
  Hash32 plan_sha256{};
  Bytes plan{};  // a Plan; hashed as received

  friend bool operator==(const PlanReply&, const PlanReply&) = default;
};

struct Progress {
  static constexpr MessageId kId = MessageId::kProgress;
  TaskRef task{};
  ProgressPhase phase = ProgressPhase::kDownloading;
  std::uint32_t permille = 0;  // 0..1000

  friend bool operator==(const Progress&, const Progress&) = default;
};

struct TaskFailed {
  static constexpr MessageId kId = MessageId::kTaskFailed;
  TaskRef task{};
  std::uint32_t code = 0;

  friend bool operator==(const TaskFailed&, const TaskFailed&) = default;
};

struct RoundClosed {
  static constexpr MessageId kId = MessageId::kRoundClosed;
  TaskRef task{};
  RoundClosedReason reason = RoundClosedReason::kComplete;
  std::optional<ComeBack> come_back{};

  friend bool operator==(const RoundClosed&, const RoundClosed&) = default;
};

struct DownloadRequest {
  static constexpr MessageId kId = MessageId::kDownloadRequest;
  std::uint32_t transfer_id = 0;
  DownloadKind kind = DownloadKind::kModel;
  Hash32 sha256{};
  std::uint64_t offset = 0;

  friend bool operator==(const DownloadRequest&, const DownloadRequest&) = default;
};

struct DownloadBegin {
  static constexpr MessageId kId = MessageId::kDownloadBegin;
  std::uint32_t transfer_id = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint32_t chunk_bytes = 0;

  friend bool operator==(const DownloadBegin&, const DownloadBegin&) = default;
};

struct MetricValue {
  std::uint32_t id = 0;  // 1-based index into the plan's metric names
  double value = 0;      // admission drops one that is not finite

  friend bool operator==(const MetricValue&, const MetricValue&) = default;
};

struct UploadBegin {
  static constexpr MessageId kId = MessageId::kUploadBegin;
  std::uint32_t transfer_id = 0;
  UpdateId update_id{};
  TaskRef task{};
  Encoding encoding = Encoding::kNone;  // any value: admission judges it
  std::uint64_t size = 0;
  Hash32 sha256{};
  Hash32 layout_sha256{};
  Hash32 model_sha256{};
  std::uint32_t weight = 0;
  std::vector<MetricValue> metrics{};
  std::uint32_t train_ms = 0;

  friend bool operator==(const UploadBegin&, const UploadBegin&) = default;
};

struct UploadAccept {
  static constexpr MessageId kId = MessageId::kUploadAccept;
  std::uint32_t transfer_id = 0;
  std::uint64_t offset = 0;
  std::uint32_t chunk_bytes = 0;

  friend bool operator==(const UploadAccept&, const UploadAccept&) = default;
};

struct TransferProgress {
  static constexpr MessageId kId = MessageId::kTransferProgress;
  std::uint32_t transfer_id = 0;
  std::uint64_t received = 0;

  friend bool operator==(const TransferProgress&, const TransferProgress&) = default;
};

struct TransferCancel {
  static constexpr MessageId kId = MessageId::kTransferCancel;
  std::uint32_t transfer_id = 0;
  std::uint32_t code = 0;

  friend bool operator==(const TransferCancel&, const TransferCancel&) = default;
};

struct UpdateAck {
  static constexpr MessageId kId = MessageId::kUpdateAck;
  UpdateId update_id{};
  Hash32 sha256{};
  std::uint64_t seq = 0;  // durable sequence number
  Disposition disposition = Disposition::kAccepted;
  std::optional<ComeBack> come_back{};

  friend bool operator==(const UpdateAck&, const UpdateAck&) = default;
};

struct UpdateRefused {
  static constexpr MessageId kId = MessageId::kUpdateRefused;
  UpdateId update_id{};
  std::uint32_t code = 0;
  std::optional<ComeBack> come_back{};
  std::uint32_t transfer_id = 0;
  RetryClass retry = RetryClass::kNever;
  std::uint32_t retry_after_ms = 0;

  friend bool operator==(const UpdateRefused&, const UpdateRefused&) = default;
};

struct RenewRequest {
  static constexpr MessageId kId = MessageId::kRenewRequest;
  Bytes csr{};  // PKCS#10, DER

  friend bool operator==(const RenewRequest&, const RenewRequest&) = default;
};

struct RenewResult {
  static constexpr MessageId kId = MessageId::kRenewResult;
  Bytes certificate{};
  std::vector<Bytes> chain{};
  std::uint64_t not_after_ms = 0;

  friend bool operator==(const RenewResult&, const RenewResult&) = default;
};

struct SigningKeyUpdate {
  static constexpr MessageId kId = MessageId::kSigningKeyUpdate;
  Bytes payload{};  // a KeyStatement
  KeyId key_id{};
  Signature signature{};

  friend bool operator==(const SigningKeyUpdate&, const SigningKeyUpdate&) = default;
};

struct EnrolRequest {
  static constexpr MessageId kId = MessageId::kEnrolRequest;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  JoinSecret secret{};
  Bytes csr{};  // PKCS#10, DER
  std::string software{};
  std::string name_hint{};

  friend bool operator==(const EnrolRequest&, const EnrolRequest&) = default;
};

struct EnrolResult {
  static constexpr MessageId kId = MessageId::kEnrolResult;
  DeviceId device_id{};
  Bytes certificate{};
  std::vector<Bytes> chain{};
  std::vector<Bytes> server_ca{};
  std::vector<PublicKey> signing_keys{};
  std::string device_endpoint{};
  FederationId federation_id{};
  std::vector<std::string> populations{};
  std::uint64_t not_after_ms = 0;

  friend bool operator==(const EnrolResult&, const EnrolResult&) = default;
};

using Message =
    std::variant<Ping, Pong, PeerError, Goodbye, Hello, HelloAck, Poll, ComeBack, TaskOffer,
                 TaskAccept, TaskDecline, PlanRequest, PlanReply, Progress, TaskFailed, RoundClosed,
                 DownloadRequest, DownloadBegin, UploadBegin, UploadAccept, TransferProgress,
                 TransferCancel, UpdateAck, UpdateRefused, RenewRequest, RenewResult,
                 SigningKeyUpdate, EnrolRequest, EnrolResult>;

// What a SignedManifest's payload says: one task, its plan and model. One manifest a task.
struct Manifest {
  FederationId federation_id{};
  RunId run_id{};
  std::uint32_t epoch = 0;
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
  TaskKind kind = TaskKind::kTrain;
  std::string population{};
  Hash32 plan_sha256{};
  std::uint32_t plan_bytes = 0;
  Hash32 model_sha256{};
  std::uint64_t model_bytes = 0;
  Hash32 layout_sha256{};
  Seed32 round_seed{};
  std::uint64_t issued_at_ms = 0;
  std::uint64_t expires_at_ms = 0;
  std::vector<Encoding> encodings{};
  std::uint32_t max_weight = 0;  // 1 for uniform weighting

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// What a SigningKeyUpdate's payload says.
struct KeyStatement {
  FederationId federation_id{};
  PublicKey public_key{};
  std::uint64_t not_before_ms = 0;
  std::uint64_t retire_old_at_ms = 0;

  friend bool operator==(const KeyStatement&, const KeyStatement&) = default;
};

// One row of the table of messages.
struct MessageInfo {
  MessageId id;
  std::string_view name;  // as the protocol spells it
  std::uint32_t max_bytes;
  bool from_client;
  bool from_aggregator;
  bool enrolment;  // of the enrolment listener's connections
  bool session;    // of the device listener's connections
};

// The row of `id`, or null if no message of this protocol has it.
[[nodiscard]] const MessageInfo* FindMessage(std::uint16_t id);

[[nodiscard]] MessageId IdOf(const Message& message);
[[nodiscard]] std::string_view MessageName(MessageId id);  // "unknown" if there is no such message

}  // namespace skep::wire
