// Store: what must survive a crash, as transactions, and what recovery gives back.
//
// The engine decides and describes a change as a Transaction; a driver applies it and reports
// JobDone only when it is on disk. One writer at a time. Two implementations pass one contract
// suite: memory (tests) and SQLite. Source: docs/durability.md (transactions T1 to T7).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

// Driver's number of one upload; names its body. Never reused within a store.
using UploadNumber = std::uint64_t;

using TaskKind = wire::TaskKind;

// One attempt of one round of a run.
struct AttemptKey {
  RunId run;
  std::uint32_t round = 0;
  TaskKind kind = TaskKind::kTrain;
  std::uint32_t attempt = 0;

  friend auto operator<=>(const AttemptKey&, const AttemptKey&) = default;
};

enum class RoundState { kOpen, kClosing, kPublished, kAbandoned };
enum class RunState { kRunning, kPaused, kStopped, kFinished, kHalted };
enum class DeviceState { kActive, kQuarantined, kRevoked };

// What became of an assignment. kOffered and kAccepted are live; the others are final.
enum class AssignmentState {
  kOffered,
  kAccepted,
  kAcknowledged,
  kRefused,
  kDeclined,
  kFailed,
  kExpired
};

struct Metric {
  std::string name;
  double value = 0;
  std::uint32_t clients = 0;  // of a mean over clients; 0 = central
};

struct AssignmentRow {
  DeviceId device;
  ClientNumber client = 0;
  AssignmentState state = AssignmentState::kOffered;
  int code = 0;  // SKEP number of a state that is not a success
};

struct UpdateRow {
  DeviceId device;
  ClientNumber client = 0;
  UpdateId update;
  Hash32 sha256;
  std::uint64_t size = 0;
  wire::Encoding encoding = wire::Encoding::kNone;
  std::uint32_t weight = 0;
  double norm = 0;      // role 1
  double aux_norm = 0;  // role 4
  std::vector<Metric> metrics;
  std::uint32_t train_ms = 0;
  std::uint64_t seq = 0;    // given by the store at commit
  UploadNumber upload = 0;  // names the body; 0 = no body (evaluation)
};

struct RoundRow {
  AttemptKey key;
  std::uint32_t epoch = 1;
  RoundState state = RoundState::kOpen;
  wire::SignedManifest manifest;
  WallMs opened = 0;
  WallMs deadline = 0;
  Hash32 model_in;
  Hash32 model_out;
  std::uint64_t total_weight = 0;
  std::vector<Metric> metrics;
  std::string reason;  // of an abandoned attempt
};

struct RunRow {
  RunId id;
  std::string name;
  std::string population;
  RunState state = RunState::kRunning;
  int code = 0;  // why paused or halted
  std::string reason;
  std::string experiment_toml;  // the effective experiment file
  std::uint64_t seed = 0;
  Bytes plan;    // encoded plan of round 1
  Hash32 model;  // current
  std::uint32_t next_round = 1;
  std::uint32_t next_attempt = 1;
  std::uint32_t abandoned_in_a_row = 0;
  int scale = 0;
  std::string request_key;
};

// Transactions. A `run_state` kRunning leaves the run's state as it is: the end of a round does not
// wake a run that was paused meanwhile.

struct StartRunTx {
  RunRow run;
};
struct ChangeRunTx {
  RunId run;
  RunState state = RunState::kRunning;
  int code = 0;
  std::string reason;
};
struct OpenRoundTx {
  RoundRow round;
  Bytes plan;
  Hash32 plan_sha256;
  std::vector<AssignmentRow> cohort;
};  // T1
struct AssignTx {
  AttemptKey key;
  AssignmentRow assignment;
};  // T2
struct EndAssignmentTx {
  AttemptKey key;
  DeviceId device;
  AssignmentState state = AssignmentState::kDeclined;
  int code = 0;
};
struct UpdateTx {
  AttemptKey key;
  UpdateRow update;
};  // T3
struct CloseRoundTx {
  AttemptKey key;
};  // T4
struct PublishTx {
  AttemptKey key;
  Hash32 model_out;
  std::uint64_t total_weight = 0;
  std::vector<Metric> metrics;  // T5
  RunState run_state = RunState::kRunning;
  std::uint32_t next_round = 1;
  std::string reason;
};
struct AbandonTx {
  AttemptKey key;
  int code = 0;
  std::string reason;
  RunState run_state = RunState::kRunning;  // T6
  std::uint32_t next_attempt = 1;
  std::uint32_t abandoned_in_a_row = 0;
};
struct EvaluatedTx {
  AttemptKey key;
  std::vector<Metric> metrics;
  RunState run_state = RunState::kRunning;  // T7
  std::string reason;
};

using Transaction = std::variant<StartRunTx, ChangeRunTx, OpenRoundTx, AssignTx, EndAssignmentTx,
                                 UpdateTx, CloseRoundTx, PublishTx, AbandonTx, EvaluatedTx>;

// Recovery.

struct OpenRound {
  RoundRow round;
  std::vector<AssignmentRow> cohort;  // in the order of the cohort
  std::vector<UpdateRow> updates;     // acknowledged, by seq
};

// A client's latest update in a published round of a run.
struct ContributionRow {
  ClientNumber client = 0;
  UpdateId update;
  WallMs opened = 0;  // of that round
};

struct RunSnapshot {
  RunRow run;
  std::vector<OpenRound> open_rounds;  // states open and closing
  std::vector<RoundRow> rounds;  // the ended attempts, oldest first, for metrics and stop rules
  std::uint32_t evaluated_round = 0;           // last round with T7 (central), 0 = none
  std::vector<ContributionRow> contributions;  // one a client
};

struct DeviceRow {
  DeviceId device;
  DeviceState state = DeviceState::kActive;
  std::string hint;
  std::vector<std::pair<std::string, ClientNumber>> memberships;  // population, client number
  WallMs enrolled = 0;
  WallMs last_seen = 0;
  std::uint32_t strikes = 0;
};

struct StoreSnapshot {
  FederationId federation;
  std::uint32_t epoch = 1;
  std::uint64_t next_seq = 1;
  UploadNumber next_upload = 1;
  std::vector<RunSnapshot> runs;  // those not pruned, oldest first
};

// Gives the bytes of an upload while a transaction with its row is applied.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // Null if there is none.
  [[nodiscard]] virtual std::shared_ptr<const Bytes> Body(UploadNumber upload) = 0;
};

// The verdict stored for a (task, device), for a client that asks again.
struct StoredVerdict {
  UpdateId update;
  Hash32 sha256;
  std::uint64_t seq = 0;  // accepted, unless code is set
  int code = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // All or nothing, durable on return. Gives the sequence number of an UpdateTx (0 for others).
  // SKEP-4005 after a failed sync or commit: the caller must stop. A transaction that contradicts
  // what is stored is SKEP-4007 and changes nothing.
  [[nodiscard]] virtual Result<std::uint64_t> Apply(const Transaction& transaction, WallMs now,
                                                    BodySource& bodies) = 0;

  [[nodiscard]] virtual Result<StoreSnapshot> Load() = 0;
  [[nodiscard]] virtual Result<std::optional<StoredVerdict>> Verdict(const AttemptKey& task,
                                                                     const DeviceId& device) = 0;
  // Bytes of an acknowledged update of a round that has not ended.
  [[nodiscard]] virtual Result<Bytes> UpdateBody(UploadNumber upload) = 0;

  // A model is durable before the transaction that names it (SKEP-4007 otherwise). Idempotent.
  // SKEP-4008: the bytes have another hash. A model that no transaction has named is gone after a
  // restart.
  [[nodiscard]] virtual Status PutModel(const Hash32& hash, BytesView bytes) = 0;
  [[nodiscard]] virtual Result<Bytes> GetModel(const Hash32& hash) = 0;
  [[nodiscard]] virtual Result<Bytes> GetPlan(const Hash32& hash) = 0;
};

}  // namespace skep::aggregator
