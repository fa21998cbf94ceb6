// What an operator asks about runs: starting, showing and changing them. As in server_control.cc,
// each call comes on a thread of its own and waits.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "aggregator/server/server_impl.h"
#include "shared/base/try.h"
#include "shared/wire/text.h"

namespace skep::aggregator {
namespace {

constexpr int kNotFound = 5403;
constexpr int kNotUnique = 5404;
constexpr int kNotPossible = 5405;
constexpr int kNameInUse = 5308;
constexpr int kTooFewDevices = 5302;
constexpr int kTooLarge = 2103;
constexpr std::size_t kLeastPrefix = 6;

bool IsOver(RunState state) {
  return state != RunState::kRunning && state != RunState::kPaused;
}

std::vector<config::Problem> Refuse(const Error& error) {
  config::Problem problem;
  problem.code = error.code;
  problem.message = error.message;
  problem.hint = error.hint;
  return {problem};
}

// A run that was over when the server started: the engine does not know it.
RunView ViewOf(const RunRow& row) {
  RunView view;
  view.id = row.id;
  view.name = row.name;
  view.population = row.population;
  view.state = row.state;
  view.code = row.code;
  view.reason = row.reason;
  view.attempt = {.run = row.id, .round = row.next_round, .attempt = row.next_attempt};
  view.phase = "stopped";
  view.model = row.model;
  return view;
}

std::vector<CodeCount> CodesOf(const std::vector<EndCount>& ends, const AttemptKey& key) {
  std::vector<CodeCount> codes;
  for (const EndCount& end : ends) {
    if (end.key == key) codes.push_back({end.state, end.code, end.count});
  }
  return codes;
}

// Of the experiment as it was stored; 0 if this program cannot read it.
std::uint32_t RoundsOf(const RunRow& row) {
  const auto parsed = config::ParseExperiment(
      row.experiment_toml, row.name, {.sets = {}, .program = config::Program::kAggregator});
  return parsed ? parsed.value().value.training.rounds : 0;
}

// The engine names the round that is next; a run that has none is at its last.
void PlaceAtLastRound(RunView& view) {
  const bool has_next = view.state == RunState::kRunning
                            ? view.phase != "evaluating"
                            : view.state == RunState::kPaused || view.state == RunState::kHalted;
  if (!has_next && view.attempt.kind == TaskKind::kTrain && view.attempt.round > 0) {
    --view.attempt.round;
  }
  if (view.rounds > 0) view.attempt.round = std::min(view.attempt.round, view.rounds);
}

Error NoSuchRun(const std::string& run) {
  return {kNotFound, fmt::format("no run \"{}\"", EscapePeerText(run)),
          "list them: skep-aggregator run list --all"};
}

}  // namespace

std::vector<RunStatus> Server::Impl::Statuses() {
  const SteadyTime now = ReadClock().steady;
  std::vector<RunStatus> statuses;
  for (auto& [id, info] : runs_) {
    if (!info.was_over) continue;
    if (!info.rounds) info.rounds = RoundsOf(info.row);
    RunView view = ViewOf(info.row);
    view.rounds = *info.rounds;
    statuses.push_back({std::move(view), info.row.seed, {}, {}, {}});
  }
  for (RunView& view : engine_->Runs()) {
    const auto info = runs_.find(view.id);
    if (info == runs_.end() || !info->second.is_stored) continue;
    RunStatus status;
    status.seed = info->second.row.seed;
    status.waiting = now - view.waiting_since;
    if (view.phase == "collecting")
      status.closes_in = std::max(view.closes_at - now, Nanoseconds());
    status.view = std::move(view);
    statuses.push_back(std::move(status));
  }
  for (RunStatus& status : statuses) PlaceAtLastRound(status.view);
  std::sort(statuses.begin(), statuses.end(), [this](const RunStatus& a, const RunStatus& b) {
    return OrderOf(a.view.id) < OrderOf(b.view.id);
  });
  return statuses;
}

std::uint64_t Server::Impl::OrderOf(const RunId& run) const {
  const auto info = runs_.find(run);
  return info == runs_.end() ? 0 : info->second.order;
}

// By name (the one that is not over wins, else the latest), by id, or by the beginning of an id.
Result<RunStatus> Server::Impl::FindStatus(const std::string& run) {
  std::vector<RunStatus> statuses = Statuses();
  const RunStatus* named = nullptr;
  std::vector<const RunStatus*> begun;
  for (const RunStatus& status : statuses) {
    const bool is_later = named == nullptr || IsOver(named->view.state);
    if (status.view.name == run && is_later) named = &status;
    if (run.size() >= kLeastPrefix && status.view.id.Hex().starts_with(run)) {
      begun.push_back(&status);
    }
  }
  if (named != nullptr) return *named;
  if (begun.size() > 1) {
    return Error{kNotUnique, fmt::format("\"{}\" begins more than one run", run),
                 "give more digits"};
  }
  if (begun.empty()) return NoSuchRun(run);
  return *begun.front();
}

std::optional<StartedRun> Server::Impl::FindStarted(const std::string& request_key) const {
  for (const auto& [id, info] : runs_) {
    if (info.row.request_key != request_key) continue;
    StartedRun started;
    if (info.spec) {
      started = DescribeRun(*info.spec);
    } else {
      started.id = id;
      started.name = info.row.name;
      started.population = info.row.population;
      started.seed = info.row.seed;
    }
    started.existed = true;
    return started;
  }
  return std::nullopt;
}

Status Server::Impl::CheckSizes(const StartedRun& run) const {
  const config::ServerConfig::Limits& limits = setup_.config.limits;
  const auto refuse = [](const char* what, std::uint64_t bytes, const char* key,
                         std::uint64_t limit) {
    return Error{kTooLarge, fmt::format("{} has {} bytes; {} allows {}", what, bytes, key, limit),
                 fmt::format("raise {}", key)};
  };
  if (run.update_bytes > limits.max_update_bytes) {
    return refuse("an update", run.update_bytes, "limits.max_update_bytes",
                  limits.max_update_bytes);
  }
  if (run.model_bytes > limits.max_model_bytes) {
    return refuse("the model", run.model_bytes, "limits.max_model_bytes", limits.max_model_bytes);
  }
  if (run.update_bytes > body_memory_.limit()) {
    return refuse("an update", run.update_bytes, "limits.transfer_memory", body_memory_.limit());
  }
  return Ok();
}

bool Server::Impl::IsNameInUse(const std::string& name) const {
  const std::vector<RunView> runs = engine_->Runs();
  return std::any_of(runs.begin(), runs.end(), [&](const RunView& run) {
    return run.name == name && !IsOver(run.state) && runs_.count(run.id) != 0;
  });
}

std::uint32_t Server::Impl::ActiveDevices(const std::string& population) const {
  std::uint32_t count = 0;
  for (const auto& [device, known] : devices_) {
    if (known.state != DeviceState::kActive) continue;
    count += std::any_of(known.memberships.begin(), known.memberships.end(),
                         [&](const Membership& member) { return member.population == population; });
  }
  return count;
}

Status Server::Impl::CheckLaunch(const RunSpec& spec, std::uint32_t unused_tokens) const {
  if (IsNameInUse(spec.name)) {
    return Error{kNameInUse, fmt::format("a run \"{}\" goes on already", spec.name),
                 "stop it, or choose another name"};
  }
  const std::uint32_t devices = ActiveDevices(spec.population);
  if (devices + unused_tokens < spec.training.min_reports) {
    return Error{
        kTooFewDevices,
        fmt::format("population \"{}\" has {} active devices and {} unused tokens; the run "
                    "needs at least {} reports",
                    spec.population, devices, unused_tokens, spec.training.min_reports),
        "enrol more devices, or lower training.min_reports"};
  }
  return Ok();
}

// On the network's thread, so that two requests cannot both be the first.
void Server::Impl::Launch(PreparedRun run, const std::string& request_key,
                          std::uint32_t unused_tokens, const Reply<StartedRun>& reply) {
  if (const auto started = FindStarted(request_key)) return AnswerStored(*started, reply);
  const RunSpec& spec = *run.spec;
  if (const Status free = CheckLaunch(spec, unused_tokens); !free) return reply(free.error());
  RunInfo info;
  info.spec = run.spec;
  info.row.id = spec.id;
  info.row.name = spec.name;
  info.row.population = spec.population;
  info.row.seed = spec.seed;
  info.row.request_key = request_key;
  info.row.experiment_toml = run.experiment_toml;
  info.order = runs_.size();
  info.is_stored = false;
  runs_[spec.id] = std::move(info);
  AnswerStored(run.answer, reply);
  workshop_->AddRun(run.spec, std::move(run.evaluator));
  Tell(aggregator::StartRun{run.spec, std::move(run.experiment_toml), request_key});
}

void Server::Impl::AnswerStored(const StartedRun& started, const Reply<StartedRun>& reply) {
  RunInfo& info = runs_.at(started.id);
  if (info.is_stored) return reply(started);
  info.waiting.emplace_back([started, reply](const Result<Done>& stored) {
    if (!stored) return reply(stored.error());
    reply(started);
  });
}

bool Server::Impl::ForgetUnstored(const RunId& run, const Error& error) {
  const auto known = runs_.find(run);
  if (known == runs_.end()) return true;  // has been told of before
  if (known->second.is_stored) return false;
  const RunInfo info = std::move(known->second);
  runs_.erase(known);
  workshop_->EndRun(info.spec);
  log_.Write({.level = LogLevel::kError,
              .code = error.code,
              .event = "run.refused",
              .message = "the run cannot be stored: " + error.message,
              .fields = {{"run", info.row.name}}});
  for (const Reply<Done>& reply : info.waiting) reply(error);
  return true;
}

void Server::Impl::AnswerChanged(const RunId& run) {
  const auto known = runs_.find(run);
  if (known == runs_.end() || known->second.changes > 0 || known->second.is_put_off) return;
  for (const Reply<Done>& reply : std::exchange(known->second.waiting, {})) reply(Ok());
}

Error Server::Impl::PutOff(Error error) {
  error.hint += error.hint.empty() ? "" : "; ";
  error.hint += "it is done as soon as the store can be written: no need to ask again";
  return error;
}

config::Validated<StartedRun> Server::StartRun(const StartRequest& request) {
  const std::string key = RequestKeyOf(request);
  // One that has been started before is the answer, also to the question whether it could be.
  using Found = std::optional<StartedRun>;
  const auto known = impl_->AskLater<Found>([this, key](const Impl::Reply<Found>& reply) {
    const Found found = impl_->FindStarted(key);
    if (!found) return reply(found);
    impl_->AnswerStored(*found, [reply](const Result<StartedRun>& stored) {
      if (!stored) return reply(stored.error());
      reply(Found(*stored));
    });
  });
  if (!known) return Refuse(known.error());
  if (known.value()) return *known.value();
  auto prepared = PrepareRun(request, impl_->means_);
  if (!prepared) return prepared.problems();
  PreparedRun run = std::move(prepared).value();
  if (const Status fits = impl_->CheckSizes(run.answer); !fits) return Refuse(fits.error());
  const auto unused = UnusedTokens(run.spec->population);
  if (!unused) return Refuse(unused.error());
  const auto free = impl_->Ask<Done>(
      [this, spec = run.spec, count = *unused] { return impl_->CheckLaunch(*spec, count); });
  if (!free) return Refuse(free.error());
  if (request.is_dry_run) return run.answer;
  // Durable before the transaction that names it.
  const Status kept = impl_->models_.Keep(run.initial, run.spec->initial_model);
  if (!kept) return Refuse(kept.error());
  const auto shared = std::make_shared<PreparedRun>(std::move(run));
  const auto launched = impl_->AskLater<StartedRun>(
      [this, shared, key, count = *unused](const Impl::Reply<StartedRun>& reply) {
        impl_->Launch(std::move(*shared), key, count, reply);
      });
  if (!launched) return Refuse(launched.error());
  return launched.value();
}

// Of those that can still enrol a device. SKEP-5403: no such population.
Result<std::uint32_t> Server::UnusedTokens(const std::string& population) {
  SKEP_ASSIGN(const auto rows, impl_->store_.Populations());
  const bool is_known = std::any_of(
      rows.begin(), rows.end(), [&](const PopulationRow& row) { return row.name == population; });
  if (!is_known) {
    return Error{kNotFound, fmt::format("no population \"{}\"", population),
                 "create it: skep-aggregator population create " + population};
  }
  const WallMs now = ReadClock().wall;
  SKEP_ASSIGN(const auto tokens, impl_->store_.Tokens(population));
  const auto unused = std::count_if(tokens.begin(), tokens.end(), [now](const TokenRow& token) {
    return token.used == 0 && token.expires > now;
  });
  return static_cast<std::uint32_t>(unused);
}

Result<std::vector<RunStatus>> Server::Runs(bool all) {
  using Views = std::vector<RunStatus>;
  SKEP_ASSIGN(Views runs,
              impl_->Ask<Views>([this]() -> Result<Views> { return impl_->Statuses(); }));
  if (!all) {
    std::erase_if(runs, [](const RunStatus& run) { return IsOver(run.view.state); });
  }
  return runs;
}

Result<RunDetail> Server::FindRun(const std::string& run) {
  RunDetail detail;
  SKEP_ASSIGN(detail.status, impl_->Ask<RunStatus>([this, run] { return impl_->FindStatus(run); }));
  const RunId id = detail.status.view.id;
  SKEP_ASSIGN(std::vector<RoundRow> rows, impl_->store_.Attempts(id));
  SKEP_ASSIGN(const std::vector<EndCount> ends, impl_->store_.EndCounts(id));
  detail.status.codes = CodesOf(ends, rows.empty() ? AttemptKey{} : rows.back().key);
  return impl_->Ask<RunDetail>([this, detail, rows, ends, id]() -> Result<RunDetail> {
    RunDetail full = detail;
    if (const auto info = impl_->runs_.find(id); info != impl_->runs_.end()) {
      full.experiment_toml = info->second.row.experiment_toml;
    }
    for (const RoundRow& row : rows) {
      RoundView view{row, std::nullopt, CodesOf(ends, row.key)};
      view.row.manifest = {};
      const auto counts = impl_->counts_.find(row.key);
      if (counts != impl_->counts_.end()) view.counts = counts->second;
      full.rounds.push_back(std::move(view));
    }
    return full;
  });
}

// Answers when the store has what was asked for; what waits for the open round is answered at once,
// as nothing has changed yet.
void Server::Impl::Change(const std::string& run, ControlRun::Action action,
                          const Reply<Done>& reply) {
  const Result<RunStatus> before = FindStatus(run);
  if (!before) return reply(before.error());
  using Action = ControlRun::Action;
  const RunId id = before->view.id;
  RunInfo& info = runs_.at(id);
  const bool is_over = IsOver(before->view.state);
  const bool stops = action == Action::kStop || action == Action::kStopNow;
  if (is_over && !stops) {
    return reply(Error{kNotPossible, fmt::format("run {} is over", before->view.name), ""});
  }
  if (!is_over) Tell(ControlRun{id, action});
  if (has_failed_) return;  // EndQuestions answers
  const auto views = engine_->Runs();
  const bool has_changed = std::any_of(views.begin(), views.end(), [&](const RunView& view) {
    return view.id == id && view.state != before->view.state;
  });
  info.is_put_off = info.is_put_off || (has_changed && info.changes == 0);
  if (info.is_put_off && outage_) return reply(PutOff(*outage_));
  if (action == Action::kStopNow) return AnswerAtRest(id, reply);
  if (info.changes == 0) return reply(Done());
  info.waiting.push_back(reply);
}

void Server::Impl::AnswerAtRest(const RunId& run, const Reply<Done>& reply) {
  const auto views = engine_->Runs();
  const auto view =
      std::find_if(views.begin(), views.end(), [&](const RunView& one) { return one.id == run; });
  RunInfo& info = runs_.at(run);
  const bool rests = view == views.end() || view->state != RunState::kRunning;
  if (rests && info.changes == 0) return reply(Done());
  info.waiting.emplace_back([this, run, reply](const Result<Done>& changed) {
    if (!changed) return reply(changed.error());
    AnswerAtRest(run, reply);
  });
}

Status Server::ChangeRun(const std::string& run, ControlRun::Action action) {
  return impl_->AskLater<Done>(
      [this, run, action](const Impl::Reply<Done>& reply) { impl_->Change(run, action, reply); });
}

Result<Control::PublishedModel> Server::Model(const std::string& run,
                                              std::optional<std::uint32_t> round) {
  SKEP_ASSIGN(const RunStatus status,
              impl_->Ask<RunStatus>([this, run] { return impl_->FindStatus(run); }));
  SKEP_ASSIGN(const std::vector<RoundRow> rows, impl_->store_.Attempts(status.view.id));
  PublishedModel model;
  for (const RoundRow& row : rows) {
    const bool is_published =
        row.state == RoundState::kPublished && row.key.kind == TaskKind::kTrain;
    if (is_published && (!round || row.key.round == *round)) {
      model.round = row.key.round;
      model.sha256 = row.model_out;
    }
  }
  if (!round && model.round == 0) model.sha256 = status.view.model;
  if (round && model.round == 0) {
    return Error{kNotFound, fmt::format("round {} of run {} is not published", *round, run), ""};
  }
  // The layout of a run that ended before the start is made again from its experiment.
  using Row = std::optional<RunRow>;
  SKEP_ASSIGN(const Row ended, impl_->Ask<Row>([this, status]() -> Result<Row> {
    const auto info = impl_->runs_.find(status.view.id);
    if (info == impl_->runs_.end()) return Row();
    if (info->second.spec) {
      return Row();
    }
    return Row(info->second.row);
  }));
  if (ended) {
    SKEP_ASSIGN(const RestoredRun restored, RestoreRun(*ended, impl_->means_));
    impl_->models_.Know(model.sha256, restored.spec->model.layout());
  } else {
    SKEP_TRY(impl_->Ask<Done>([this, status, sha256 = model.sha256]() -> Status {
      impl_->models_.Know(sha256, impl_->runs_.at(status.view.id).spec->model.layout());
      return Ok();
    }));
  }
  SKEP_ASSIGN(model.params, impl_->models_.Model(model.sha256));
  return model;
}

}  // namespace skep::aggregator
