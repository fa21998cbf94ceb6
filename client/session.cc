#include "client/session.h"

#include <algorithm>
#include <utility>

#include "client/session_impl.h"
#include "shared/base/error_catalogue.h"

namespace skep::client {
namespace {

constexpr Nanoseconds kAnswerMargin = std::chrono::seconds(30);  // beyond the time a Poll is held

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

const char* Described(SessionState state) {
  switch (state) {
    case SessionState::kIdle:
      return "the time to come back";
    case SessionState::kConnecting:
      return "the connection to the aggregator";
    case SessionState::kReady:
      return "the time to ask again";
    case SessionState::kPolling:
      return "a task";
    case SessionState::kDeciding:
      return "the plan of the offered task";
    case SessionState::kDownloading:
      return "the model";
    case SessionState::kTraining:
      return "the trainer";
    case SessionState::kUploading:
      return "the aggregator to take the update";
    case SessionState::kSettling:
      return "the acknowledgement of the update";
    case SessionState::kBackOff:
      return "the next attempt to connect";
  }
  return "nothing";
}

}  // namespace

Session::Session(SessionConfig config, Device& device)
    : impl_(std::make_unique<Impl>(std::move(config), device)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Outputs Session::Step(Now now, Input input) {
  return impl_->Step(now, std::move(input));
}
SessionState Session::state() const {
  return impl_->state();
}
const SessionMemory& Session::memory() const {
  return impl_->memory();
}
std::string Session::WaitingFor() const {
  return impl_->WaitingFor();
}

Session::Impl::Impl(SessionConfig config, Device& device)
    : config_(std::move(config)), device_(device) {
  pending_ = std::move(config_.pending);
  memory_ = std::move(config_.memory);
}

Outputs Session::Impl::Step(Now now, Input input) {
  if (now_.wall == 0) since_ = now;
  now_ = now;
  out_.clear();
  if (link_ != Link::kFinished) {
    std::visit([this](auto& one) { On(one); }, input);
  }
  return std::move(out_);
}

SessionState Session::Impl::state() const {
  if (link_ == Link::kFinished) return SessionState::kIdle;
  if (std::holds_alternative<Training>(phase_)) return SessionState::kTraining;
  if (link_ == Link::kConnecting) return SessionState::kConnecting;
  if (link_ == Link::kResting) return SessionState::kIdle;
  if (link_ == Link::kBackOff) return SessionState::kBackOff;
  return std::visit(Overloaded{
                        [](const Idle&) { return SessionState::kReady; },
                        [](const Polling&) { return SessionState::kPolling; },
                        [](const Deciding&) { return SessionState::kDeciding; },
                        [](const Downloading&) { return SessionState::kDownloading; },
                        [](const Training&) { return SessionState::kTraining; },
                        [](const Uploading&) { return SessionState::kUploading; },
                        [](const Settling&) { return SessionState::kSettling; },
                    },
                    phase_);
}

std::string Session::Impl::WaitingFor() const {
  if (link_ == Link::kFinished) return "nothing: finished";
  return std::string(Described(state())) + ", since " + UtcText(since_.wall);
}

void Session::Impl::On(const Connected& connected) {
  link_ = Link::kAttached;
  ack_ = connected.ack;
  last_transfer_ = 0;
  asked_for_plan_ = false;
  // A HelloAck made in memory may carry no clock; then both sides read the same one.
  clock_offset_ms_ = ack_.clock_ms == 0 ? 0
                                        : static_cast<std::int64_t>(ack_.clock_ms) -
                                              static_cast<std::int64_t>(now_.wall);
  if (config_.federation && ack_.federation_id != *config_.federation) {
    Contradiction("the aggregator belongs to another federation");
    return;
  }
  Next();
}

void Session::Impl::On(ServerMessage& message) {
  if (!IsAttached()) return;
  std::visit(Overloaded{
                 [this](wire::TaskOffer& offer) { On(offer); },
                 [this](const wire::PlanReply& reply) { On(reply); },
                 [this](const wire::DownloadBegin& begin) { On(begin); },
                 [this](const wire::RoundClosed& closed) { On(closed); },
                 [this](const wire::UploadAccept& accept) { On(accept); },
                 [this](const wire::TransferProgress& progress) { On(progress); },
                 [this](const wire::TransferCancel& cancel) { On(cancel); },
                 [this](const wire::UpdateAck& ack) { On(ack); },
                 [this](const wire::UpdateRefused& refused) { On(refused); },
                 [this](const wire::ComeBack& come_back) { On(come_back); },
                 [this](const wire::Goodbye& goodbye) { On(goodbye); },
                 [this](const wire::PeerError& error) { On(error); },
                 // The driver answers and keeps these by itself.
                 [](const wire::Ping&) {},
                 [](const wire::Pong&) {},
                 [](const wire::RenewResult&) {},
                 [](const wire::SigningKeyUpdate&) {},
                 [this](const auto&) { Contradiction("a message that only clients send"); },
             },
             message.message);
}

void Session::Impl::On(const TimerFired& timer) {
  if (timer.timer == 0) return;
  if (timer.timer == deadline_timer_) {
    deadline_timer_ = 0;
    DeadlinePassed();
  } else if (timer.timer == repeat_timer_) {
    repeat_timer_ = 0;
    RepeatRequest();
  } else if (timer.timer == progress_timer_) {
    progress_timer_ = 0;
    SendProgress();
  }
}

void Session::Impl::DeadlinePassed() {
  std::visit(Overloaded{
                 [](const Idle&) {},
                 [this](const Polling&) { Lose("no answer to Poll"); },
                 [this](const Deciding& deciding) {
                   const wire::TaskRef task = deciding.task.Ref();
                   Decline(task, Error{7410, "the plan did not come while the offer stood", ""});
                 },
                 [this](const Downloading&) { Lose("the model's bytes stopped coming"); },
                 [this](const Training& training) {
                   const wire::TaskRef task = training.task.Ref();
                   out_.emplace_back(StopTraining{});
                   FailTask(task, Error{7410, "training took longer than the task allows", ""});
                 },
                 [this](const Uploading&) { Lose("the aggregator does not take the update"); },
                 [this](const Settling&) { Lose("the update was not acknowledged"); },
             },
             phase_);
}

// What a phase asked for is asked for again, on the same connection.
void Session::Impl::RepeatRequest() {
  if (!IsAttached()) return;
  if (const auto* deciding = std::get_if<Deciding>(&phase_)) {
    Say(wire::PlanRequest{deciding->task.manifest.plan_sha256});
  } else if (std::holds_alternative<Downloading>(phase_)) {
    RequestModel();
  } else {
    Next();
  }
}

void Session::Impl::On(const Disconnected& disconnected) {
  const ErrorEntry* const known = FindError(disconnected.code);
  if (known != nullptr &&
      (known->retry == RetryClass::kRejoin || known->retry == RetryClass::kUpgrade)) {
    return Rejoin(disconnected.code, std::string(known->title));
  }
  // The close that a Reconnect ordered may be reported too; only later ones are failed attempts.
  const bool is_news = link_ != Link::kBackOff && link_ != Link::kResting;
  if (is_news || now_.steady >= reconnect_at_) {
    Lose(IsAttached() ? "connection lost" : "could not connect");
  }
}

void Session::Impl::On(const Stop&) {
  if (const auto* training = std::get_if<Training>(&phase_)) {
    const wire::TaskRef task = training->task.Ref();
    out_.emplace_back(StopTraining{});
    if (IsAttached()) Say(wire::TaskFailed{task, 7407});
  } else if (const auto* downloading = std::get_if<Downloading>(&phase_)) {
    if (IsAttached()) Say(wire::TaskFailed{downloading->task.Ref(), 7407});
  }
  Finish(0, "stopped", wire::GoodbyeReason::kAppStop);
}

// Connected and free to act: what was begun goes on first, then a new task is asked for.
void Session::Impl::Next() {
  if (!IsAttached()) return;
  if (unsent_failure_) {
    Say(*unsent_failure_);
    unsent_failure_.reset();
  }
  if (std::holds_alternative<Training>(phase_)) {
    ArmProgress();
  } else if (std::holds_alternative<Downloading>(phase_)) {
    RequestModel();
  } else if (pending_) {
    Upload();
  } else {
    Poll();
  }
}

void Session::Impl::Poll() {
  Enter(Polling{});
  wire::Poll poll;
  poll.population = config_.population;
  poll.hold_ms = ack_.max_hold_ms;
  poll.max_model_bytes = config_.max_model_bytes;
  poll.max_update_bytes = config_.max_update_bytes;
  poll.encodings = config_.encodings;
  poll.task_kinds = {wire::TaskKind::kTrain, wire::TaskKind::kEvaluate};
  poll.evidence = memory_.evidence;
  Say(std::move(poll));
  ArmDeadline(Milliseconds(ack_.max_hold_ms) + kAnswerMargin);
}

wire::TaskRef Session::Impl::CurrentTask() const {
  return std::visit(Overloaded{
                        [](const Deciding& deciding) { return deciding.task.Ref(); },
                        [](const Downloading& downloading) { return downloading.task.Ref(); },
                        [](const Training& training) { return training.task.Ref(); },
                        [](const auto&) { return wire::TaskRef{}; },
                    },
                    phase_);
}

void Session::Impl::ArmDeadline(Nanoseconds after) {
  deadline_timer_ = ++last_timer_;
  out_.emplace_back(ArmTimer{deadline_timer_, after});
}

void Session::Impl::ArmRepeat(Nanoseconds after) {
  repeat_timer_ = ++last_timer_;
  out_.emplace_back(ArmTimer{repeat_timer_, after});
}

void Session::Impl::ArmProgress() {
  progress_timer_ = 0;
  if (ack_.progress_interval_ms == 0) return;
  progress_timer_ = ++last_timer_;
  out_.emplace_back(ArmTimer{progress_timer_, Milliseconds(ack_.progress_interval_ms)});
}

}  // namespace skep::client
