// Machine: the body of RoundEngine, shared by the .cc files of its phases. Nobody else includes
// this.
//
// One thread. Rules of the house: what a peer did wrong ends in an output to that peer; what
// depends on a job is emitted after its JobDone; phases change only through the Enter... functions.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "aggregator/engine/alarms.h"
#include "aggregator/engine/pace.h"
#include "aggregator/engine/phase.h"
#include "aggregator/engine/roster.h"
#include "aggregator/engine/round_engine.h"
#include "aggregator/engine/stop_tracker.h"

namespace skep::aggregator {

// What the operator asked for, to be done when the open attempt has ended.
enum class Wish { kNone, kPause, kStop, kStopNow };

struct Run {
  explicit Run(std::shared_ptr<const RunSpec> the_spec);

  std::shared_ptr<const RunSpec> spec;
  RunState state = RunState::kRunning;
  int code = 0;
  std::string reason;
  Wish wish = Wish::kNone;
  JobId change = 0;  // that writes `state`; 0 before the first
  Hash32 model;
  std::uint32_t next_round = 1;
  std::uint32_t next_attempt = 1;
  std::uint32_t abandoned_in_a_row = 0;

  Phase phase = Stopped{};
  SteadyTime since{};                // of the phase
  std::optional<AttemptKey> latest;  // the train attempt opened last
  std::unique_ptr<Attempt> last;     // ended, for those who come too late
  std::vector<Metric> last_metrics;
  StopTracker tracker;
  RoundPeriods periods;
  SteadyTime round_began{};

  // The encoded plan of the round at `plan_round`.
  Bytes plan;
  Hash32 plan_hash;
  std::uint32_t plan_round = 0;

  struct Contribution {
    UpdateId update;
    WallMs at = 0;
  };
  // Kept where min_separation or private tensors need it.
  bool keeps_contributions = false;
  std::unordered_map<ClientNumber, Contribution> contributions;
  WallMs counted_at = 0;  // separations are judged as of then while candidates are counted

  std::string request_key;

  [[nodiscard]] const std::string& population() const { return spec->population; }
  [[nodiscard]] bool IsOver() const {
    return state != RunState::kRunning && state != RunState::kPaused;
  }
};

class Machine {
 public:
  Machine(EngineConfig config, EngineSnapshot recovered);

  [[nodiscard]] Outputs Step(Now now, Input input);
  [[nodiscard]] Outputs Resume(Now now);
  [[nodiscard]] std::vector<RunView> Runs() const;

 private:
  enum class JobKind {
    kStart,
    kChange,
    kSign,
    kOpen,
    kAssign,
    kEndAssignment,
    kUpdate,
    kClose,
    kFold,
    kFinish,
    kPublish,
    kAbandon,
    kEvaluate,
    kEvaluated,
    kRelease,
  };
  struct JobUse {
    JobKind kind = JobKind::kRelease;
    AttemptKey key;  // of other jobs: the run alone
    Place place = 0;
    std::optional<Job> again;  // of a job that writes: what to do if the store could not
  };
  // While the store takes no writes. They wait in `unwritten_`, one is tried at a time.
  struct Outage {
    SteadyTime since;
    SteadyTime reminded;
    Nanoseconds wait{};  // before the next try
    JobId trying = 0;    // 0: none, the alarm is set
    Error error;         // of the latest try
  };
  struct Upload {
    AttemptKey key;
    Place place = 0;
    SessionNumber session = 0;
    wire::UploadBegin begin;
  };

  // round_engine.cc: dispatch.
  void On(JobDone& done);
  void On(TimerFired& fired);
  void JobSucceeded(const JobUse& use, JobResult& result);
  void JobSucceeded(Run& run, const JobUse& use, JobResult& result);
  void JobFailed(const JobUse& use, Error error);
  void Halt(Run& run, Error error);
  void OnAlarm(const Alarm& alarm);
  void Settle();
  void Start(JobKind kind, const AttemptKey& key, Job job, Place place = 0);
  void Commit(JobKind kind, const AttemptKey& key, Transaction transaction, Place place = 0);
  void Submit(JobId id, JobUse use, Job job);
  void Tell(SessionNumber session, wire::Message message);
  template <class Phased>
  Phased* PhaseOf(const AttemptKey& key);
  Run* FindRun(const RunId& id);
  void Enter(Run& run, Phase phase);

  // outage.cc: the store takes no writes for now.
  [[nodiscard]] static bool IsOutage(const Error& error);
  void WaitForStore(JobId id, JobUse use, Error error);
  [[nodiscard]] bool CameTooEarly(JobId id, const JobUse& use) const;
  void TryWrite();
  void OnTried();
  void PutOff(Assignment& assignment);
  void Announce(StoreWaiting::Step step);
  [[nodiscard]] bool IsMoot(JobId id, const JobUse& use) const;
  [[nodiscard]] bool HasUnwritten(const Run& run) const;

  // sessions.cc: who is there.
  void On(ClientJoined& joined);
  void On(ClientLeft& left);
  void On(ClientMessage& message);
  void On(DeviceChanged& changed);
  void On(Drain& drain);
  void OnPoll(Session& session, wire::Poll& poll);
  void GrantAgain(const Device& device, SessionNumber session);
  bool OfferAgain(Session& session, const std::string& population, ClientNumber client);
  void AnswerNotNow(const Session& session, const std::string& population,
                    wire::ComeBackReason reason);
  bool MayHold(const std::string& population, const Demand& demand) const;
  void EndHolds();
  void EndPresences();
  void EndAssignmentsOf(Device& device, int code, bool evaluations_only);
  bool TakeOver(Device& device, SessionNumber by);
  [[nodiscard]] Demand DemandOf(const std::string& population) const;
  [[nodiscard]] wire::ComeBack Pace(const std::string& population,
                                    wire::ComeBackReason reason) const;
  // Counts the device out, lets `change` change it, counts it in again.
  template <class F>
  void Change(Device& device, F change);
  void Tally(const Device& device, int sign);

  // phase_selecting.cc
  void EnterSelecting(Run& run, const AttemptKey& key);
  void Count(Run& run, Selecting& selecting);
  [[nodiscard]] bool IsCandidate(const Run& run, const AttemptKey& key, const Device& device,
                                 ClientNumber client) const;
  [[nodiscard]] static bool IsSeparated(const Run& run, ClientNumber client, WallMs at);
  [[nodiscard]] static bool Fits(const RunSpec& spec, TaskKind kind, const wire::Poll& poll);
  void On(Eligible& eligible);
  void TrySelect(Run& run);
  void EndWindow(Run& run);
  void DrawHeld(Run& run);

  // phase_opening.cc
  std::unique_ptr<Attempt> MakeAttempt(Run& run, const AttemptKey& key);
  void Open(Run& run, std::unique_ptr<Attempt> attempt);
  bool RefreshPlan(Run& run, std::uint32_t round);
  [[nodiscard]] wire::Manifest MakeManifest(const Run& run, const Attempt& attempt) const;
  void OnSigned(Run& run, const AttemptKey& key, wire::SignedManifest manifest);
  void OnOpened(Run& run, const AttemptKey& key);

  // phase_collecting.cc
  void Offer(Run& run, Attempt& attempt, Place place);
  void OnAccept(Session& session, const wire::TaskAccept& accept);
  void OnDecline(Session& session, const wire::TaskDecline& decline);
  void OnProgress(Session& session, const wire::Progress& progress);
  void OnFailed(Session& session, const wire::TaskFailed& failed);
  void OnAssigned(Run& run, const AttemptKey& key, Place place);
  void ExpireOffers(Run& run);
  void ExpireLeases(Run& run);
  void Refill(Run& run);
  Device* NextReplacement(Run& run, Attempt& attempt, ClientNumber& client);
  void EndAssignment(Attempt& attempt, Assignment& assignment, AssignmentState state, int code);
  void NoteStarted(Attempt& attempt, Assignment& assignment);
  void MaybeClose(Run& run);
  void BeginClosing(Run& run, CloseReason reason);
  void CountMissing(Attempt& attempt, const Assignment& assignment);
  void OnSettled(Run& run);
  void Report(Attempt& attempt, const Assignment& assignment, Outcome outcome, int code,
              std::string detail);
  // The live assignment that a message of the session is about, with its run; else nothing.
  struct Live {
    Run* run = nullptr;
    Attempt* attempt = nullptr;
    Assignment* assignment = nullptr;
  };
  Live FindLive(const Session& session, const wire::TaskRef& task);

  // uploads.cc
  void On(UploadOffered& offered);
  void On(UploadArrived& arrived);
  void On(UploadFinished& finished);
  void On(UploadAborted& aborted);
  [[nodiscard]] static Attempt* FindOpened(Run& run, const AttemptKey& key);
  bool AnswerFromMemory(const UploadOffered& offered, Attempt& attempt, Assignment& assignment);
  bool AnswerFromStore(const UploadOffered& offered, const std::string& population);
  [[nodiscard]] UploadFacts FactsOf(const Run& run, const Attempt* attempt,
                                    const Assignment* assignment, const UploadOffered& offered);
  void Admit(Attempt& attempt, Place place, UploadOffered& offered);
  void Refuse(SessionNumber session, const wire::UploadBegin& begin, int code);
  void RefuseLive(Run& run, Attempt& attempt, Assignment& assignment, const Upload& upload,
                  Refusal refusal);
  void SettleUpload(Attempt& attempt, Place place, UpdateRow row);
  void CancelUploadOf(Attempt& attempt, Assignment& assignment, int code);
  static void EndUpload(Attempt& attempt, Assignment& assignment);
  void OnAcknowledged(Run& run, const AttemptKey& key, Place place, std::uint64_t seq);
  void OnNotStored(Run& run, const AttemptKey& key, Place place, bool is_contradiction);
  void Acknowledge(SessionNumber session, const UpdateRow& update, wire::Disposition disposition,
                   const std::string& population);
  void Strike(const DeviceId& device, int code);
  void Fold(Run& run, Attempt& attempt);
  void OnFolded(Run& run, const AttemptKey& key);

  // phase_publishing.cc
  void EnterPublishing(Run& run, std::unique_ptr<Attempt> attempt, bool is_closed);
  void TryFinish(Run& run);
  void OnFinished(Run& run, const AttemptKey& key, const Hash32& model);
  void OnPublished(Run& run, const AttemptKey& key);
  void Abandon(Run& run, std::unique_ptr<Attempt> attempt, int code, std::string reason);
  void OnAbandoned(Run& run, const AttemptKey& key);
  [[nodiscard]] static std::string TooManyText(const Run& run, const std::string& last);
  [[nodiscard]] static std::string TooFewText(const Attempt& attempt, CloseReason reason);
  void CloseToClients(Attempt& attempt, wire::RoundClosedReason reason);
  void Retire(Run& run, std::unique_ptr<Attempt> attempt);
  void Dismiss(Attempt& attempt);

  [[nodiscard]] static std::vector<Metric> MeansOf(const Attempt& attempt);

  // phase_evaluating.cc
  [[nodiscard]] static std::string EndReason(const Run& run);
  [[nodiscard]] static bool IsCentralDue(const RunSpec& spec, std::uint32_t round);
  [[nodiscard]] static bool IsClientDue(const Run& run, std::uint32_t round);
  [[nodiscard]] static bool Ends(const Run& run, std::uint32_t round);
  void AfterPublished(Run& run, const AttemptKey& key);
  void OnEvaluated(Run& run, const AttemptKey& key, Evaluated evaluated);
  void FinishClientEvaluation(Run& run, std::unique_ptr<Attempt> attempt);
  void EndEmptyEvaluation(Run& run, const AttemptKey& key);
  void OnEvaluationStored(Run& run, const AttemptKey& key);
  void AfterCentral(Run& run, const AttemptKey& key);
  void RoundDone(Run& run, std::uint32_t round);
  void GoOn(Run& run);

  // phase_stopped.cc
  void On(StartRun& start);
  void On(ControlRun& control);
  void OnStarted(Run& run);
  void ChangeState(Run& run, RunState state, int code, std::string reason);
  void OnChanged(Run& run);
  void EnterStopped(Run& run);
  void StopOpenAttempt(Run& run);
  void Forget(Run& run);
  Run& Adopt(std::shared_ptr<const RunSpec> spec);

  // recovery.cc
  void Recover(RunSnapshot& snapshot, std::shared_ptr<const RunSpec> spec);
  void Reopen(Run& run, OpenRound& open);
  void GoOnAfter(Run& run, const RunSnapshot& snapshot);
  void RecoverDevices();
  [[nodiscard]] Result<std::unique_ptr<Attempt>> Restore(Run& run, OpenRound& open);
  void RestoreAssignment(Attempt& attempt, const AssignmentRow& row);

  // view.cc
  [[nodiscard]] RunView View(const Run& run) const;
  [[nodiscard]] std::string WaitingFor(const Run& run) const;

  EngineConfig config_;
  EngineSnapshot recovered_;
  Roster roster_;
  Alarms alarms_;
  std::map<RunId, std::unique_ptr<Run>> runs_;
  std::unordered_map<std::string, std::vector<Run*>> by_population_;  // not over
  std::unordered_map<JobId, JobUse> jobs_;
  std::optional<Outage> outage_;
  std::map<JobId, JobUse> unwritten_;  // in the order in which they are to be written
  std::unordered_map<UploadNumber, Upload> uploads_;
  std::set<std::string> dirty_;  // populations whose selecting runs are to be looked at
  JobId next_job_ = 1;
  UploadNumber next_upload_ = 1;
  bool is_draining_ = false;
  bool has_failed_ = false;
  Now now_;
  Outputs out_;
};

template <class F>
void Machine::Change(Device& device, F change) {
  Tally(device, -1);
  change();
  device.presence = roster_.Classify(device, now_.steady);
  Tally(device, +1);
}

// The run's phase if it is a `Phased` that holds this attempt.
template <class Phased>
Phased* Machine::PhaseOf(const AttemptKey& key) {
  Run* run = FindRun(key.run);
  if (run == nullptr) return nullptr;
  auto* phase = std::get_if<Phased>(&run->phase);
  return phase != nullptr && phase->attempt && phase->attempt->key == key ? phase : nullptr;
}

}  // namespace skep::aggregator
