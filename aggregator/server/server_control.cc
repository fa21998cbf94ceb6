// What an operator asks for. Each call comes on a thread of its own and waits; the state is looked
// at and changed on the network's thread.
#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "aggregator/server/server_impl.h"
#include "crypto/csprng.h"
#include "crypto/pki/join_string.h"
#include "shared/base/try.h"
#include "shared/net/endpoint.h"
#include "shared/wire/text.h"

namespace skep::aggregator {
namespace {

constexpr int kNotFound = 5403;
constexpr int kNotUnique = 5404;
constexpr int kNotPossible = 5405;
constexpr int kInvalid = 5408;
constexpr int kNameInUse = 5308;
constexpr int kTooFewDevices = 5302;
constexpr int kDiskLow = 4009;
constexpr int kTooLarge = 2103;
constexpr std::uint32_t kMostTokens = 100'000;
constexpr std::size_t kLeastPrefix = 6;
constexpr std::string_view kActor = "operator";

bool IsOver(RunState state) {
  return state != RunState::kRunning && state != RunState::kPaused;
}

std::uint64_t FreeBytes(const std::string& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0) return 0;
  return std::uint64_t{space.f_bavail} * space.f_frsize;
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

Error NoSuchRun(const std::string& run) {
  return {kNotFound, fmt::format("no run \"{}\"", EscapePeerText(run)),
          "list them: run list --all"};
}

}  // namespace

void Server::Impl::WaitForStore() {
  std::promise<void> reached;
  workshop_->OnStore([&reached] { reached.set_value(); });
  reached.get_future().wait();
}

StatusView Server::Impl::MakeStatus() const {
  StatusView view;
  view.is_draining = is_draining_;
  view.uptime = ReadClock().steady - started_;
  view.federation = store_.federation();
  view.epoch = session_rules_.epoch;
  view.listeners = listeners_;
  view.advertised_devices = advertised_devices_;
  view.advertised_enrol = advertised_enrol_;
  view.store = setup_.config.store.directory;
  view.free_bytes = FreeBytes(view.store);
  view.certificate_ends = setup_.certificate.NotAfter();
  view.sessions = static_cast<std::uint32_t>(sessions_.size());
  view.devices = static_cast<std::uint32_t>(devices_.size());
  for (const RunView& run : engine_->Runs()) view.runs += IsOver(run.state) ? 0U : 1U;
  view.problems = setup_.warnings;
  if (view.free_bytes < setup_.config.store.low_disk) {
    view.problems.push_back({kDiskLow, fmt::format("disk low: {} MiB free", view.free_bytes >> 20U),
                             "free space, or lower store.low_disk"});
  }
  return view;
}

std::vector<RunStatus> Server::Impl::Statuses() const {
  const SteadyTime now = ReadClock().steady;
  std::vector<RunStatus> statuses;
  for (const auto& [id, info] : runs_) {
    if (!info.was_over) continue;
    statuses.push_back({ViewOf(info.row), info.row.seed, {}, {}});
  }
  for (RunView& view : engine_->Runs()) {
    RunStatus status;
    const auto info = runs_.find(view.id);
    if (info != runs_.end()) status.seed = info->second.row.seed;
    status.waiting = now - view.waiting_since;
    if (view.phase == "collecting")
      status.closes_in = std::max(view.closes_at - now, Nanoseconds());
    status.view = std::move(view);
    statuses.push_back(std::move(status));
  }
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
  return std::any_of(runs.begin(), runs.end(),
                     [&](const RunView& run) { return run.name == name && !IsOver(run.state); });
}

// On the network's thread, so that two requests cannot both be the first.
Result<StartedRun> Server::Impl::Launch(PreparedRun run, const std::string& request_key) {
  if (auto started = FindStarted(request_key)) return *started;
  const RunSpec& spec = *run.spec;
  if (IsNameInUse(spec.name)) {
    return Error{kNameInUse, fmt::format("a run \"{}\" goes on already", spec.name),
                 "stop it, or choose another name"};
  }
  std::uint32_t members = 0;
  for (const auto& [device, known] : devices_) {
    if (known.state == DeviceState::kRevoked) continue;
    members +=
        std::any_of(known.memberships.begin(), known.memberships.end(),
                    [&](const Membership& member) { return member.population == spec.population; });
  }
  if (members < spec.training.min_reports) {
    return Error{kTooFewDevices,
                 fmt::format("population {} has {} devices; the run needs {} reports",
                             spec.population, members, spec.training.min_reports),
                 "enrol more devices, or lower training.min_reports"};
  }
  RunInfo info;
  info.spec = run.spec;
  info.row.id = spec.id;
  info.row.name = spec.name;
  info.row.population = spec.population;
  info.row.seed = spec.seed;
  info.row.request_key = request_key;
  info.row.experiment_toml = run.experiment_toml;
  info.order = runs_.size();
  runs_[spec.id] = std::move(info);
  workshop_->AddRun(run.spec, std::move(run.evaluator));
  log_.Write({.event = "run.started",
              .message = "run started",
              .fields = {{"run", spec.name}, {"population", spec.population}}});
  Tell(aggregator::StartRun{run.spec, std::move(run.experiment_toml), request_key});
  return run.answer;
}

void Server::Impl::CountPopulations(std::vector<PopulationView>& populations) const {
  const auto for_each_of = [&](const std::vector<Membership>& memberships, auto count) {
    for (PopulationView& view : populations) {
      const bool is_member =
          std::any_of(memberships.begin(), memberships.end(),
                      [&](const Membership& member) { return member.population == view.row.name; });
      if (is_member) count(view);
    }
  };
  for (const auto& [device, known] : devices_) {
    for_each_of(known.memberships, [](PopulationView& view) { ++view.devices; });
  }
  for (const auto& [number, session] : sessions_) {
    const auto known = devices_.find(session->visitor().device);
    if (!session->is_joined() || known == devices_.end()) continue;
    const SessionMachine& machine = session->machine();
    for_each_of(known->second.memberships, [&](PopulationView& view) {
      ++view.connected;
      const bool is_held = machine.state() == SessionMachine::State::kHeld;
      view.held += is_held && machine.held_population() == view.row.name ? 1U : 0U;
    });
  }
}

Result<StatusView> Server::GetStatus() {
  SKEP_ASSIGN(StatusView view, impl_->Ask<StatusView>(
                                   [this]() -> Result<StatusView> { return impl_->MakeStatus(); }));
  SKEP_ASSIGN(const auto populations, impl_->store_.Populations());
  view.populations = static_cast<std::uint32_t>(populations.size());
  return view;
}

Status Server::CreatePopulation(const std::string& name) {
  if (!wire::IsName(name)) {
    return Error{kInvalid, "a population's name has 1 to 64 letters, digits, _ or -", ""};
  }
  return impl_->store_.CreatePopulation(name, kActor, ReadClock().wall);
}

Result<std::vector<PopulationView>> Server::Populations() {
  SKEP_ASSIGN(const std::vector<PopulationRow> rows, impl_->store_.Populations());
  using Views = std::vector<PopulationView>;
  return impl_->Ask<Views>([this, rows]() -> Result<Views> {
    Views views;
    for (const PopulationRow& row : rows) views.push_back({row, 0, 0, 0});
    impl_->CountPopulations(views);
    return views;
  });
}

Result<std::vector<std::string>> Server::CreateTokens(const std::string& population,
                                                      std::uint32_t count, Nanoseconds lifetime) {
  if (count == 0 || count > kMostTokens) {
    return Error{kInvalid, fmt::format("between 1 and {} tokens at a time", kMostTokens), ""};
  }
  const auto endpoint = net::ParseEndpoint(impl_->advertised_enrol_);
  if (!endpoint) {
    return Error{kNotPossible, "this aggregator does not enrol devices",
                 "set listen.enrol, enrolment.enabled and tls.device_ca_key"};
  }
  crypto::JoinString join;
  join.host = endpoint->host;
  join.port = endpoint->port;
  join.pin = impl_->setup_.server_ca.KeyHash();
  std::vector<NewToken> tokens;
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < count; ++i) {
    SKEP_TRY(crypto::FillRandom(join.secret.bytes));
    tokens.push_back({crypto::LookupHashOf(join.secret), crypto::TokenIdOf(join.secret)});
    texts.push_back(crypto::FormatJoinString(join));
  }
  const Nanoseconds span =
      lifetime.count() > 0 ? lifetime : impl_->setup_.config.enrolment.token_ttl;
  const WallMs now = ReadClock().wall;
  const auto expires =
      now + static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(span).count());
  SKEP_TRY(impl_->store_.CreateTokens(population, tokens, expires, kActor, now));
  return texts;
}

Result<std::vector<TokenRow>> Server::Tokens(const std::string& population) {
  return impl_->store_.Tokens(population);
}

Result<std::vector<DeviceView>> Server::Devices() {
  SKEP_ASSIGN(const std::vector<DeviceRow> rows, impl_->store_.Devices());
  using Views = std::vector<DeviceView>;
  return impl_->Ask<Views>([this, rows]() -> Result<Views> {
    std::set<DeviceId> connected;
    for (const auto& [number, session] : impl_->sessions_) {
      if (session->is_joined()) connected.insert(session->visitor().device);
    }
    Views views;
    for (const DeviceRow& row : rows) views.push_back({row, connected.count(row.device) > 0});
    return views;
  });
}

Status Server::ChangeDevice(const DeviceId& device, DeviceState state, const std::string& why) {
  SKEP_TRY(impl_->store_.SetDeviceState(device, state, kActor, why, ReadClock().wall));
  return impl_->Ask<Done>([this, device, state]() -> Status {
    impl_->quarantines_.erase(device);
    if (state == DeviceState::kQuarantined) {
      impl_->quarantines_[device] = ReadClock().steady + impl_->setup_.config.admission.quarantine;
    }
    impl_->Enlist(device, state);
    return Ok();
  });
}

config::Validated<StartedRun> Server::StartRun(const StartRequest& request) {
  const std::string key = RequestKeyOf(request);
  using Found = std::optional<StartedRun>;
  const auto known =
      impl_->Ask<Found>([this, key]() -> Result<Found> { return impl_->FindStarted(key); });
  if (!known) return Refuse(known.error());
  if (known.value() && !request.is_dry_run) return *known.value();
  auto prepared = PrepareRun(request, impl_->means_);
  if (!prepared) return prepared.problems();
  PreparedRun run = std::move(prepared).value();
  if (const Status fits = impl_->CheckSizes(run.answer); !fits) return Refuse(fits.error());
  const auto populations = impl_->store_.Populations();
  if (!populations) return Refuse(populations.error());
  const bool is_known =
      std::any_of(populations.value().begin(), populations.value().end(),
                  [&](const PopulationRow& row) { return row.name == run.spec->population; });
  if (!is_known) {
    return Refuse({kNotFound, fmt::format("no population \"{}\"", run.spec->population),
                   "create it: population create " + run.spec->population});
  }
  if (request.is_dry_run) return run.answer;
  // Durable before the transaction that names it.
  const Status kept = impl_->models_.Keep(run.initial, run.spec->initial_model);
  if (!kept) return Refuse(kept.error());
  const auto shared = std::make_shared<PreparedRun>(std::move(run));
  const auto launched = impl_->Ask<StartedRun>(
      [this, shared, key] { return impl_->Launch(std::move(*shared), key); });
  if (!launched) return Refuse(launched.error());
  impl_->WaitForStore();
  return launched.value();
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
  return impl_->Ask<RunDetail>([this, detail, rows, id]() -> Result<RunDetail> {
    RunDetail full = detail;
    if (const auto info = impl_->runs_.find(id); info != impl_->runs_.end()) {
      full.experiment_toml = info->second.row.experiment_toml;
    }
    for (const RoundRow& row : rows) {
      RoundView view{row, std::nullopt};
      view.row.manifest = {};
      const auto counts = impl_->counts_.find(row.key);
      if (counts != impl_->counts_.end()) view.counts = counts->second;
      full.rounds.push_back(std::move(view));
    }
    return full;
  });
}

Status Server::ChangeRun(const std::string& run, ControlRun::Action action) {
  Status changed = impl_->Ask<Done>([this, run, action]() -> Status {
    SKEP_ASSIGN(const RunStatus status, impl_->FindStatus(run));
    const bool stops =
        action == ControlRun::Action::kStop || action == ControlRun::Action::kStopNow;
    if (IsOver(status.view.state)) {
      if (stops) return Ok();
      return Error{kNotPossible, fmt::format("run {} is over", status.view.name), ""};
    }
    impl_->Tell(ControlRun{status.view.id, action});
    return Ok();
  });
  if (changed) impl_->WaitForStore();
  return changed;
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
