#include "aggregator/server/session_machine.h"

#include <algorithm>
#include <utility>

#include "shared/base/error_catalogue.h"
#include "shared/wire/codec.h"

namespace skep::aggregator {
namespace {

constexpr int kNotAllowedNow = 3302;
constexpr int kMajorUnsupported = 3311;
constexpr int kMinorTooOld = 3312;
constexpr int kNoOpening = 3321;
constexpr int kFrameTooSlow = 3322;
constexpr int kPeerSilent = 3324;
constexpr int kPongWithoutPing = 3306;
constexpr int kTooManyMessages = 3335;
constexpr int kOverloaded = 3336;
constexpr int kPlanUnknown = 2214;
constexpr std::uint32_t kOverloadWaitMs = 5000;
constexpr std::size_t kMostTasks = 32;
constexpr std::chrono::seconds kBodyGrace{10};

std::uint32_t InMs(Nanoseconds span) {
  const auto ms = std::chrono::duration_cast<Milliseconds>(span).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ms, 1, UINT32_MAX));
}

wire::TaskRef RefOf(const wire::Manifest& manifest) {
  return {.run_id = manifest.run_id,
          .round = manifest.round,
          .attempt = manifest.attempt,
          .kind = manifest.kind};
}

}  // namespace

wire::RetryClass RetryClassOf(int code) {
  const ErrorEntry* entry = FindError(code);
  if (entry == nullptr || entry->retry == RetryClass::kNone) return wire::RetryClass::kNever;
  return static_cast<wire::RetryClass>(entry->retry);
}

wire::PeerError ErrorMessage(int code, wire::MessageId in_reply_to, std::uint32_t retry_after_ms) {
  const ErrorEntry* entry = FindError(code);
  return {.code = static_cast<std::uint32_t>(code),
          .retry = RetryClassOf(code),
          .retry_after_ms = retry_after_ms,
          .in_reply_to = static_cast<std::uint32_t>(in_reply_to),
          .text = entry == nullptr ? std::string() : std::string(entry->title)};
}

SessionMachine::SessionMachine(SessionNumber number, const SessionRules& rules, Now opened)
    : number_(number),
      rules_(rules),
      now_(opened),
      opened_(opened.steady),
      last_message_(opened.steady),
      last_received_(opened.steady),
      tokens_(rules.message_burst),
      tokens_at_(opened.steady) {}

SessionOutputs SessionMachine::Take() {
  return std::exchange(out_, {});
}

void SessionMachine::Send(const wire::Message& message) {
  out_.push_back(SendFrame{wire::EncodeFrame(message)});
}

void SessionMachine::SendError(int code, wire::MessageId in_reply_to) {
  const std::uint32_t wait = code == kOverloaded ? kOverloadWaitMs : 0;
  Send(ErrorMessage(code, in_reply_to, wait));
}

void SessionMachine::Fail(int code) {
  if (state_ == State::kClosing) return;
  SendError(code, wire::MessageId{});
  Close(code);
}

void SessionMachine::Close(int code) {
  if (state_ == State::kClosing) return;
  state_ = State::kClosing;
  held_population_.clear();
  if (download_ != DownloadRegion::kNone) out_.push_back(StopModel{download_id_});
  out_.push_back(EndSession{code});
}

SessionOutputs SessionMachine::Refuse(Now now, int code) {
  now_ = now;
  Fail(code);
  return Take();
}

SessionOutputs SessionMachine::OnRefused(Now now, int code) {
  return Refuse(now, code);
}

SessionOutputs SessionMachine::OnFrame(Now now, wire::Frame frame) {
  now_ = now;
  frame_began_.reset();
  progress_ = {};
  if (state_ == State::kClosing) return {};
  if (frame.kind == wire::FrameKind::kChunk) {
    OnChunk(std::move(frame));
    return Take();
  }
  if (!TakeToken()) {
    Fail(kTooManyMessages);
    return Take();
  }
  Result<wire::Message> message = wire::DecodeMessage(frame.id, frame.payload);
  if (message) {
    OnMessage(frame.id, std::move(message).value());
  } else {
    Fail(message.error().code);
  }
  return Take();
}

bool SessionMachine::TakeToken() {
  const double earned = Seconds(now_.steady - tokens_at_) * rules_.messages_per_second;
  tokens_ = std::min(tokens_ + earned, static_cast<double>(rules_.message_burst));
  tokens_at_ = now_.steady;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

// The table of states: a pair that is not here is refused.
void SessionMachine::OnMessage(wire::MessageId id, wire::Message message) {
  using wire::MessageId;
  if (const auto* hello = std::get_if<wire::Hello>(&message)) return OnHello(*hello);
  const bool is_open =
      state_ == State::kReady || state_ == State::kHeld || state_ == State::kOffered;
  if (!is_open) return Fail(kNotAllowedNow);
  if (const auto* ping = std::get_if<wire::Ping>(&message)) return Send(wire::Pong{ping->nonce});
  if (const auto* pong = std::get_if<wire::Pong>(&message)) return OnPong(*pong);
  if (std::holds_alternative<wire::PeerError>(message)) return;
  last_message_ = now_.steady;
  switch (id) {
    case MessageId::kPoll:
      return OnPoll(std::get<wire::Poll>(std::move(message)));
    case MessageId::kTaskAccept: {
      const wire::TaskRef task = std::get<wire::TaskAccept>(message).task;
      return OnAnswer(id, std::move(message), task);
    }
    case MessageId::kTaskDecline: {
      const wire::TaskRef task = std::get<wire::TaskDecline>(message).task;
      return OnAnswer(id, std::move(message), task);
    }
    case MessageId::kPlanRequest:
      return OnPlanRequest(std::get<wire::PlanRequest>(message));
    case MessageId::kProgress:
      return ForwardToEngine(std::move(message));
    case MessageId::kTaskFailed: {
      EndTask(std::get<wire::TaskFailed>(message).task);
      return ForwardToEngine(std::move(message));
    }
    case MessageId::kUploadBegin:
      return OnUploadBegin(std::get<wire::UploadBegin>(std::move(message)));
    case MessageId::kDownloadRequest:
      return OnDownloadRequest(std::get<wire::DownloadRequest>(message));
    case MessageId::kTransferCancel:
      return OnTransferCancel(std::get<wire::TransferCancel>(message));
    case MessageId::kTransferProgress:
      if (std::get<wire::TransferProgress>(message).transfer_id > last_transfer_) Fail(3303);
      return;
    case MessageId::kRenewRequest:
      if (is_renewing_) return Fail(kNotAllowedNow);
      is_renewing_ = true;
      out_.push_back(RenewCertificate{std::get<wire::RenewRequest>(std::move(message)).csr});
      return;
    case MessageId::kGoodbye:
      return Close(0);
    default:
      return Fail(kNotAllowedNow);
  }
}

void SessionMachine::OnHello(const wire::Hello& hello) {
  if (state_ != State::kAwaitHello) return Fail(kNotAllowedNow);
  if (hello.major != wire::kMajor) return Fail(kMajorUnsupported);
  minor_ = std::min(hello.minor, wire::kMinor);
  if (minor_ < hello.min_minor || minor_ < rules_.min_minor) return Fail(kMinorTooOld);
  state_ = State::kJoining;
  out_.push_back(Greet{minor_, hello.software});
}

SessionOutputs SessionMachine::Welcome(Now now, const SessionId& id, Nanoseconds reconnect_spread) {
  now_ = now;
  if (state_ != State::kJoining) return {};
  state_ = State::kReady;
  last_message_ = now.steady;
  last_received_ = now.steady;
  Send(wire::HelloAck{.minor = minor_,
                      .software = rules_.software,
                      .federation_id = rules_.federation,
                      .session_id = id,
                      .epoch = rules_.epoch,
                      .clock_ms = now.wall,
                      .ping_interval_ms = InMs(rules_.ping_interval),
                      .progress_interval_ms = InMs(rules_.progress_interval),
                      .max_hold_ms = InMs(rules_.max_hold),
                      .chunk_bytes = rules_.chunk_bytes,
                      .renew_now = false,
                      .signing_key_ids = rules_.signing_keys,
                      .reconnect_spread_ms = InMs(reconnect_spread)});
  return Take();
}

void SessionMachine::OnPoll(wire::Poll poll) {
  if (state_ != State::kReady || upload_ != UploadRegion::kNone) return Fail(kNotAllowedNow);
  state_ = State::kHeld;
  held_population_ = poll.population;
  ForwardToEngine(std::move(poll));
}

// TaskAccept or TaskDecline. One for an offer that has just ended crossed our RoundClosed.
void SessionMachine::OnAnswer(wire::MessageId id, wire::Message message,
                              const wire::TaskRef& task) {
  if (state_ == State::kOffered && offer_ == task) {
    state_ = State::kReady;
    offer_.reset();
    if (id == wire::MessageId::kTaskDecline) EndTask(task);
    return ForwardToEngine(std::move(message));
  }
  if (ended_offer_ && ended_offer_->task == task) return Send(*ended_offer_);
  Fail(kNotAllowedNow);
}

void SessionMachine::OnPlanRequest(const wire::PlanRequest& request) {
  if (state_ == State::kHeld) return Fail(kNotAllowedNow);
  if (FindGrant(request.plan_sha256) == nullptr) {
    return SendError(kPlanUnknown, wire::MessageId::kPlanRequest);
  }
  out_.push_back(FindPlan{request.plan_sha256});
}

SessionOutputs SessionMachine::SendPlan(Now now, const Hash32& plan,
                                        const std::optional<Bytes>& bytes) {
  now_ = now;
  if (state_ == State::kClosing) return {};
  if (bytes) {
    Send(wire::PlanReply{.plan_sha256 = plan, .plan = *bytes});
  } else {
    SendError(kPlanUnknown, wire::MessageId::kPlanRequest);
  }
  return Take();
}

void SessionMachine::OnPong(const wire::Pong& pong) {
  // In the order of the Pings, of which more than one may be open.
  if (open_nonce_ == next_nonce_ || pong.nonce != open_nonce_) return Fail(kPongWithoutPing);
  ++open_nonce_;
}

void SessionMachine::ForwardToEngine(wire::Message message) {
  out_.push_back(TellEngine{ClientMessage{number_, std::move(message)}});
}

SessionOutputs SessionMachine::Renewed(Now now, const Result<wire::RenewResult>& result) {
  now_ = now;
  if (!is_renewing_ || state_ == State::kClosing) return {};
  is_renewing_ = false;
  if (result) {
    Send(result.value());
    return Take();
  }
  const int code = result.error().code;
  const ErrorEntry* entry = FindError(code);
  if (entry != nullptr && entry->closes_session) {
    Fail(code);
  } else {
    SendError(code, wire::MessageId::kRenewRequest);
  }
  return Take();
}

SessionOutputs SessionMachine::OnEngine(Now now, Output output) {
  now_ = now;
  if (state_ == State::kClosing) {
    // An upload admitted in the meantime must not wait for chunks that nobody will read.
    if (const auto* admit = std::get_if<AdmitUpload>(&output)) Admit(*admit);
    return Take();
  }
  if (auto* send = std::get_if<aggregator::Send>(&output)) {
    SendFromEngine(std::move(send->message));
  } else if (auto* grant = std::get_if<Grant>(&output)) {
    grant_ = *grant;
  } else if (const auto* admit = std::get_if<AdmitUpload>(&output)) {
    Admit(*admit);
  } else if (const auto* refuse = std::get_if<RefuseUpload>(&output)) {
    SendRefusal(*refuse);
  } else if (const auto* cancel = std::get_if<CancelUpload>(&output)) {
    Cancel(*cancel);
  } else if (const auto* disconnect = std::get_if<Disconnect>(&output)) {
    Fail(disconnect->code);
  }
  return Take();
}

void SessionMachine::SendFromEngine(wire::Message message) {
  const wire::MessageId id = wire::IdOf(message);
  if (auto* offer = std::get_if<wire::TaskOffer>(&message)) {
    const Result<wire::Manifest> manifest = wire::DecodeManifest(offer->manifest.payload);
    // Only a held Poll is answered by an offer; the next Poll gets it if this one has ended.
    if (state_ != State::kHeld || !manifest || !grant_) return;
    state_ = State::kOffered;
    held_population_.clear();
    offer_ = RefOf(manifest.value());
    EndTask(*offer_);
    if (tasks_.size() >= kMostTasks) tasks_.erase(tasks_.begin());
    tasks_.push_back({*offer_, grant_->plan, grant_->model});
    grant_.reset();
  } else if (const auto* closed = std::get_if<wire::RoundClosed>(&message)) {
    EndTask(closed->task);
    if (state_ == State::kOffered && offer_ == closed->task) {
      state_ = State::kReady;
      offer_.reset();
      ended_offer_ = *closed;
    }
  } else if (const auto* ack = std::get_if<wire::UpdateAck>(&message)) {
    const bool is_awaited =
        (upload_ == UploadRegion::kDeciding || upload_ == UploadRegion::kSettling) &&
        begin_.update_id == ack->update_id;
    if (is_awaited) {
      EndTask(begin_.task);
      EndUpload();
    }
  } else if (state_ == State::kHeld &&
             (id == wire::MessageId::kComeBack || id == wire::MessageId::kError)) {
    state_ = State::kReady;
    held_population_.clear();
  }
  last_message_ = now_.steady;
  Send(message);
}

void SessionMachine::EndTask(const wire::TaskRef& ref) {
  std::erase_if(tasks_, [&](const Task& task) { return task.ref == ref; });
}

const SessionMachine::Task* SessionMachine::FindGrant(const Hash32& plan) const {
  const auto found = std::find_if(tasks_.begin(), tasks_.end(),
                                  [&](const Task& task) { return task.plan == plan; });
  return found == tasks_.end() ? nullptr : &*found;
}

bool SessionMachine::IsBusy() const {
  return state_ != State::kReady || upload_ != UploadRegion::kNone ||
         download_ != DownloadRegion::kNone || is_renewing_ || !tasks_.empty();
}

void SessionMachine::EndIdle(wire::GoodbyeReason reason, wire::ComeBackReason come_back) {
  Send(wire::Goodbye{
      .reason = reason,
      .come_back = wire::ComeBack{.earliest_ms = 0, .latest_ms = 1, .reason = come_back}});
  Close(0);
}

SessionOutputs SessionMachine::Drain(Now now) {
  now_ = now;
  const bool is_moving = upload_ == UploadRegion::kDeciding ||
                         upload_ == UploadRegion::kReceiving || upload_ == UploadRegion::kSettling;
  const bool is_open =
      state_ == State::kReady || state_ == State::kHeld || state_ == State::kOffered;
  if (is_open && !is_moving) {
    EndIdle(wire::GoodbyeReason::kDraining, wire::ComeBackReason::kDraining);
  }
  return Take();
}

void SessionMachine::OnBytes(Now now, const FrameProgress& progress) {
  now_ = now;
  last_received_ = now.steady;
  pinged_.reset();
  const bool is_in_frame = progress.is_in_header || progress.is_in_body;
  if (!is_in_frame) {
    frame_began_.reset();
  } else if (!frame_began_ || (progress_.is_in_header && progress.is_in_body)) {
    frame_began_ = now.steady;
  }
  progress_ = progress;
}

void SessionMachine::SetReading(Now now, bool is_reading) {
  now_ = now;
  if (!is_reading) {
    if (!paused_since_) paused_since_ = now.steady;
    return;
  }
  if (!paused_since_) return;
  const Nanoseconds pause = now.steady - *paused_since_;
  paused_since_.reset();
  last_received_ += pause;
  if (frame_began_) *frame_began_ += pause;
  if (pinged_) *pinged_ += pause;
  window_began_ += pause;
  draining_until_ += pause;
}

SteadyTime SessionMachine::FrameDeadline() const {
  if (!frame_began_ || paused_since_) return SteadyTime::max();
  if (progress_.is_in_header) return *frame_began_ + rules_.header_deadline;
  const Nanoseconds body = Nanoseconds(std::chrono::seconds(progress_.body_length)) /
                           static_cast<std::int64_t>(rules_.min_rate);
  return *frame_began_ + kBodyGrace + body;
}

SteadyTime SessionMachine::PingDeadline() const {
  if (state_ == State::kAwaitHello || state_ == State::kJoining || paused_since_) {
    return SteadyTime::max();
  }
  return pinged_ ? *pinged_ + rules_.ping_deadline : last_received_ + rules_.ping_interval;
}

SteadyTime SessionMachine::IdleDeadline() const {
  return IsBusy() ? SteadyTime::max() : last_message_ + rules_.idle_limit;
}

SteadyTime SessionMachine::HelloDeadline() const {
  return state_ == State::kAwaitHello ? opened_ + rules_.first_frame_deadline : SteadyTime::max();
}

SteadyTime SessionMachine::NextDeadline() const {
  if (state_ == State::kClosing) return SteadyTime::max();
  return std::min(
      {HelloDeadline(), FrameDeadline(), PingDeadline(), IdleDeadline(), TransferDeadline()});
}

SessionOutputs SessionMachine::OnDeadline(Now now) {
  now_ = now;
  if (state_ == State::kClosing) return {};
  const SteadyTime at = now.steady;
  if (HelloDeadline() <= at) {
    Fail(kNoOpening);
  } else if (FrameDeadline() <= at) {
    Fail(kFrameTooSlow);
  } else if (IdleDeadline() <= at) {
    EndIdle(wire::GoodbyeReason::kDone, wire::ComeBackReason::kNoWork);
  } else {
    if (TransferDeadline() <= at) CheckTransfers();
    if (state_ != State::kClosing && PingDeadline() <= at) CheckPing();
  }
  return Take();
}

void SessionMachine::CheckPing() {
  if (pinged_) return Fail(kPeerSilent);
  pinged_ = now_.steady;
  Send(wire::Ping{next_nonce_++});
}

}  // namespace skep::aggregator
