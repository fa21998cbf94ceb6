#include "client/embed/client.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "client/agent/enrol.h"
#include "client/agent/forget.h"
#include "client/agent/history.h"
#include "client/agent/reach.h"
#include "client/agent/settings.h"
#include "client/agent/signals_blocked.h"
#include "client/embed/report.h"
#include "client/embed/result.h"
#include "crypto/pki/join_string.h"
#include "shared/base/try.h"

namespace skep::embed {
namespace {

constexpr Nanoseconds kProgressEvery = Milliseconds(100);
constexpr std::uint32_t kShortestRest = 1;  // s, of a started client after an error

std::int32_t LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return SKEP_LOG_ERROR;
    case LogLevel::kWarning:
      return SKEP_LOG_WARNING;
    case LogLevel::kInfo:
      return SKEP_LOG_INFO;
    case LogLevel::kDebug:
      break;
  }
  return SKEP_LOG_DEBUG;
}

std::int32_t PhaseOf(client::SessionState state) {
  using State = client::SessionState;
  switch (state) {
    case State::kDownloading:
      return SKEP_PHASE_DOWNLOAD;
    case State::kTraining:
      return SKEP_PHASE_TRAIN;
    case State::kUploading:
      return SKEP_PHASE_UPLOAD;
    case State::kPolling:
    case State::kSettling:
      return SKEP_PHASE_WAIT;
    default:
      return SKEP_PHASE_CHECK_IN;
  }
}

// What can be wrong with it is said before a folder is made. Where one is enrolled it is not looked
// at again.
skep::Status CheckJoinString(const Options& options) {
  const Result<agent::Storage> storage = agent::Storage::Look(options.storage_dir);
  if (options.join_string.empty() || (storage.has_value() && agent::IsEnrolled(*storage))) {
    return Ok();
  }
  SKEP_ASSIGN(const crypto::JoinString join, crypto::ParseJoinString(options.join_string));
  return net::CheckReachable({join.host, join.port});
}

}  // namespace

Client::Client(Options options, agent::Storage storage, const skep_data_source& data,
               const skep_trainer* trainer)
    : options_(std::move(options)),
      storage_(std::move(storage)),
      log_({.format = LogFormat::kBareText,
            .level = options_.log_level,
            .sink = [this](LogLevel level,
                           std::string_view line) { WriteLine(level, std::string(line)); }}),
      host_(options_, data, trainer, log_) {
  host_.OnTraining([this](const skep_task& task, double fraction, double loss) {
    TellTraining(task, fraction, loss);
  });
}

Client::~Client() {
  Stop();
  connection_.reset();
}

Result<std::unique_ptr<Client>> Client::Open(Options options, const skep_data_source& data,
                                             const skep_trainer* trainer) {
  SKEP_TRY(CheckJoinString(options));
  SKEP_ASSIGN(agent::Storage storage, agent::Storage::Create(options.storage_dir));
  std::unique_ptr<Client> client(new Client(std::move(options), std::move(storage), data, trainer));
  SKEP_TRY(client->Load());
  return client;
}

skep::Status Client::Load() {
  if (!agent::IsEnrolled(storage_)) return Ok();
  SKEP_ASSIGN(agent::Identity identity, agent::LoadIdentity(storage_));
  identity_.emplace(std::move(identity));
  SKEP_ASSIGN(state_, agent::LoadState(storage_));
  return Ok();
}

skep::Status Client::CheckIdle() const {
  if (is_forgotten_) {
    return Error{7004, "the device was forgotten", "make a client with a new join string"};
  }
  if (activity_ == Activity::kNone) return Ok();
  return Error{4002, activity_ == Activity::kStarted ? "the client is started" : "a run is on", ""};
}

skep::Status Client::Begin(Activity activity) {
  const std::lock_guard lock(mutex_);
  SKEP_TRY(CheckIdle());
  activity_ = activity;
  is_cancelled_ = is_stopping_ = false;
  return Ok();
}

void Client::End(const skep_outcome& outcome) {
  const std::lock_guard lock(mutex_);
  last_ = outcome;
  activity_ = Activity::kNone;
}

template <class F>
skep_status Client::SetHook(Hook<F>& slot, Hook<F> hook) {
  const std::lock_guard lock(mutex_);
  const skep::Status idle = CheckIdle();
  if (!idle.has_value()) return StatusOfCode(idle.error().code);
  slot = hook;
  return SKEP_OK;
}

skep_status Client::SetDeviceState(Hook<skep_state_fn> hook) {
  const std::lock_guard lock(mutex_);
  const skep::Status idle = CheckIdle();
  if (!idle.has_value()) return StatusOfCode(idle.error().code);
  host_.OnDeviceState(hook);
  return SKEP_OK;
}

skep_status Client::SetProgress(Hook<skep_progress_fn> hook) {
  return SetHook(on_progress_, hook);
}

skep_status Client::SetOutcome(Hook<skep_outcome_fn> hook) {
  return SetHook(on_outcome_, hook);
}

skep_status Client::SetLog(Hook<skep_log_fn> hook) {
  return SetHook(on_log_, hook);
}

// From the agent's thread: told on the application's. Else this is it.
void Client::WriteLine(LogLevel level, const std::string& line) {
  if (on_log_.fn == nullptr) return;
  const auto tell = [hook = on_log_, level = LevelOf(level), line] {
    const skep_status told = CallApp(SKEP_E_INTERNAL, [&]() -> skep_status {
      hook.fn(hook.user, level, line.c_str());
      return SKEP_OK;
    });
    static_cast<void>(told);  // nobody is left to be told
  };
  {
    const std::lock_guard lock(mutex_);
    if (agent_ != nullptr) return agent_->Tell(tell);
  }
  tell();
}

void Client::TellProgress(const agent::AgentProgress& from) {
  if (on_progress_.fn == nullptr) return;
  const bool has_task = from.task.round != 0;
  const std::string id =
      has_task ? fmt::format("{}-{}-{}-{}", from.task.run_id.Hex(), from.task.round,
                             static_cast<std::uint32_t>(from.task.kind), from.task.attempt)
               : "";
  const skep_progress progress{.struct_size = sizeof progress,
                               .phase = PhaseOf(from.state),
                               .task_id = id.c_str(),
                               .round = from.task.round,
                               .bytes_down = from.bytes_down,
                               .bytes_up = from.bytes_up,
                               .fraction = from.fraction,
                               .loss = std::nan("")};
  const skep_status told = CallApp(SKEP_E_INTERNAL, [&]() -> skep_status {
    on_progress_.fn(on_progress_.user, &progress);
    return SKEP_OK;
  });
  static_cast<void>(told);
}

void Client::TellTraining(const skep_task& task, double fraction, double loss) {
  const SteadyTime now = ReadClock().steady;
  if (on_progress_.fn == nullptr || now - told_at_ < kProgressEvery) return;
  told_at_ = now;
  const skep_progress progress{.struct_size = sizeof progress,
                               .phase = SKEP_PHASE_TRAIN,
                               .task_id = task.id.c_str(),
                               .round = task.offered.manifest.round,
                               .bytes_down = 0,
                               .bytes_up = 0,
                               .fraction = fraction,
                               .loss = loss};
  const skep_status told = CallApp(SKEP_E_INTERNAL, [&]() -> skep_status {
    on_progress_.fn(on_progress_.user, &progress);
    return SKEP_OK;
  });
  static_cast<void>(told);
}

void Client::TellOutcome(const skep_outcome& outcome) {
  if (on_outcome_.fn == nullptr) return;
  const skep_status told = CallApp(SKEP_E_INTERNAL, [&]() -> skep_status {
    on_outcome_.fn(on_outcome_.user, &outcome);
    return SKEP_OK;
  });
  static_cast<void>(told);
}

// Whatever memory was wanting for: the client can be used again.
template <class F>
auto Client::WithMemory(F&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    agent_ = nullptr;
    enrolling_ = nullptr;
    return Error{9002, "no memory left", ""};
  }
}

skep::Status Client::Join(const std::string& name) {
  if (identity_) return Ok();
  if (options_.join_string.empty()) {
    return Error{4004, storage_.folder() + " is not enrolled yet", "give a join_string"};
  }
  SKEP_ASSIGN(const crypto::JoinString join, crypto::ParseJoinString(options_.join_string));
  agent::Loop loop;
  SKEP_TRY(agent::CheckClock(loop.Clock().wall));
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) return Error{7407, "cancelled", ""};
    enrolling_ = &loop;
  }
  Result<agent::Identity> identity = agent::Enrol(storage_, join,
                                                  {.software = options_.Software(),
                                                   .name_hint = name,
                                                   .limits = options_.limits,
                                                   .proxy = options_.proxy},
                                                  loop);
  {
    const std::lock_guard lock(mutex_);
    enrolling_ = nullptr;
    if (is_cancelled_ && !identity.has_value()) return Error{7407, "cancelled", ""};
  }
  if (!identity.has_value()) return std::move(identity).error();
  identity_.emplace(std::move(identity).value());
  crypto::Wipe(
      {reinterpret_cast<std::uint8_t*>(options_.join_string.data()), options_.join_string.size()});
  options_.join_string.clear();
  log_.Info("joined as device " + identity_->device.Hex().substr(0, 6));
  return Ok();
}

skep_outcome Client::Enrol(const std::string& name) {
  if (const skep::Status begun = Begin(Activity::kRunning); !begun.has_value()) {
    return OutcomeOf(begun.error());
  }
  const skep::Status joined = WithMemory([&] { return Join(name); });
  skep_outcome outcome = joined.has_value() ? OutcomeOf(agent::Outcome{.has_contributed = true})
                                            : OutcomeOf(joined.error());
  End(outcome);
  return outcome;
}

Result<agent::AgentSettings> Client::SettingsOf(bool once, std::uint32_t budget_s) {
  agent::AgentSettings settings;
  settings.software = options_.Software();
  SKEP_ASSIGN(settings.endpoint, agent::EndpointOf(options_.endpoint, *identity_));
  SKEP_ASSIGN(settings.population, agent::PopulationOf(options_.population, *identity_));
  settings.limits = options_.limits;
  settings.proxy = options_.proxy;
  settings.eligibility = options_.eligibility;
  settings.caps = options_.caps;
  settings.once = once;
  if (once) {
    const auto most = std::chrono::ceil<std::chrono::seconds>(options_.caps.per_run).count();
    settings.budget = std::chrono::seconds(std::min<std::int64_t>(budget_s, most));
  }
  if (on_progress_.fn != nullptr) {
    settings.on_progress = [this](const agent::AgentProgress& progress) { TellProgress(progress); };
  }
  settings.on_outcome = [this](const agent::Outcome& outcome) {
    const skep_outcome told = OutcomeOf(outcome);
    {
      const std::lock_guard lock(mutex_);
      last_ = told;
    }
    TellOutcome(told);
  };
  return settings;
}

// A contribution is followed by a rest, whatever the aggregator would like.
std::optional<agent::Outcome> Client::TooSoon() const {
  const auto history = agent::ReadHistory(storage_, 1);
  if (history.empty() || history.front().outcome != "contributed") return std::nullopt;
  const WallMs now = ReadClock().wall;
  const auto rest = std::chrono::duration_cast<Milliseconds>(options_.caps.between_runs);
  const WallMs next = history.front().time + static_cast<WallMs>(rest.count());
  if (now >= next || history.front().time > now) return std::nullopt;
  return agent::Outcome{.why = "the last contribution was less than min_seconds_between_runs ago",
                        .retry_after = Milliseconds(next - now)};
}

Result<agent::Outcome> Client::Run(bool once, std::uint32_t budget_s) {
  return WithMemory([&] { return RunHere(once, budget_s); });
}

Result<agent::Outcome> Client::RunHere(bool once, std::uint32_t budget_s) {
  connection_.reset();  // of the run before
  SKEP_TRY(Join(""));
  if (once) {
    if (const auto rest = TooSoon()) return *rest;
  }
  SKEP_TRY(host_.ChooseDevice());
  SKEP_ASSIGN(agent::AgentSettings settings, SettingsOf(once, budget_s));
  connection_ = std::make_unique<Connection>();
  connection_->agent = std::make_unique<agent::Agent>(std::move(settings), storage_, *identity_,
                                                      state_, connection_->loop, host_, log_);
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) return agent::Outcome{.was_cancelled = true};
    agent_ = connection_->agent.get();
  }
  agent::Outcome outcome = agent_->Run();
  const std::lock_guard lock(mutex_);
  agent_ = nullptr;
  return outcome;
}

skep_outcome Client::RunOnce(std::uint32_t budget_s) {
  if (const skep::Status begun = Begin(Activity::kRunning); !begun.has_value()) {
    return OutcomeOf(begun.error());
  }
  const Result<agent::Outcome> run = Run(true, budget_s);
  skep_outcome outcome = run.has_value() ? OutcomeOf(*run) : OutcomeOf(run.error());
  if (outcome.status == SKEP_OK) {
    const auto rest = std::chrono::ceil<std::chrono::seconds>(options_.caps.between_runs).count();
    outcome.retry_after_s = std::max(outcome.retry_after_s, static_cast<std::uint32_t>(rest));
  }
  TellOutcome(outcome);
  End(outcome);
  return outcome;
}

skep_status Client::Start() {
  if (const skep::Status begun = Begin(Activity::kStarted); !begun.has_value()) {
    return StatusOfCode(begun.error().code);
  }
  try {
    const agent::SignalsBlocked blocked;
    thread_ = std::thread([this] { RunOnAndOn(); });
  } catch (const std::system_error&) {
    const std::lock_guard lock(mutex_);
    activity_ = Activity::kNone;
    return SKEP_E_MEMORY;
  }
  return SKEP_OK;
}

// The thread of a started client.
void Client::RunOnAndOn() {
  while (true) {
    const Result<agent::Outcome> run = Run(false, 0);
    const skep_outcome outcome = run.has_value() ? OutcomeOf(*run) : OutcomeOf(run.error());
    {
      const std::lock_guard lock(mutex_);
      last_ = outcome;
      if (is_stopping_) return;
      is_cancelled_ = false;  // Cancel ends what is on, not what comes later
    }
    TellOutcome(outcome);
    if (outcome.status < 0) log_.Failure(outcome.code, outcome.message);
    if (!RestsFor(std::max(outcome.retry_after_s, kShortestRest))) return;
  }
}

// False: it is to stop.
bool Client::RestsFor(std::uint32_t seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return is_stopping_; });
  return !is_stopping_;
}

void Client::Stop() {
  {
    const std::lock_guard lock(mutex_);
    if (activity_ != Activity::kStarted) return;
    is_stopping_ = true;
  }
  Cancel();
  changed_.notify_all();
  thread_.join();
  const std::lock_guard lock(mutex_);
  activity_ = Activity::kNone;
}

void Client::Cancel() {
  const std::lock_guard lock(mutex_);
  if (activity_ == Activity::kNone) return;
  is_cancelled_ = true;
  if (agent_ != nullptr) agent_->Cancel();
  if (enrolling_ != nullptr) {
    enrolling_->Post([loop = enrolling_] { loop->Stop(Milliseconds(50)); });
  }
}

skep_outcome Client::Forget() {
  if (const skep::Status begun = Begin(Activity::kRunning); !begun.has_value()) {
    return OutcomeOf(begun.error());
  }
  connection_.reset();
  const skep::Status forgotten = agent::Forget(storage_);
  skep_outcome outcome = forgotten.has_value() ? OutcomeOf(agent::Outcome{.has_contributed = true})
                                               : OutcomeOf(forgotten.error());
  identity_.reset();
  state_ = {};
  End(outcome);
  const std::lock_guard lock(mutex_);
  is_forgotten_ = forgotten.has_value();
  return outcome;
}

std::optional<std::string> Client::Status() const {
  std::optional<skep_outcome> last;
  {
    const std::lock_guard lock(mutex_);
    if (is_forgotten_) return std::nullopt;
    last = last_;
  }
  return StatusJson(storage_, options_, last, "");
}

std::optional<std::string> Client::History() const {
  {
    const std::lock_guard lock(mutex_);
    if (is_forgotten_) return std::nullopt;
  }
  return HistoryJson(storage_);
}

}  // namespace skep::embed
