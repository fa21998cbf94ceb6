// Waiting: come-back windows, refusals by class, losses and the back-off after them.
#include <algorithm>
#include <utility>

#include "client/session_impl.h"

namespace skep::client {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Nanoseconds kLongestWindow = hours(7 * 24);
constexpr Nanoseconds kRemembered = seconds(1);       // shorter waits are not worth a write
constexpr Nanoseconds kStaysConnected = seconds(10);  // a longer rest is spent apart
constexpr Nanoseconds kShortestPause = seconds(1);
constexpr Nanoseconds kRejoinPause = hours(6);
constexpr Nanoseconds kFirstBackOff = seconds(15);
constexpr Nanoseconds kLongestBackOff = hours(1);
constexpr Nanoseconds kShortestBackOff = seconds(1);
constexpr Nanoseconds kUpdateBackOff = seconds(3);   // an update waits: come back soon ...
constexpr Nanoseconds kUpdatePatience = minutes(2);  // ... for so long after the loss
constexpr std::uint32_t kMostDoublings = 8;          // 15 s x 2^8 is above an hour

Nanoseconds Share(double share, Nanoseconds whole) {
  return Nanoseconds(static_cast<std::int64_t>(share * static_cast<double>(whole.count())));
}

}  // namespace

void Session::Impl::On(const wire::ComeBack& come_back) {
  if (!std::holds_alternative<Polling>(phase_)) return;  // crossed with what came first
  ResetBackOff();
  Enter(Idle{});
  ObserveWindow(come_back);
}

void Session::Impl::On(const wire::Goodbye& goodbye) {
  if (!goodbye.come_back) return Lose("the aggregator said goodbye");
  const Nanoseconds wait = DrawWindow(*goodbye.come_back);
  if (config_.once && !HasWork()) return Finish(0, "told to come back", wire::GoodbyeReason::kDone);
  StayAway(wait, Link::kResting, "told to come back");
}

// Attached and with nothing in flight: rest as the aggregator wishes, or ask again at once.
void Session::Impl::ObserveWindow(const std::optional<wire::ComeBack>& come_back) {
  if (!come_back) return Next();
  const Nanoseconds wait = DrawWindow(*come_back);
  if (config_.once && !HasWork()) return Finish(0, "told to come back", wire::GoodbyeReason::kDone);
  if (wait < kStaysConnected) {
    ArmRepeat(wait);
    return;
  }
  Tell({.kind = Note::Kind::kComeBack, .text = "told to come back"});
  Say(wire::Goodbye{wire::GoodbyeReason::kDone, std::nullopt});
  StayAway(wait, Link::kResting, "told to come back");
}

Nanoseconds Session::Impl::DrawWindow(const wire::ComeBack& come_back) {
  const Nanoseconds earliest = Milliseconds(come_back.earliest_ms);
  const Nanoseconds latest = std::max(earliest, Nanoseconds(Milliseconds(come_back.latest_ms)));
  const Nanoseconds drawn = earliest + Share(device_.Uniform(), latest - earliest);
  const Nanoseconds wait = std::min(drawn, kLongestWindow);
  if (wait >= kRemembered) {
    const auto wait_ms = std::chrono::duration_cast<Milliseconds>(wait).count();
    memory_.next_check_in = now_.wall + static_cast<WallMs>(wait_ms);
    ++memory_.revision;
  }
  return wait;
}

void Session::Impl::On(const wire::PeerError& error) {
  const auto code = static_cast<int>(error.code);
  const Nanoseconds after =
      std::min<Nanoseconds>(Milliseconds(error.retry_after_ms), kLongestWindow);
  Tell({.kind = Note::Kind::kProblem,
        .task = CurrentTask(),
        .code = code,
        .text = "the aggregator reports: " + error.text});
  switch (error.retry) {
    case wire::RetryClass::kNever:
      return Refused(error);
    case wire::RetryClass::kSession:
      return RepeatAfter(after);
    case wire::RetryClass::kReconnect:
      return Lose("the aggregator reports SKEP-" + std::to_string(code), after);
    case wire::RetryClass::kRejoin:
    case wire::RetryClass::kUpgrade:
      return Rejoin(code, error.text);
  }
}

// Training asks for nothing: there is no request to repeat.
void Session::Impl::RepeatAfter(Nanoseconds after) {
  if (std::holds_alternative<Training>(phase_)) return;
  if (pending_) {
    StopSending(2109);
    Enter(Idle{});
  }
  DisarmDeadline();
  ArmRepeat(std::max(after, kShortestPause));
}

// What is not to be repeated is given up: the offer, the task, the update, or this connection.
void Session::Impl::Refused(const wire::PeerError& error) {
  const auto code = static_cast<int>(error.code);
  const auto request = static_cast<wire::MessageId>(error.in_reply_to);
  if (code == 3334) {  // two processes with one identity would replace each other for ever
    return Finish(code, "another process connected as this device", wire::GoodbyeReason::kDone);
  }
  if (request == wire::MessageId::kPlanRequest && std::holds_alternative<Deciding>(phase_)) {
    return Decline(CurrentTask(), Error{code, "the aggregator does not serve the plan", ""});
  }
  if (request == wire::MessageId::kDownloadRequest && std::holds_alternative<Downloading>(phase_)) {
    return FailTask(CurrentTask(), Error{code, "the aggregator does not serve the model", ""});
  }
  if (request == wire::MessageId::kUploadBegin && pending_) {
    StopSending(code);
    DropUpdate(code);
    Enter(Idle{});
    return Next();
  }
  Lose("the aggregator reports SKEP-" + std::to_string(code));
}

void Session::Impl::Contradiction(const char* what) {
  Tell({.kind = Note::Kind::kProblem, .task = CurrentTask(), .text = what});
  Lose(what);
}

void Session::Impl::Lose(std::string why, Nanoseconds at_least) {
  const bool was_attached = IsAttached();
  if (was_attached) lost_at_ = now_.steady;
  StayAway(std::max(DrawBackOff(was_attached), at_least), Link::kBackOff, std::move(why));
}

// Training and an accepted task survive a lost connection; what was asked for on it does not.
void Session::Impl::StayAway(Nanoseconds after, Link link, std::string why) {
  link_ = link;
  reconnect_at_ = now_.steady + after;
  progress_timer_ = 0;
  repeat_timer_ = 0;
  if (auto* downloading = std::get_if<Downloading>(&phase_)) {
    downloading->has_begun = false;
    DisarmDeadline();
  } else if (!std::holds_alternative<Training>(phase_)) {
    Enter(Idle{});
  }
  since_ = now_;
  out_.emplace_back(Reconnect{after, std::move(why)});
}

// Nothing but a person, or other software, can help: ask rarely.
void Session::Impl::Rejoin(int code, std::string why) {
  if (config_.once) return Finish(code, std::move(why), wire::GoodbyeReason::kDone);
  StayAway(kRejoinPause, Link::kBackOff, std::move(why));
}

Nanoseconds Session::Impl::DrawBackOff(bool was_attached) {
  Nanoseconds wait{};
  if (pending_ && lost_at_ && now_.steady - *lost_at_ < kUpdatePatience) {
    wait = Share(device_.Uniform(), kUpdateBackOff);
  } else {
    const std::uint32_t doublings = std::min(memory_.failures, kMostDoublings);
    const Nanoseconds longest = std::min(kLongestBackOff, kFirstBackOff * (1 << doublings));
    wait = std::max(kShortestBackOff, Share(device_.Uniform(), longest));
    ++memory_.failures;
    ++memory_.revision;
  }
  if (was_attached && ack_.reconnect_spread_ms > 0) {
    const Nanoseconds spread = Milliseconds(ack_.reconnect_spread_ms);
    wait = std::max(wait, Share(device_.Uniform(), spread));
  }
  return wait;
}

void Session::Impl::ResetBackOff() {
  if (memory_.failures == 0) return;
  memory_.failures = 0;
  ++memory_.revision;
}

void Session::Impl::Finish(int code, std::string why, wire::GoodbyeReason reason) {
  if (IsAttached()) Say(wire::Goodbye{reason, std::nullopt});
  link_ = Link::kFinished;
  phase_ = Idle{};
  since_ = now_;
  out_.emplace_back(Finished{code, std::move(why)});
}

}  // namespace skep::client
