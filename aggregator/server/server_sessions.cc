// What the server does for its sessions, and for who enrols.
#include <utility>

#include "aggregator/inspector.h"
#include "aggregator/server/server_impl.h"
#include "crypto/csprng.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr int kNotTrusted = 3101;
constexpr int kRevoked = 3105;
constexpr int kStorageFault = 3405;
constexpr int kDiskFailed = 4005;
constexpr int kOverloaded = 3336;
constexpr int kNotServed = 3401;
constexpr int kRenewTooOften = 3121;
constexpr int kTooManyAttempts = 3332;
constexpr std::chrono::minutes kAttemptWindow{1};
constexpr std::size_t kMostAddresses = 100'000;
constexpr std::uint32_t kReconnectsPerSecond = 200;

AttemptKey KeyOf(const wire::TaskRef& task) {
  return {task.run_id, task.round, task.kind, task.attempt};
}

}  // namespace

ServerSession* Server::Impl::FindSession(SessionNumber number) {
  const auto session = sessions_.find(number);
  return session == sessions_.end() ? nullptr : session->second.get();
}

LinkUser& Server::Impl::OnDevice(Link& link, Visitor visitor) {
  const SessionNumber number = next_session_++;
  auto session =
      std::make_unique<ServerSession>(number, *this, link, std::move(visitor), session_rules_);
  ServerSession& user = *session;
  sessions_[number] = std::move(session);
  Changed(user);
  return user;
}

void Server::Impl::Changed(ServerSession& session) {
  const SessionMachine& machine = session.machine();
  const bool uploads = machine.upload() == SessionMachine::UploadRegion::kReceiving ||
                       machine.upload() == SessionMachine::UploadRegion::kSettling;
  const bool downloads = machine.download() == SessionMachine::DownloadRegion::kSending;
  uploads_ += static_cast<std::uint32_t>(uploads) -
              static_cast<std::uint32_t>(std::exchange(session.counts_as_upload, uploads));
  downloads_ += static_cast<std::uint32_t>(downloads) -
                static_cast<std::uint32_t>(std::exchange(session.counts_as_download, downloads));
  // A deadline that moved back is found out when the earlier one comes.
  const SteadyTime next = machine.NextDeadline();
  if (next != SteadyTime::max() && (!session.alarm || next < *session.alarm)) {
    if (session.alarm) session_alarms_.erase({*session.alarm, session.number()});
    session.alarm = next;
    session_alarms_.insert({next, session.number()});
    ArmAlarm();
  }
  if (is_draining_ && machine.state() != SessionMachine::State::kClosing && session.is_joined() &&
      machine.upload() == SessionMachine::UploadRegion::kNone) {
    session.Drain();
  }
}

void Server::Impl::Ended(ServerSession& session, const Error& why) {
  const SessionNumber number = session.number();
  const std::optional<UploadNumber> receiving = session.machine().receiving();
  if (session.alarm) session_alarms_.erase({*session.alarm, number});
  uploads_ -= session.counts_as_upload ? 1U : 0U;
  downloads_ -= session.counts_as_download ? 1U : 0U;
  const int code = session.end_code();
  log_.Write({.level = code == 0 || code == why.code ? LogLevel::kDebug : LogLevel::kWarning,
              .code = code,
              .event = "session.closed",
              .message = "session closed",
              .fields = {{"device", session.visitor().device.Hex().substr(0, 6)},
                         {"session", static_cast<std::int64_t>(number)},
                         {"address", LoggedAddress(session.visitor().address)}}});
  const bool was_joined = session.is_joined();
  sessions_.erase(number);
  if (receiving) {
    KeepPartial(*receiving);
    Tell(UploadAborted{*receiving, code});
  }
  if (was_joined) Tell(ClientLeft{number, code});
  if (is_draining_ && sessions_.empty()) EndDrain();
}

// The handshake has judged the certificate; whether it was replaced or revoked stands in the store.
void Server::Impl::Join(ServerSession& session, const Greet& greet) {
  const Serial serial = SerialOf(session.visitor().certificate);
  const DeviceId device = session.visitor().device;
  workshop_->OnStore([this, number = session.number(), serial, device, minor = greet.minor] {
    const WallMs now = ReadClock().wall;
    const auto judge = [&]() -> Status {
      SKEP_ASSIGN(const auto row, store_.FindCertificate(serial));
      if (!row || row->device != device) return Error{kNotTrusted, "certificate not on record", ""};
      if (row->state != CertificateState::kLive) return Error{kRevoked, "certificate replaced", ""};
      SKEP_TRY(store_.CertificateUsed(serial, now));
      // When a device was last seen is for people: a full disk keeps nobody out.
      const Status seen = store_.DeviceSeen(device, now);
      if (!seen && seen.error().code == kDiskFailed) return seen;
      return Ok();
    };
    network_->Post(
        [this, number, judged = judge(), minor] { OnCertificateJudged(number, judged, minor); });
  });
}

void Server::Impl::OnCertificateJudged(SessionNumber number, const Status& judged,
                                       std::uint32_t minor) {
  CheckStore(judged);
  ServerSession* session = FindSession(number);
  if (session == nullptr || has_failed_) return;
  const Result<SessionId> id = crypto::RandomId<SessionId>();
  if (!judged && judged.error().code == kRevoked) {
    log_.Write({.level = LogLevel::kWarning,
                .code = kRevoked,
                .event = "device.possible_clone",
                .message = "a certificate was used after it had been replaced",
                .fields = {{"device", session->visitor().device.Hex().substr(0, 6)}}});
  }
  if (!judged && judged.error().code != kRevoked && judged.error().code != kNotTrusted) {
    NoteStoreFault(judged.error());
    return session->Refuse(kOverloaded);  // it may come back later
  }
  if (!judged || !id) return session->Refuse(judged ? id.error().code : judged.error().code);
  const auto spread = std::min<Nanoseconds>(
      Nanoseconds(std::chrono::seconds(sessions_.size())) / kReconnectsPerSecond,
      setup_.config.session.reconnect_spread);
  session->Welcome(id.value(), spread);
  const auto known = devices_.find(session->visitor().device);
  if (!session->is_joined() || known == devices_.end()) return;
  log_.Write({.level = LogLevel::kDebug,
              .event = "session.opened",
              .message = "session opened: " + EscapePeerText(session->software()),
              .fields = {{"device", known->first.Hex().substr(0, 6)},
                         {"session", static_cast<std::int64_t>(number)},
                         {"address", LoggedAddress(session->visitor().address)}}});
  Tell(ClientJoined{number, known->first, known->second.memberships, minor});
}

// A request was refused because the store could not answer it.
void Server::Impl::NoteStoreFault(const Error& error) {
  if (has_failed_) return;
  log_.Write({.level = LogLevel::kError,
              .code = error.code,
              .event = "store.fault",
              .message = "a device was sent away: " + error.message});
}

void Server::Impl::FindPlan(ServerSession& session, const Hash32& plan) {
  if (const auto cached = plans_.find(plan); cached != plans_.end()) {
    return session.PlanFound(plan, cached->second);
  }
  workshop_->OnStore([this, number = session.number(), plan] {
    network_->Post([this, number, plan, stored = store_.GetPlan(plan)] {
      ServerSession* asker = FindSession(number);
      if (asker == nullptr) return;
      asker->PlanFound(plan, stored ? std::optional(stored.value()) : std::nullopt);
    });
  });
}

void Server::Impl::FindModel(ServerSession& session, const aggregator::FindModel& wanted) {
  if (downloads_ >= setup_.config.limits.concurrent_downloads) {
    return session.ModelFound(wanted.transfer_id, nullptr, kOverloaded);
  }
  if (const auto cached = models_.Cached(wanted.model)) {
    return session.ModelFound(wanted.transfer_id, cached, 0);
  }
  workshop_->OnStore([this, number = session.number(), wanted] {
    network_->Post([this, number, wanted, found = models_.Model(wanted.model)] {
      ServerSession* asker = FindSession(number);
      if (asker == nullptr) return;
      asker->ModelFound(wanted.transfer_id, found ? found.value() : nullptr, kNotServed);
    });
  });
}

void Server::Impl::Offer(ServerSession& session, wire::UploadBegin begin) {
  workshop_->OnStore([this, number = session.number(), device = session.visitor().device,
                      begin = std::move(begin)] {
    auto prior = store_.Verdict(KeyOf(begin.task), device);
    network_->Post([this, number, begin, prior] {
      ServerSession* asker = FindSession(number);
      if (asker == nullptr) return;
      if (prior) return Tell(UploadOffered{number, begin, prior.value()});
      CheckStore(prior.error());
      NoteStoreFault(prior.error());
      asker->FromEngine(RefuseUpload{number, begin.transfer_id, begin.update_id, kStorageFault});
    });
  });
}

void Server::Impl::Renew(ServerSession& session, Bytes csr) {
  if (!certificates_)
    return session.Renewed(Error{kRenewTooOften, "this server does not issue", ""});
  workshop_->OnStore([this, number = session.number(), device = session.visitor().device,
                      current = session.visitor().certificate, csr = std::move(csr)] {
    auto renewed = certificates_->Renew(device, current, csr, ReadClock().wall);
    network_->Post([this, number, device, renewed] {
      if (!renewed) CheckStore(renewed.error());
      if (renewed) {
        log_.Write({.event = "device.renewed",
                    .message = "certificate renewed",
                    .fields = {{"device", device.Hex().substr(0, 6)}}});
      }
      if (ServerSession* asker = FindSession(number)) asker->Renewed(renewed);
    });
  });
}

// At most so many requests of one address in a minute.
bool Server::Impl::TakeEnrolmentToken(const std::string& address) {
  const SteadyTime now = Time().steady;
  if (enrolments_.size() >= kMostAddresses) {
    std::erase_if(enrolments_, [&](const auto& entry) {
      return entry.second.empty() || entry.second.back() + kAttemptWindow <= now;
    });
  }
  std::deque<SteadyTime>& attempts = enrolments_[address];
  while (!attempts.empty() && attempts.front() + kAttemptWindow <= now) attempts.pop_front();
  if (attempts.size() >= setup_.config.enrolment.attempts_per_address) return false;
  attempts.push_back(now);
  return true;
}

void Server::Impl::OnEnrolment(const std::string& address, wire::EnrolRequest request,
                               Answer answer) {
  if (!TakeEnrolmentToken(address)) {
    return answer(Error{kTooManyAttempts, "too many attempts of this address", ""});
  }
  workshop_->OnStore([this, request = std::move(request), answer = std::move(answer)] {
    auto made = certificates_->Enrol(request, ReadClock().wall);
    network_->Post([this, made = std::move(made), answer] {
      if (!made) {
        CheckStore(made.error());
        log_.Write({.level = LogLevel::kWarning,
                    .code = made.error().code,
                    .event = "device.refused",
                    .message = "enrolment refused: " + made.error().message});
        return answer(made.error());
      }
      OnEnrolled(made.value());
      answer(wire::Message(made.value().answer));
    });
  });
}

void Server::Impl::OnEnrolled(const NewDevice& made) {
  if (made.is_repeat) return;
  devices_[made.device].memberships = {{made.population, made.client}};
  log_.Write({.event = "device.enrolled",
              .message = "device enrolled",
              .fields = {{"device", made.device.Hex().substr(0, 6)},
                         {"population", made.population},
                         {"client", std::int64_t{made.client}}}});
  Enlist(made.device, DeviceState::kActive);
}

// The engine learns what is already durable.
void Server::Impl::Enlist(const DeviceId& device, DeviceState state) {
  KnownDevice& known = devices_[device];
  known.state = state;
  Tell(DeviceChanged{device, state, known.memberships});
}

}  // namespace skep::aggregator
