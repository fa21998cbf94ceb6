// Inputs and outputs of the RoundEngine: the complete seam between the aggregator's core and its
// drivers.
//
// Plain values. The network server and the simulator produce the same inputs and execute the same
// outputs; they differ by transport and clock alone. Source: Skep protocol 1.0, section 18.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aggregator/engine/run_spec.h"
#include "aggregator/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/ids.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

using SessionNumber = std::uint64_t;  // driver's number of a connection, never reused
using TimerId = std::uint64_t;
using JobId = std::uint64_t;

struct Membership {
  std::string population{};
  ClientNumber client = 0;
};

// --- jobs: heavy or blocking work, done by the driver
// -----------------------------------------------------------------

struct CommitJob {
  Transaction transaction{};
};
struct SignJob {
  Bytes payload{};
};  // an encoded wire::Manifest
// Adds acknowledged updates of an attempt to its sum. The first Fold of an attempt starts the sum
// from nothing.
struct FoldJob {
  AttemptKey key{};
  std::vector<UpdateRow> updates{};
};
// Makes the next model from the attempt's sum and `base`, and makes it durable.
struct FinishJob {
  AttemptKey key{};
  Hash32 base{};
};
struct EvaluateJob {
  RunId run{};
  std::uint32_t round = 0;
  Hash32 model{};
};
// Bodies and sums of the attempt are no longer needed.
struct ReleaseJob {
  AttemptKey key{};
};
using Job = std::variant<CommitJob, SignJob, FoldJob, FinishJob, EvaluateJob, ReleaseJob>;

struct Committed {
  std::uint64_t seq = 0;
};
struct Signed {
  wire::SignedManifest manifest{};
};
struct Finished {
  Hash32 model{};
};
struct Evaluated {
  std::vector<Metric> metrics{};
  std::uint64_t examples = 0;
};  // a metric that is undefined is left out
struct JobOk {};
// SKEP-2202 from Finish: the new model is not finite (message names the tensor). Anything else
// fails the run or the engine.
using JobResult = std::variant<JobOk, Committed, Signed, Finished, Evaluated, Error>;

// --- inputs
// -----------------------------------------------------------------------------------------------------------

struct ClientJoined {
  SessionNumber session = 0;
  DeviceId device{};
  std::vector<Membership> memberships{};
  std::uint32_t minor = 0;
};
struct ClientLeft {
  SessionNumber session = 0;
  int code = 0;
};
// Poll, TaskAccept, TaskDecline, Progress or TaskFailed, already walked, parsed and legal in the
// session's state.
struct ClientMessage {
  SessionNumber session = 0;
  wire::Message body{};
};
struct UploadOffered {
  SessionNumber session = 0;
  wire::UploadBegin begin{};
  std::optional<StoredVerdict> prior{};
};
// The whole body has arrived and is being inspected; UploadFinished follows whatever happens. From
// here a close of the attempt waits for it. A driver that inspects at once may leave it out.
struct UploadArrived {
  UploadNumber upload = 0;
};
// The whole body has arrived and was inspected (protocol 9.2, B1 to B4).
struct UploadFinished {
  UploadNumber upload = 0;
  int code = 0;
  double norm = 0;
  double aux_norm = 0;
  std::string detail{};
};
struct UploadAborted {
  UploadNumber upload = 0;
  int code = 0;
};
struct JobDone {
  JobId job = 0;
  JobResult result{};
};
struct TimerFired {
  TimerId timer = 0;
};
// A device was enrolled, revoked or quarantined; already durable.
struct DeviceChanged {
  DeviceId device{};
  DeviceState state = DeviceState::kActive;
  std::vector<Membership> memberships{};
};
// Simulation of large populations: stands for a held Poll of each of these clients. Session and
// device are made of the number.
struct Eligible {
  std::string population{};
  std::vector<ClientNumber> clients{};
};
struct StartRun {
  std::shared_ptr<const RunSpec> spec{};
  std::string experiment_toml{};
  std::string request_key{};
};
struct ControlRun {
  RunId run{};
  enum class Action { kPause, kResume, kStop, kStopNow } action = Action::kPause;
};
struct Drain {};  // no new rounds or offers; sessions are told to come back later

using Input = std::variant<ClientJoined, ClientLeft, ClientMessage, UploadOffered, UploadArrived,
                           UploadFinished, UploadAborted, JobDone, TimerFired, DeviceChanged,
                           Eligible, StartRun, ControlRun, Drain>;

// --- outputs
// ----------------------------------------------------------------------------------------------------------

struct Send {
  SessionNumber session = 0;
  wire::Message message{};
};
// What the session may download from now on.
struct Grant {
  SessionNumber session = 0;
  Hash32 plan{};
  Hash32 model{};
};
struct AdmitUpload {
  SessionNumber session = 0;
  std::uint32_t transfer_id = 0;
  UploadNumber upload = 0;
  wire::UploadBegin begin{};
  std::uint64_t offset = 0;  // bytes of the body that the driver has already
};
struct RefuseUpload {
  SessionNumber session = 0;
  std::uint32_t transfer_id = 0;
  UpdateId update{};
  int code = 0;
};
// An upload that was admitted is no longer wanted.
struct CancelUpload {
  UploadNumber upload = 0;
  int code = 0;
};
struct Disconnect {
  SessionNumber session = 0;
  int code = 0;
};
struct ArmTimer {
  TimerId timer = 0;
  SteadyTime at{};
};
struct CancelTimer {
  TimerId timer = 0;
};
struct StartJob {
  JobId id = 0;
  Job job{};
};
struct RoundPublished {
  RunId run{};
  std::uint32_t round = 0;
  Hash32 model{};
};
struct EngineFailed {
  std::optional<RunId> run{};
  Error error{};
};  // without a run: the process must stop

// What people and metrics want to know. None of these changes the protocol.
enum class Outcome { kOk, kRejected, kFailed, kDropped, kLate };

struct ClientOutcome {
  AttemptKey key{};
  ClientNumber client = 0;
  DeviceId device{};
  Outcome outcome = Outcome::kOk;
  int code = 0;
  std::string detail{};
  UpdateRow update{};  // of an accepted or rejected one
};
struct AttemptCounts {
  std::uint32_t invited = 0, declined = 0, started = 0, ok = 0, rejected = 0, failed = 0,
                dropped = 0, late = 0;
};
struct AttemptEnded {
  AttemptKey key{};
  bool published = false;
  int code = 0;
  std::string reason{};  // of an abandoned attempt
  AttemptCounts counts{};
  std::vector<Metric>
      metrics{};   // train_loss, or the evaluation's; central metrics come with CentralEvaluated
  Hash32 model{};  // current after the attempt
};
struct CentralEvaluated {
  RunId run{};
  std::uint32_t round = 0;
  std::vector<Metric> metrics{};
};
struct SelectionOpened {
  AttemptKey key{};
};  // the engine holds Polls for this attempt
struct RunEnded {
  RunId run{};
  RunState state = RunState::kFinished;
  int code = 0;
  std::string reason{};
};
// An update of this device was refused in a way that counts against it. At the limit the driver
// quarantines it durably and says so with DeviceChanged.
struct DeviceStruck {
  DeviceId device{};
  std::uint32_t strikes = 0;
  int code = 0;
  bool is_at_limit = false;
};
// The store takes no writes for now. The engine keeps what it wants written and tries again until
// all of it is; meanwhile new updates are refused with 3404.
struct StoreWaiting {
  enum class Step { kBegan, kGoesOn, kEnded } step = Step::kBegan;
  Error error{};           // of the latest try
  Nanoseconds lasted{};    // since the first failed write
  std::size_t writes = 0;  // that wait
};
using Event = std::variant<ClientOutcome, AttemptEnded, CentralEvaluated, SelectionOpened, RunEnded,
                           DeviceStruck, StoreWaiting>;
struct Emit {
  Event event{};
};

using Output = std::variant<Send, Grant, AdmitUpload, RefuseUpload, CancelUpload, Disconnect,
                            ArmTimer, CancelTimer, StartJob, RoundPublished, EngineFailed, Emit>;
using Outputs = std::vector<Output>;

}  // namespace skep::aggregator
