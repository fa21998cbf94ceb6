// What happens before the first device is let in: recovery, listeners, threads.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "aggregator/server/server_impl.h"
#include "shared/base/try.h"
#include "shared/net/endpoint.h"

#ifndef SKEP_VERSION
#error "the build names the version"
#endif

namespace skep::aggregator {
namespace {

constexpr std::size_t kModelsInMemory = 4;
constexpr std::uint64_t kParts = 8;  // of the memory of transfers; one is kept for frames
constexpr std::size_t kQueueBound = 8192;
constexpr int kDeviceUnknown = 3111;
constexpr int kRevoked = 3105;

Milliseconds InMs(Nanoseconds span) {
  return std::chrono::duration_cast<Milliseconds>(span);
}

std::size_t WorkersOf(std::uint32_t configured) {
  return configured > 0 ? configured : std::max(1U, std::thread::hardware_concurrency());
}

// HOST:PORT with the port that was bound where the configuration says 0.
std::string Advertise(const std::string& configured, const std::string& listen,
                      std::uint16_t bound) {
  const auto endpoint = net::ParseEndpoint(configured.empty() ? listen : configured);
  if (!endpoint) return configured;
  return net::EndpointText({endpoint->host, endpoint->port == 0 ? bound : endpoint->port});
}

std::vector<Membership> MembershipsOf(const DeviceRow& row) {
  std::vector<Membership> memberships;
  for (const auto& [population, client] : row.memberships) {
    memberships.push_back({population, client});
  }
  return memberships;
}

}  // namespace

Server::Impl::Impl(ServerSetup setup)
    : setup_(std::move(setup)),
      store_(*setup_.store),
      log_(*setup_.log),
      started_(ReadClock().steady),
      memory_(setup_.config.limits.transfer_memory),
      body_memory_(setup_.config.limits.transfer_memory / kParts * (kParts - 1), &memory_),
      models_(store_, kModelsInMemory),
      partials_(setup_.config.store.directory + "/partial", setup_.config.limits.transfer_memory) {}

EngineConfig Server::Impl::MakeEngineConfig() const {
  const config::ServerConfig& c = setup_.config;
  EngineConfig config;
  config.federation = store_.federation();
  config.epoch = session_rules_.epoch;
  config.absent_after = c.session.absent_after;
  config.offer_ttl = c.session.offer_ttl;
  config.progress_lease = c.session.progress_lease;
  config.max_hold = c.session.max_hold;
  config.max_held = c.session.max_held;
  config.headroom = c.pace.headroom;
  config.small_factor = c.pace.small_factor;
  config.min_return = c.pace.min_return;
  config.max_return = c.pace.max_return;
  config.overload_return = c.pace.overload_return;
  config.max_update_bytes = c.limits.max_update_bytes;
  config.max_model_bytes = c.limits.max_model_bytes;
  config.strikes = c.admission.strikes;
  config.detach_allowed = c.session.detach;
  return config;
}

SessionRules Server::Impl::MakeSessionRules() const {
  const config::ServerConfig& c = setup_.config;
  SessionRules rules;
  rules.federation = store_.federation();
  rules.software = "skep-aggregator " SKEP_VERSION;
  rules.signing_keys = {setup_.signing_key.id()};
  rules.min_minor = c.session.min_minor;
  rules.chunk_bytes = static_cast<std::uint32_t>(c.transfer.chunk_bytes);
  rules.progress_every = c.transfer.progress_every;
  rules.min_rate = c.transfer.min_rate;
  rules.rate_window = c.transfer.rate_window;
  rules.first_frame_deadline = c.session.first_frame_deadline;
  rules.header_deadline = c.session.header_deadline;
  rules.ping_interval = c.session.ping_interval;
  rules.ping_deadline = c.session.ping_deadline;
  rules.idle_limit = c.session.idle_limit;
  rules.max_hold = c.session.max_hold;
  rules.progress_interval = c.session.progress_interval;
  rules.messages_per_second = c.session.messages_per_second;
  rules.message_burst = c.session.message_burst;
  return rules;
}

NetworkRules Server::Impl::MakeNetworkRules() const {
  const config::ServerConfig& c = setup_.config;
  NetworkRules rules;
  rules.handshake_deadline = InMs(c.tls.handshake_deadline);
  rules.max_handshakes = c.tls.max_handshakes;
  rules.handshakes_per_address = c.tls.handshakes_per_address;
  rules.first_frame_deadline = InMs(c.session.first_frame_deadline);
  rules.max_connections = c.limits.max_connections;
  rules.connections_per_address = c.limits.connections_per_address;
  rules.send_queue = c.limits.send_queue;
  rules.connection_memory = c.limits.connection_memory;
  rules.chunk_bytes = static_cast<std::uint32_t>(c.transfer.chunk_bytes);
  rules.min_rate = c.transfer.min_rate;
  rules.rate_window = c.transfer.rate_window;
  rules.backlog = static_cast<int>(c.listen.backlog);
  rules.handles_signals = setup_.handles_signals;
  return rules;
}

EnrolmentRules Server::Impl::MakeEnrolmentRules() const {
  const config::ServerConfig::Enrolment& c = setup_.config.enrolment;
  return {.federation = store_.federation(),
          .certificate_lifetime = c.certificate_lifetime,
          .clock_skew = c.clock_skew,
          .renew_after = c.renew_after,
          .max_devices = c.max_devices,
          .server_ca = setup_.server_ca,
          .signing_keys = {setup_.signing_key.public_key()},
          .device_endpoint = advertised_devices_};
}

Status Server::Impl::HaltStored(const RunRow& row, const Error& why) {
  log_.Write({.level = LogLevel::kError,
              .code = why.code,
              .event = "run.halted",
              .message = why.message,
              .fields = {{"run", row.name}}});
  SKEP_ASSIGN([[maybe_unused]] const std::uint64_t seq,
              store_.Apply(ChangeRunTx{row.id, RunState::kHalted, why.code, why.message},
                           ReadClock().wall, bodies_));
  return Ok();
}

// Runs that are not over go on, if everything that they need is there; else they halt and the
// others go on.
Status Server::Impl::RestoreRuns(EngineSnapshot& snapshot) {
  for (RunSnapshot& stored : snapshot.store.runs) {
    RunRow& row = stored.run;
    const std::uint64_t order = runs_.size();
    RunInfo& info = runs_[row.id];
    info.order = order;
    info.row = row;
    info.was_over = row.state != RunState::kRunning && row.state != RunState::kPaused;
    if (info.was_over) continue;
    Result<RestoredRun> restored = RestoreRun(row, means_);
    Error why;
    if (restored) {
      const model::LayoutPtr& layout = restored.value().spec->model.layout();
      models_.Know(row.model, layout);
      for (const OpenRound& open : stored.open_rounds) models_.Know(open.round.model_in, layout);
      const Result<model::ParamsPtr> model = models_.Model(row.model);
      if (model) {
        info.spec = restored.value().spec;
        snapshot.specs.push_back(info.spec);
        workshop_->AddRun(info.spec, std::move(restored.value().evaluator));
        continue;
      }
      why = model.error();
    } else {
      why = restored.error();
    }
    SKEP_TRY(HaltStored(row, why));
    info.was_over = true;
    info.row.state = RunState::kHalted;
    info.row.code = why.code;
    info.row.reason = why.message;
  }
  std::erase_if(snapshot.store.runs,
                [&](const RunSnapshot& stored) { return runs_.at(stored.run.id).was_over; });
  return Ok();
}

Result<EngineSnapshot> Server::Impl::Recover() {
  EngineSnapshot snapshot;
  SKEP_ASSIGN(snapshot.store, store_.Load());
  SKEP_ASSIGN(snapshot.devices, store_.Devices());
  const Now now = ReadClock();
  for (const DeviceRow& row : snapshot.devices) {
    devices_[row.device] = {row.state, MembershipsOf(row)};
    // When it began is not stored; it ends no later than a whole one from now.
    if (row.state == DeviceState::kQuarantined) {
      quarantines_[row.device] = now.steady + setup_.config.admission.quarantine;
    }
  }
  RecoverPartials(now.wall);
  SKEP_TRY(RestoreRuns(snapshot));
  log_.Write({.event = "store.recovered",
              .message = fmt::format("{} devices, {} runs, of which {} go on", devices_.size(),
                                     runs_.size(), snapshot.specs.size())});
  return snapshot;
}

// Advice only: without it, bodies come again from their beginning.
void Server::Impl::RecoverPartials(WallMs now) {
  const auto kept = partials_.Open(now);
  if (!kept) return log_.Warning(kept.error().code, kept.error().message);
  for (const PartialUploads::Kept& one : *kept) partials_kept_[one.device] = one;
}

// In a handshake, so from memory alone; the serial number is looked up before the session begins.
Status Server::Impl::Admit(const crypto::DeviceIdentity& identity) const {
  const auto device = devices_.find(identity.device);
  if (device == devices_.end()) return Error{kDeviceUnknown, "device unknown", ""};
  if (device->second.state == DeviceState::kRevoked) {
    return Error{kRevoked, "certificate or device revoked", ""};
  }
  return Ok();
}

Status Server::Impl::OpenListeners() {
  const config::ServerConfig::Listen& listen = setup_.config.listen;
  const net::Credentials own{setup_.certificate, setup_.key, {}};
  SKEP_ASSIGN(const auto devices,
              net::TlsContext::ForDeviceListener(
                  own, {.authority = setup_.device_ca,
                        .federation = store_.federation(),
                        .admit = [this](const auto& who, const auto&) { return Admit(who); },
                        .judged_at = {}}));
  SKEP_ASSIGN(BoundPorts ports, store_.Ports());
  const BoundPorts before = ports;
  // A free port is kept, so that enrolled devices find it again.
  const auto address_of = [](const std::string& text, std::uint16_t kept) {
    const auto endpoint = net::ParseEndpoint(text);
    if (!endpoint || endpoint->port != 0 || kept == 0) return text;
    return net::EndpointText({endpoint->host, kept});
  };
  const auto open = [&](Network::Kind kind, const std::string& name, const std::string& text,
                        std::uint16_t& port, net::TlsContext::Shared tls) -> Status {
    const std::string address = address_of(text, port);
    SKEP_ASSIGN(const std::uint16_t bound,
                network_->Listen(kind, "listen." + name, address, std::move(tls)));
    if (net::ParseEndpoint(text)->port == 0) port = bound;
    listeners_.push_back({name, net::EndpointText({net::ParseEndpoint(address)->host, bound})});
    (kind == Network::Kind::kDevices ? advertised_devices_ : advertised_enrol_) = Advertise(
        kind == Network::Kind::kDevices ? listen.advertise_devices : listen.advertise_enrol, text,
        bound);
    return Ok();
  };
  SKEP_TRY(open(Network::Kind::kDevices, "devices", listen.devices, ports.devices, devices));
  if (setup_.device_authority && setup_.config.enrolment.enabled && !listen.enrol.empty()) {
    SKEP_ASSIGN(const auto enrolment, net::TlsContext::ForEnrolmentListener(
                                          {setup_.certificate, setup_.key, {setup_.server_ca}}));
    SKEP_TRY(open(Network::Kind::kEnrolment, "enrol", listen.enrol, ports.enrol, enrolment));
  }
  return ports == before ? Ok() : store_.SetPorts(ports);
}

Status Server::Impl::Start() {
  // A peer that is gone is an error of a write, not the end of the process.
  ::signal(SIGPIPE, SIG_IGN);
  session_rules_ = MakeSessionRules();
  network_ = std::make_unique<Network>(MakeNetworkRules(), *this, memory_, log_);
  workshop_ = std::make_unique<Workshop>(
      Workshop::Means{.store = store_,
                      .models = models_,
                      .bodies = bodies_,
                      .signing_key = setup_.signing_key,
                      .compute_workers = WorkersOf(setup_.config.compute_workers),
                      .queue_bound = kQueueBound,
                      .post = [this](Workshop::Task task) { network_->Post(std::move(task)); }});
  means_ = {setup_.isa, &workshop_->pool()};
  SKEP_ASSIGN(EngineSnapshot snapshot, Recover());
  session_rules_.epoch = snapshot.store.epoch;
  engine_ = std::make_unique<RoundEngine>(MakeEngineConfig(), std::move(snapshot));
  SKEP_TRY(OpenListeners());
  if (setup_.device_authority) {
    certificates_ = std::make_unique<CertificateService>(MakeEnrolmentRules(),
                                                         *setup_.device_authority, store_);
  }
  // Before the first connection is accepted: the loop takes tasks in order.
  network_->Post([this] { Execute(engine_->Resume(ReadClock())); });
  thread_ = std::thread([this] {
    network_->Run();
    EndQuestions();
  });
  log_.Write(
      {.event = "service.ready",
       .message = "ready",
       .fields = {{"devices", listeners_.front().address}, {"advertised", advertised_devices_}}});
  return Ok();
}

}  // namespace skep::aggregator
