#include "aggregator/engine/round_engine.h"

#include <utility>

#include <fmt/format.h>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {

class RoundEngine::Impl final : public Machine {
 public:
  using Machine::Machine;
};

RoundEngine::RoundEngine(EngineConfig config, EngineSnapshot recovered)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(recovered))) {}

RoundEngine::~RoundEngine() = default;

Outputs RoundEngine::Step(Now now, Input input) {
  return impl_->Step(now, std::move(input));
}

Outputs RoundEngine::Resume(Now now) {
  return impl_->Resume(now);
}

std::vector<RunView> RoundEngine::Runs() const {
  return impl_->Runs();
}

namespace {

constexpr int kStoreFailed = 4005;
constexpr int kStoreDamaged = 4006;
constexpr int kContradiction = 4007;
constexpr int kNotFinite = 2202;

// The alternative that the job promises; a driver that gives another one has a bug.
template <class T>
T* Expect(JobResult& result) {
  return std::get_if<T>(&result);
}

}  // namespace

Machine::Machine(EngineConfig config, EngineSnapshot recovered)
    : config_(std::move(config)),
      recovered_(std::move(recovered)),
      roster_(config_.absent_after),
      next_upload_(recovered_.store.next_upload) {}

Outputs Machine::Step(Now now, Input input) {
  if (has_failed_) return {};
  now_ = now;
  std::visit([this](auto& happened) { On(happened); }, input);
  Settle();
  return std::exchange(out_, {});
}

// What follows from everything that happened in this step.
void Machine::Settle() {
  while (!dirty_.empty() && !has_failed_) {
    const std::string population = *dirty_.begin();
    dirty_.erase(dirty_.begin());
    const auto runs = by_population_.find(population);
    if (runs == by_population_.end()) continue;
    for (Run* run : std::vector<Run*>(runs->second)) TrySelect(*run);
  }
  const Alarm holds{AlarmKind::kHolds, {}};
  const Alarm presence{AlarmKind::kPresence, {}};
  if (roster_.holds().empty() || roster_.holds().begin()->first == SteadyTime::max()) {
    alarms_.Clear(holds);
  } else {
    alarms_.Set(holds, roster_.holds().begin()->first);
  }
  if (roster_.watched().empty()) {
    alarms_.Clear(presence);
  } else {
    alarms_.Set(presence, roster_.watched().begin()->first);
  }
  if (has_failed_) alarms_.ClearAll();
  alarms_.Arm(out_);
}

void Machine::On(TimerFired& fired) {
  if (!alarms_.Fired(fired.timer)) return;
  for (const Alarm& alarm : alarms_.TakeDue(now_.steady)) OnAlarm(alarm);
}

void Machine::OnAlarm(const Alarm& alarm) {
  if (alarm.kind == AlarmKind::kHolds) return EndHolds();
  if (alarm.kind == AlarmKind::kPresence) return EndPresences();
  if (alarm.kind == AlarmKind::kStore) return TryWrite();
  Run* run = FindRun(alarm.run);
  if (run == nullptr) return;
  switch (alarm.kind) {
    case AlarmKind::kWindow:
      return EndWindow(*run);
    case AlarmKind::kDeadline:
      return BeginClosing(*run, CloseReason::kDeadline);
    case AlarmKind::kOffers:
      return ExpireOffers(*run);
    case AlarmKind::kLeases:
      return ExpireLeases(*run);
    default:
      return;
  }
}

void Machine::Start(JobKind kind, const AttemptKey& key, Job job, Place place) {
  JobUse use{.kind = kind, .key = key, .place = place, .again = {}};
  if (kind == JobKind::kFinish) use.again = job;
  Submit(next_job_++, std::move(use), std::move(job));
}

void Machine::Submit(JobId id, JobUse use, Job job) {
  jobs_.emplace(id, std::move(use));
  out_.push_back(StartJob{id, std::move(job)});
}

void Machine::Commit(JobKind kind, const AttemptKey& key, Transaction transaction, Place place) {
  const JobId id = next_job_++;
  if (kind == JobKind::kChange) FindRun(key.run)->change = id;
  CommitJob job{std::move(transaction)};
  JobUse use{.kind = kind, .key = key, .place = place, .again = {}};
  // A run that cannot be stored now is refused: its operator is there and hears it.
  if (kind != JobKind::kStart) use.again = job;
  // A report is tried at once: nothing that waits comes before it, and the driver sees it wanted.
  if (outage_ && kind != JobKind::kStart && kind != JobKind::kUpdate) {
    unwritten_.emplace(id, std::move(use));
  } else {
    Submit(id, std::move(use), std::move(job));
  }
}

void Machine::Tell(SessionNumber session, wire::Message message) {
  if (roster_.FindSession(session) == nullptr) return;
  out_.push_back(Send{session, std::move(message)});
}

Run* Machine::FindRun(const RunId& id) {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : found->second.get();
}

void Machine::Enter(Run& run, Phase phase) {
  run.phase = std::move(phase);
  run.since = now_.steady;
}

void Machine::On(JobDone& done) {
  const auto entry = jobs_.find(done.job);
  if (entry == jobs_.end()) return;
  JobUse use = std::move(entry->second);
  jobs_.erase(entry);
  auto* error = std::get_if<Error>(&done.result);
  if (error != nullptr && use.again && IsOutage(*error)) {
    return WaitForStore(done.job, std::move(use), std::move(*error));
  }
  if (error != nullptr && error->code == kContradiction && CameTooEarly(done.job, use)) {
    unwritten_.emplace(done.job, std::move(use));
    return;
  }
  if (error != nullptr) {
    JobFailed(use, std::move(*error));
  } else {
    JobSucceeded(use, done.result);
  }
  if (outage_ && outage_->trying == done.job && !has_failed_) OnTried();
}

void Machine::JobSucceeded(const JobUse& use, JobResult& result) {
  Run* run = FindRun(use.key.run);
  if (run != nullptr) JobSucceeded(*run, use, result);
}

void Machine::JobSucceeded(Run& run, const JobUse& use, JobResult& result) {
  switch (use.kind) {
    case JobKind::kStart:
      return OnStarted(run);
    case JobKind::kChange:
      return OnChanged(run);
    case JobKind::kOpen:
      return OnOpened(run, use.key);
    case JobKind::kAssign:
      return OnAssigned(run, use.key, use.place);
    case JobKind::kFold:
      return OnFolded(run, use.key);
    case JobKind::kPublish:
      return OnPublished(run, use.key);
    case JobKind::kAbandon:
      return OnAbandoned(run, use.key);
    case JobKind::kEvaluated:
      return OnEvaluationStored(run, use.key);
    case JobKind::kEndAssignment:
    case JobKind::kRelease:
      return;
    case JobKind::kClose:
      if (auto* phase = PhaseOf<Publishing>(use.key)) {
        phase->step = Publishing::Step::kFolding;
        TryFinish(run);
      }
      return;
    case JobKind::kSign:
      if (auto* done = Expect<Signed>(result)) {
        return OnSigned(run, use.key, std::move(done->manifest));
      }
      break;
    case JobKind::kUpdate:
      if (auto* done = Expect<Committed>(result)) {
        return OnAcknowledged(run, use.key, use.place, done->seq);
      }
      break;
    case JobKind::kFinish:
      if (auto* done = Expect<Finished>(result)) {
        return OnFinished(run, use.key, done->model);
      }
      break;
    case JobKind::kEvaluate:
      if (auto* done = Expect<Evaluated>(result)) {
        return OnEvaluated(run, use.key, std::move(*done));
      }
      break;
  }
  Halt(run, {9001, "a job ended with a result of another kind", ""});
}

void Machine::JobFailed(const JobUse& use, Error error) {
  // No way to write any more, or none to write what memory says: the store alone knows.
  if (error.code == kStoreFailed || error.code == kStoreDamaged || use.kind == JobKind::kChange) {
    has_failed_ = true;
    out_.push_back(EngineFailed{std::nullopt, std::move(error)});
    return;
  }
  Run* run = FindRun(use.key.run);
  if (run == nullptr || use.kind == JobKind::kRelease) return;
  if (use.kind == JobKind::kUpdate) {
    // The store holds that update id already (a peer's doing), or cannot take this one.
    return OnNotStored(*run, use.key, use.place, error.code == kContradiction);
  }
  if (use.kind == JobKind::kStart) {
    out_.push_back(EngineFailed{use.key.run, std::move(error)});
    return Forget(*run);
  }
  if (error.code == kContradiction &&
      (use.kind == JobKind::kAssign || use.kind == JobKind::kEndAssignment)) {
    // Written late, behind the end of the attempt: no longer of interest.
    const auto* collecting = PhaseOf<Collecting>(use.key);
    if (collecting == nullptr || collecting->closing) return;
  }
  if (use.kind == JobKind::kFinish && error.code == kNotFinite) {
    if (auto* phase = PhaseOf<Publishing>(use.key)) {
      Abandon(*run, std::move(phase->attempt), kNotFinite, std::move(error.message));
    }
    return;
  }
  Halt(*run, std::move(error));
}

// The run cannot go on, the others can.
void Machine::Halt(Run& run, Error error) {
  if (run.state == RunState::kHalted) return;
  const RunId id = run.spec->id;
  std::visit(
      [this](auto& phase) {
        if constexpr (requires { phase.attempt; }) {
          if (!phase.attempt) return;
          Dismiss(*phase.attempt);
          Start(JobKind::kRelease, phase.attempt->key, ReleaseJob{phase.attempt->key});
        }
      },
      run.phase);
  out_.push_back(EngineFailed{id, error});
  // What is not written yet is given up: the halt stands in its place.
  std::erase_if(unwritten_, [&](const auto& entry) { return entry.second.key.run == id; });
  ChangeState(run, RunState::kHalted, error.code, std::move(error.message));
}

}  // namespace skep::aggregator
