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
constexpr int kNotPossible = 5405;
constexpr int kInvalid = 5408;
constexpr int kDiskLow = 4009;
constexpr std::uint32_t kMostTokens = 100'000;
constexpr std::string_view kActor = "operator";

bool IsOver(RunState state) {
  return state != RunState::kRunning && state != RunState::kPaused;
}

std::uint64_t FreeBytes(const std::string& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0) return 0;
  return std::uint64_t{space.f_bavail} * space.f_frsize;
}

}  // namespace

Status Server::Impl::Checked(Status status) {
  if (!status) {
    network_->Post([this, error = status.error()] { CheckStore(error); });
  }
  return status;
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
  for (const auto& [id, info] : runs_) view.runs += info.is_stored ? 1U : 0U;
  for (const RunView& run : engine_->Runs()) view.running += IsOver(run.state) ? 0U : 1U;
  view.problems = setup_.warnings;
  if (view.free_bytes < setup_.config.store.low_disk) {
    view.problems.push_back({kDiskLow, fmt::format("disk low: {} MiB free", view.free_bytes >> 20U),
                             "free space, or lower store.low_disk"});
  }
  return view;
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

Status Server::Reload(const config::ServerConfig& next) {
  return impl_->Ask<Done>([this, next]() -> Status {
    impl_->TakeOver(next);
    return Ok();
  });
}

// Field by field: what is read elsewhere than on this thread, or was handed on, cannot change.
void Server::Impl::TakeOver(const config::ServerConfig& next) {
  config::ServerConfig& now = setup_.config;
  now.enrolment.token_ttl = next.enrolment.token_ttl;
  now.enrolment.attempts_per_address = next.enrolment.attempts_per_address;
  now.session.header_deadline = next.session.header_deadline;
  now.session.ping_interval = next.session.ping_interval;
  now.session.ping_deadline = next.session.ping_deadline;
  now.session.idle_limit = next.session.idle_limit;
  now.session.progress_interval = next.session.progress_interval;
  now.session.reconnect_spread = next.session.reconnect_spread;
  now.session.messages_per_second = next.session.messages_per_second;
  now.session.message_burst = next.session.message_burst;
  now.session.min_minor = next.session.min_minor;
  now.transfer.progress_every = next.transfer.progress_every;
  now.limits.concurrent_uploads = next.limits.concurrent_uploads;
  now.limits.concurrent_downloads = next.limits.concurrent_downloads;
  now.limits.upload_bytes_factor = next.limits.upload_bytes_factor;
  now.admission.quarantine = next.admission.quarantine;
  now.store.low_disk = next.store.low_disk;
  now.log.addresses = next.log.addresses;
  now.drain = next.drain;
  const std::uint32_t epoch = session_rules_.epoch;
  session_rules_ = MakeSessionRules();
  session_rules_.epoch = epoch;
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
  return impl_->Checked(impl_->store_.CreatePopulation(name, kActor, ReadClock().wall));
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
  SKEP_ASSIGN(const Nanoseconds usual, impl_->Ask<Nanoseconds>([this]() -> Result<Nanoseconds> {
    return impl_->setup_.config.enrolment.token_ttl;
  }));
  const Nanoseconds span = lifetime.count() > 0 ? lifetime : usual;
  const WallMs now = ReadClock().wall;
  const auto expires =
      now + static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(span).count());
  const auto stored = impl_->store_.CreateTokens(population, tokens, expires, kActor, now);
  if (!stored) return impl_->Checked(stored.error()).error();
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
  SKEP_TRY(
      impl_->Checked(impl_->store_.SetDeviceState(device, state, kActor, why, ReadClock().wall)));
  return impl_->Ask<Done>([this, device, state]() -> Status {
    impl_->quarantines_.erase(device);
    if (state == DeviceState::kQuarantined) {
      impl_->quarantines_[device] = ReadClock().steady + impl_->setup_.config.admission.quarantine;
    }
    impl_->Enlist(device, state);
    return Ok();
  });
}

}  // namespace skep::aggregator
