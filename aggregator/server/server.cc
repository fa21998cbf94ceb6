#include "aggregator/server/server.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "aggregator/server/server_impl.h"
#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr int kDiskFailed = 4005;
constexpr int kDraining = 3337;
constexpr int kFirstDamage = 4006;
constexpr int kLastDamage = 4008;
constexpr int kExitDamaged = 5;
constexpr int kExitDiskFailed = 70;
constexpr Milliseconds kClosing{2000};
constexpr std::chrono::seconds kTryAgainAfter{10};
constexpr std::size_t kMostPlans = 64;
constexpr std::size_t kMostCounts = 10'000;

}  // namespace

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(ServerSetup setup) {
  SKEP_CHECK(setup.store && setup.log != nullptr);
  auto impl = std::make_unique<Impl>(std::move(setup));
  SKEP_TRY(impl->Start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::Wait() {
  return impl_->Wait();
}

void Server::Stop(StopKind kind) {
  impl_->Stop(kind);
}

Server::Impl::~Impl() {
  if (network_) network_->Stop(Milliseconds(0));
  [[maybe_unused]] const int code = Wait();
  workshop_.reset();  // finishes what it was given
}

int Server::Impl::Wait() {
  if (thread_.joinable()) thread_.join();
  EndQuestions();
  return exit_code_;
}

void Server::Impl::EndQuestions() {
  std::map<std::uint64_t, std::function<void(const Error&)>> unanswered;
  Error why;
  {
    const std::scoped_lock lock(end_mutex_);
    has_ended_ = true;
    why = end_;
    unanswered = std::exchange(questions_, {});
  }
  for (const auto& [number, give_up] : unanswered) give_up(why);
}

void Server::Impl::Stop(StopKind kind) {
  if (kind == StopKind::kNow) return network_->Stop(Milliseconds(0));
  network_->Post([this] { BeginDrain(); });
}

void Server::Impl::OnSignal() {
  if (is_draining_) return network_->Stop(Milliseconds(0));
  BeginDrain();
}

void Server::Impl::BeginDrain() {
  if (std::exchange(is_draining_, true)) return;
  log_.Write({.event = "service.draining", .message = "draining"});
  network_->StopListening();
  drain_until_ = ReadClock().steady + setup_.config.drain;
  Tell(Drain{});
  std::vector<SessionNumber> open;
  for (const auto& [number, session] : sessions_) open.push_back(number);
  for (const SessionNumber number : open) {
    if (ServerSession* session = FindSession(number)) session->Drain();
  }
  ArmAlarm();
  if (sessions_.empty()) EndDrain();
}

void Server::Impl::EndDrain() {
  log_.Write({.event = "service.stopped", .message = "stopped"});
  network_->Stop(kClosing);
}

// The disk did not keep what it was given: nothing more may be promised.
void Server::Impl::Fail(const Error& error) {
  if (std::exchange(has_failed_, true)) return;
  log_.Write({.level = LogLevel::kError,
              .code = error.code,
              .event = "store.halted",
              .message = error.message});
  const bool is_damaged = error.code >= kFirstDamage && error.code <= kLastDamage;
  exit_code_ = error.code == kDiskFailed ? kExitDiskFailed : is_damaged ? kExitDamaged : 1;
  {
    const std::scoped_lock lock(end_mutex_);
    end_ = error;
  }
  network_->Stop(Milliseconds(0));
}

void Server::Impl::CheckStore(const Status& status) {
  if (!status && status.error().code == kDiskFailed) Fail(status.error());
}

void Server::Impl::Tell(Input input) {
  if (has_failed_) return;
  Execute(engine_->Step(Time(), std::move(input)));
}

void Server::Impl::Execute(Outputs outputs) {
  for (Output& output : outputs) pending_.push_back(std::move(output));
  if (!is_pumping_) Pump();
}

// In order; what follows from an output is executed behind those that are there.
void Server::Impl::Pump() {
  is_pumping_ = true;
  while (!pending_.empty() && !has_failed_) {
    Output output = std::move(pending_.front());
    pending_.pop_front();
    std::visit([this](auto& what) { Do(what); }, output);
  }
  is_pumping_ = false;
  ArmAlarm();
}

void Server::Impl::ToSession(SessionNumber number, Output output) {
  if (ServerSession* session = FindSession(number)) session->FromEngine(std::move(output));
}

void Server::Impl::Do(ArmTimer& arm) {
  timers_[arm.timer] = arm.at;
  timers_by_time_.insert({arm.at, arm.timer});
}

void Server::Impl::Do(CancelTimer& cancel) {
  const auto timer = timers_.find(cancel.timer);
  if (timer == timers_.end()) return;
  timers_by_time_.erase({timer->second, timer->first});
  timers_.erase(timer);
}

void Server::Impl::Do(StartJob& start) {
  std::optional<RunId> changed;
  if (const auto* commit = std::get_if<CommitJob>(&start.job)) {
    if (const auto* begun = std::get_if<StartRunTx>(&commit->transaction)) changed = begun->run.id;
    if (const auto* change = std::get_if<ChangeRunTx>(&commit->transaction)) changed = change->run;
    if (const auto* open = std::get_if<OpenRoundTx>(&commit->transaction)) {
      if (plans_.emplace(open->plan_sha256, open->plan).second) {
        plans_in_order_.push_back(open->plan_sha256);
        if (plans_in_order_.size() > kMostPlans) {
          plans_.erase(plans_in_order_.front());
          plans_in_order_.pop_front();
        }
      }
    }
  } else if (const auto* release = std::get_if<ReleaseJob>(&start.job)) {
    std::erase_if(allowances_,
                  [&](const auto& entry) { return entry.first.attempt == release->key; });
    ForgetPartials(release->key);
  }
  BeginChange(changed);
  workshop_->Start(std::move(start.job), Time().wall,
                   [this, id = start.id, changed](JobResult result) {
                     std::optional<Error> error;
                     if (auto* failure = std::get_if<Error>(&result)) error = *failure;
                     Tell(JobDone{id, std::move(result)});
                     EndChange(changed, error);
                   });
}

void Server::Impl::BeginChange(const std::optional<RunId>& run) {
  const auto known = run ? runs_.find(*run) : runs_.end();
  if (known != runs_.end()) ++known->second.changes;
}

// A run that could not begin is forgotten by now. Any other change is tried again until the store
// takes it.
void Server::Impl::EndChange(const std::optional<RunId>& run, const std::optional<Error>& error) {
  const auto known = run ? runs_.find(*run) : runs_.end();
  if (known == runs_.end() || has_failed_) return;
  RunInfo& info = known->second;
  --info.changes;
  info.is_put_off = error.has_value();
  if (error) {
    for (const Reply<Done>& reply : std::exchange(info.waiting, {})) reply(PutOff(*error));
    return;
  }
  if (!std::exchange(info.is_stored, true)) {
    log_.Write({.event = "run.started",
                .message = "run started",
                .fields = {{"run", info.row.name}, {"population", info.row.population}}});
  }
  AnswerChanged(*run);
}

void Server::Impl::Do(EngineFailed& failed) {
  if (!failed.run) return Fail(failed.error);
  if (ForgetUnstored(*failed.run, failed.error)) return;
  log_.Write({.level = LogLevel::kError,
              .code = failed.error.code,
              .event = "run.halted",
              .message = failed.error.message,
              .fields = {{"run", NameOf(*failed.run)}}});
  const auto halted = runs_.find(*failed.run);
  if (halted == runs_.end()) return;
  for (const Reply<Done>& reply : std::exchange(halted->second.waiting, {})) reply(failed.error);
}

void Server::Impl::Do(Emit& emit) {
  std::visit([this](const auto& event) { OnEvent(event); }, emit.event);
  // Of a run that came to its end by a published round: no change of its own is on its way.
  if (const auto* ended = std::get_if<RunEnded>(&emit.event)) AnswerChanged(ended->run);
  if (const auto* waiting = std::get_if<StoreWaiting>(&emit.event)) {
    outage_.reset();
    if (waiting->step != StoreWaiting::Step::kEnded) outage_ = waiting->error;
  }
  while (counts_.size() > kMostCounts) counts_.erase(counts_.begin());
}

void Server::Impl::ArmAlarm() {
  SteadyTime next = drain_until_.value_or(SteadyTime::max());
  if (!timers_by_time_.empty()) next = std::min(next, timers_by_time_.begin()->first);
  if (!session_alarms_.empty()) next = std::min(next, session_alarms_.begin()->first);
  for (const auto& [device, until] : quarantines_) next = std::min(next, until);
  if (armed_ == next) return;
  armed_ = next;
  network_->SetAlarm(next);
}

void Server::Impl::OnAlarm() {
  armed_.reset();
  const Now now = Time();
  FireEngineTimers(now.steady);
  FireSessions(now.steady);
  ReleaseQuarantines(now);
  if (drain_until_ && *drain_until_ <= now.steady) {
    drain_until_.reset();
    for (const auto& [number, session] : sessions_) session->Refuse(kDraining);
    EndDrain();
  }
  ArmAlarm();
}

void Server::Impl::FireEngineTimers(SteadyTime now) {
  while (!timers_by_time_.empty() && timers_by_time_.begin()->first <= now) {
    const TimerId timer = timers_by_time_.begin()->second;
    timers_by_time_.erase(timers_by_time_.begin());
    timers_.erase(timer);
    Tell(TimerFired{timer});
  }
}

void Server::Impl::FireSessions(SteadyTime now) {
  while (!session_alarms_.empty() && session_alarms_.begin()->first <= now) {
    const SessionNumber number = session_alarms_.begin()->second;
    session_alarms_.erase(session_alarms_.begin());
    ServerSession* session = FindSession(number);
    if (session == nullptr) continue;
    session->alarm.reset();
    session->OnDeadline();
  }
}

void Server::Impl::ReleaseQuarantines(const Now& now) {
  for (auto entry = quarantines_.begin(); entry != quarantines_.end();) {
    if (entry->second > now.steady) {
      ++entry;
      continue;
    }
    const DeviceId device = entry->first;
    entry = quarantines_.erase(entry);
    workshop_->OnStore([this, device, wall = now.wall] {
      const Status released = store_.SetDeviceState(device, DeviceState::kActive, "aggregator",
                                                    "quarantine has ended", wall);
      network_->Post([this, device, released] {
        CheckStore(released);
        if (released) return Enlist(device, DeviceState::kActive);
        quarantines_[device] = Time().steady + kTryAgainAfter;
        ArmAlarm();
      });
    });
  }
}

}  // namespace skep::aggregator
