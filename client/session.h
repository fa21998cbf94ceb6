// Session: the client's side of the protocol as a state machine without I/O, clock or threads.
//
// The agent drives one over TLS; the simulator drives one per virtual client over memory. It is
// told what happened and says what to do; bulk bytes pass beside it as shared buffers, never
// through it. One thread at a time. Source: Skep protocol 1.0, sections 6.2, 7, 8 and 12.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/private_tensors.h"
#include "client/trainer.h"
#include "shared/base/clock.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::client {

using TimerId = std::uint64_t;

// Immutable bytes with their SHA-256, so that nobody hashes them twice.
struct Body {
  std::shared_ptr<const Bytes> bytes;
  Hash32 sha256;
};

// What a finished task leaves to be uploaded. Persisted before the first UploadBegin by a driver
// that persists.
struct PendingUpdate {
  wire::TaskRef task;
  UpdateId id;
  Body body;                                        // empty bytes for an evaluation
  wire::Encoding encoding = wire::Encoding::kNone;  // 0 for an evaluation
  Hash32 layout;
  Hash32 model;
  std::uint32_t weight = 0;
  std::vector<wire::MetricValue> metrics;
  std::uint32_t train_ms = 0;
  // What the device keeps under `id`, and never sends; null if the model has no such tensors.
  PrivateTensors own = nullptr;
};

// Inputs.

struct Connected {
  wire::HelloAck ack;
};  // after Hello and HelloAck
struct ServerMessage {
  wire::Message message;
};
struct ModelArrived {
  std::uint32_t transfer_id = 0;
  Body body;
};  // all chunks are in; hash computed by the driver
struct BodySent {
  std::uint32_t transfer_id = 0;
};
// Bytes of a transfer moved. Optional: the session then waits 60 s (download) or 120 s (upload) for
// the next sign of life, instead of the longest time that a transfer of that size may take.
struct BodyProgress {
  std::uint32_t transfer_id = 0;
};
struct TimerFired {
  TimerId timer = 0;
};
// The answer to a StartTraining. An update without id gets one from the Device.
struct TrainingDone {
  Result<PendingUpdate> update;
  // Of which task; decides whether the result is still wanted. If zero: the update's, or, of an
  // error, the task in training.
  wire::TaskRef task{};
};
// A session that was lost, or an attempt to connect that failed; not the close that a Reconnect
// orders.
struct Disconnected {
  int code = 0;
};
struct Stop {};  // finish nothing new; Goodbye and Finished
using Input = std::variant<Connected, ServerMessage, ModelArrived, BodySent, BodyProgress,
                           TimerFired, TrainingDone, Disconnected, Stop>;

// Outputs.

struct Send {
  wire::Message message;
};
// Stream `body` from `offset` as chunks of that transfer. A TransferCancel of it that the session
// sends ends it at the next chunk boundary.
struct SendBody {
  std::uint32_t transfer_id = 0;
  Body body;
  std::uint64_t offset = 0;
  std::uint32_t chunk_bytes = 0;
};
// Receive that transfer into memory or a file; `size` bytes in all, of which the first `offset` are
// here already (Device::HeldOf).
struct ReceiveBody {
  std::uint32_t transfer_id = 0;
  std::uint64_t size = 0;
  Hash32 sha256;
  std::uint64_t offset = 0;
};
struct StartTraining {
  wire::Manifest manifest;
  std::shared_ptr<const TrainingPlan> plan;
  std::shared_ptr<const wire::Plan> wire_plan;  // metric names, data specification
  Body model;
  ClientNumber client = 0;
  std::optional<UpdateId> last_included{};  // under which the device finds its private tensors
  PrivateTensors own = nullptr;             // these: the driver's to fill in
};
struct StopTraining {};  // the result is no longer wanted
struct ArmTimer {
  TimerId timer = 0;
  Nanoseconds after{};
};
// Before the UploadBegin that follows it. Kept until a Note says that it was contributed or
// refused.
struct Persist {
  PendingUpdate update;
};
struct Reconnect {
  Nanoseconds after{};
  std::string why;
};  // close if open, connect again after that
// Something a log and a history want.
struct Note {
  enum class Kind {
    kOffer,
    kDeclined,
    kContributed,
    kRefused,
    kClosed,
    kComeBack,
    kProblem
  } kind = Kind::kProblem;
  wire::TaskRef task{};
  int code = 0;
  std::string text{};
  std::uint32_t examples = 0;
  double loss = 0;
};
struct Finished {
  int code = 0;
  std::string why;
};  // the session is over: 0 by request, else why it cannot go on
using Output = std::variant<Send, SendBody, ReceiveBody, StartTraining, StopTraining, ArmTimer,
                            Persist, Reconnect, Note, Finished>;
using Outputs = std::vector<Output>;

// Decides what the Session must not: checks with keys, data and randomness that belong to the
// driver.
class Device {
 public:
  virtual ~Device() = default;
  // Signature and key of a manifest (3132, 3131). The simulator's accepts all.
  [[nodiscard]] virtual Status Verify(const wire::SignedManifest& manifest) = 0;
  // Own data against the plan's specification (7414), and how many examples there are for this kind
  // of task (7402).
  [[nodiscard]] virtual Result<std::uint32_t> CountExamples(const wire::Plan& plan,
                                                            wire::TaskKind kind) = 0;
  [[nodiscard]] virtual UpdateId NewUpdateId() = 0;
  // Uniform in [0, 1), for come-back windows and back-off (CSPRNG; purpose 16 in simulation).
  [[nodiscard]] virtual double Uniform() = 0;
  // A plan decoded earlier, or null; and the place to keep one.
  [[nodiscard]] virtual std::shared_ptr<const wire::Plan> CachedPlan(const Hash32& sha256) = 0;
  virtual void KeepPlan(const Hash32& sha256, std::shared_ptr<const wire::Plan> plan) = 0;
  // The same for what ReadTrainingPlan made of it. A session keeps its last one by itself: worth
  // overriding only where many sessions share plans.
  [[nodiscard]] virtual std::shared_ptr<const TrainingPlan> CachedTrainingPlan(const Hash32&) {
    return nullptr;
  }
  virtual void KeepTrainingPlan(const Hash32&, std::shared_ptr<const TrainingPlan>) {}
  [[nodiscard]] virtual std::optional<Body> CachedModel(const Hash32& sha256) = 0;
  // How many bytes of the beginning of this model are here, from a download that was cut off. Its
  // answer holds until the ReceiveBody that follows.
  [[nodiscard]] virtual std::uint64_t HeldOf(const Hash32&) { return 0; }
  // They were not the beginning of that model.
  virtual void DropHeld(const Hash32&) {}
};

// The highest task of a run that this device was offered, with the statement that proves it.
struct SeenTask {
  RunId run;
  std::uint32_t epoch = 0;
  std::uint32_t round = 0;
  wire::TaskKind kind = wire::TaskKind::kTrain;
  std::uint32_t attempt = 0;
  wire::SignedManifest manifest;
};

// What a client must remember from one process to the next, besides a pending update. A driver that
// persists saves it before it executes the outputs of a Step that changed `revision`.
struct SessionMemory {
  std::uint64_t revision = 0;
  std::vector<SeenTask> seen;                    // latest offered last, at most 32 runs
  std::optional<wire::SignedManifest> evidence;  // last task contributed to; travels in Poll
  std::optional<ClientNumber> client;            // of this population, from the first offer
  std::uint32_t failures = 0;                    // n of the back-off
  WallMs next_check_in = 0;                      // not to connect earlier
};

struct SessionConfig {
  std::string population;
  std::optional<FederationId> federation;  // pinned at enrolment
  std::uint64_t max_model_bytes = 0;
  std::uint64_t max_update_bytes = 0;
  std::vector<wire::Encoding> encodings{wire::Encoding::kF32};
  std::optional<PendingUpdate> pending;  // from an earlier process
  SessionMemory memory;                  // the same
  bool once = false;                     // Finished after one ComeBack or one contribution
};

enum class SessionState {
  kIdle,
  kConnecting,
  kReady,
  kPolling,
  kDeciding,
  kDownloading,
  kTraining,
  kUploading,
  kSettling,
  kBackOff
};

class Session {
 public:
  // `device` must outlive the session.
  Session(SessionConfig config, Device& device);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  [[nodiscard]] Outputs Step(Now now, Input input);
  [[nodiscard]] SessionState state() const;
  [[nodiscard]] const SessionMemory& memory() const;
  // What it waits for, in words, and since when.
  [[nodiscard]] std::string WaitingFor() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skep::client
