#include "client/faultproxy/connection.h"

#include <algorithm>
#include <utility>

#include "shared/base/file.h"

namespace skep::faultproxy {
namespace {

constexpr std::size_t kPiece = 16UL * 1024;
// So often bytes move before other connections have their turn.
constexpr int kMostTurns = 16;
// How long a side that was told the end may go on sending before it is cut off.
constexpr Nanoseconds kFarewell = std::chrono::seconds(1);
// How often a reset looks whether what was sent before has arrived: about a second.
constexpr int kMostResetTries = 1000;

constexpr std::array kDirections = {Direction::kUp, Direction::kDown};

}  // namespace

Connection::Connection(std::uint32_t number, Socket client, const Surroundings& around,
                       SteadyTime now)
    : number_(number),
      around_(around),
      accepted_(now),
      flows_{Flow(around.buffer, JitterOf(around.seed, number, Direction::kUp)),
             Flow(around.buffer, JitterOf(around.seed, number, Direction::kDown))} {
  ends_[0].socket = std::move(client);
  around_.watch(ends_[0].socket.descriptor(), number_, Side::kClient);
}

Connection::End& Connection::Of(Direction direction, bool is_target) {
  const bool is_upstream = (direction == Direction::kUp) == is_target;
  return ends_.at(is_upstream ? 1 : 0);
}

Counters Connection::counters() const {
  return {flows_[0].taken(), flows_[0].passed(), flows_[1].taken(), flows_[1].passed()};
}

void Connection::Report(Event event) const {
  event.connection = number_;
  around_.report(std::move(event));
}

void Connection::ReportFault(const Trigger& fault, std::optional<Direction> direction,
                             std::optional<std::uint64_t> at) const {
  Report({.kind = Event::Kind::kFault,
          .rule = fault.rule,
          .verb = fault.verb,
          .direction = direction,
          .at = at});
}

// --- rules ---

void Connection::AddRule(std::uint32_t rule_number, const Rule& rule, SteadyTime now,
                         bool is_late) {
  if (rule.verb == Verb::kBlackhole) return;
  if (rule.verb == Verb::kRefuse || rule.verb == Verb::kDuplicate) {
    if (is_late || !Applies(rule, rule_number, around_.seed, number_)) return;
    (rule.verb == Verb::kRefuse ? refused_by_ : duplicated_by_) = rule_number;
    return;
  }
  for (const Direction direction : kDirections) {
    Flow& flow = FlowOf(direction);
    auto trigger = Draw(rule, rule_number, around_.seed, number_, direction);
    if (!trigger) continue;
    if (is_late && rule.at && trigger->at < flow.passed()) continue;
    // A rule that came late hangs on time too, so that it also reaches a flow that is stalled.
    if (is_late || rule.after.count() != 0) {
      trigger->from = (is_late ? now : accepted_) + rule.after;
    }
    flow.Add(*trigger);
  }
}

void Connection::RemoveRule(std::uint32_t rule_number) {
  for (Flow& flow : flows_) flow.Remove(rule_number);
}

void Connection::Release(const Rule& target) {
  if (!target.connections.Has(number_)) return;
  for (const Direction direction : kDirections) {
    if (target.Covers(direction)) FlowOf(direction).Release();
  }
}

void Connection::KeepDark(SteadyTime until) {
  dark_until_ = until;
  for (Flow& flow : flows_) flow.KeepDark(until);
}

// --- connecting ---

void Connection::Begin(SteadyTime now) {
  Report({.kind = Event::Kind::kAccepted});
  if (refused_by_ != 0) {
    ReportFault({.rule = refused_by_, .verb = Verb::kRefuse}, std::nullopt, std::nullopt);
    Abort("refused");
  } else if (dark_until_ <= now) {
    Connect();
  }
}

void Connection::Connect() {
  int error = 0;
  ends_[1] = {.socket = Socket::Connect(around_.upstream.at(address_), error)};
  state_ = State::kConnecting;
  if (error != 0) return TryNextAddress(error);
  around_.watch(ends_[1].socket.descriptor(), number_, Side::kUpstream);
}

void Connection::CheckConnected() {
  if (!ends_[1].is_writable) return;
  const int error = ends_[1].socket.ConnectError();
  if (error != 0) return TryNextAddress(error);
  state_ = State::kOpen;
  Report({.kind = Event::Kind::kConnected});
  if (duplicated_by_ == 0) return;
  shadow_ = std::make_unique<Shadow>(around_.upstream.at(address_), around_.buffer);
  if (shadow_->is_open()) around_.watch(shadow_->descriptor(), number_, Side::kShadow);
  ReportFault({.rule = duplicated_by_, .verb = Verb::kDuplicate}, std::nullopt, std::nullopt);
}

void Connection::TryNextAddress(int system_error) {
  if (address_ + 1 < around_.upstream.size()) {
    ++address_;
    return Connect();
  }
  Report({.kind = Event::Kind::kProblem,
          .code = 3001,
          .text = "cannot reach " + around_.upstream.at(address_).text() + ": " +
                  SystemReason(system_error)});
  ends_[1].is_broken = true;
  BeginReset("unreachable");
}

// --- moving bytes ---

void Connection::Notice(Side side, bool is_readable, bool is_writable) {
  if (side == Side::kShadow) {
    if (shadow_ && is_writable) shadow_->NoticeWritable();
    return;
  }
  End& end = ends_.at(static_cast<std::size_t>(side));
  end.is_readable = end.is_readable || is_readable;
  end.is_writable = end.is_writable || is_writable;
}

SteadyTime Connection::Pump(SteadyTime now) {
  is_busy_ = false;
  SteadyTime wake = kNever;
  if (state_ == State::kWaiting) {
    if (dark_until_ > now) return dark_until_;
    Connect();
  }
  if (state_ == State::kConnecting) CheckConnected();
  if (state_ == State::kOpen) wake = MoveBytes(now);
  if (state_ == State::kLeaving) wake = Leave(now);
  if (state_ == State::kResetting) wake = TryReset(now);
  return wake;
}

SteadyTime Connection::MoveBytes(SteadyTime now) {
  bool has_moved = true;
  SteadyTime wake = kNever;
  for (int turn = 0; has_moved && turn < kMostTurns; ++turn) {
    has_moved = false;
    wake = kNever;
    for (const Direction direction : kDirections) {
      const bool has_taken = Take(direction, now);
      const bool has_given = Give(direction, now, wake);
      if (state_ != State::kOpen) return kNever;
      has_moved = has_moved || has_taken || has_given;
    }
    if (shadow_ && shadow_->Pump()) has_moved = true;
  }
  if (flows_[0].is_over() && flows_[1].is_over()) {
    BeginLeaving("ended", now);
    return kNever;
  }
  is_busy_ = has_moved;
  return has_moved ? now : wake;
}

bool Connection::Take(Direction direction, SteadyTime now) {
  End& source = Source(direction);
  Flow& flow = FlowOf(direction);
  if (!source.is_readable || source.has_ended || flow.Room() == 0) return false;
  std::array<std::uint8_t, kPiece> piece;
  const std::size_t most = std::min(piece.size(), flow.Room());
  const Transfer read = source.socket.Read(std::span(piece).first(most));
  switch (read.kind) {
    case Transfer::Kind::kSome:
      flow.Receive(now, BytesView(piece).first(read.count));
      return true;
    case Transfer::Kind::kLater:
      source.is_readable = false;
      return false;
    default:
      break;
  }
  source.has_ended = true;
  source.is_broken = source.is_broken || read.kind == Transfer::Kind::kBroken;
  if (flow.is_over() && source.is_broken) {
    BeginReset(direction == Direction::kUp ? "client-reset" : "upstream-reset");
  }
  flow.End(now, source.is_broken);
  return true;
}

bool Connection::Give(Direction direction, SteadyTime now, SteadyTime& wake) {
  if (state_ != State::kOpen) return false;
  const Step step = FlowOf(direction).Next(now);
  switch (step.kind) {
    case Step::Kind::kWait:
    case Step::Kind::kOver:
      wake = std::min(wake, step.until);
      return false;
    case Step::Kind::kSend:
      wake = std::min(wake, step.until);
      return Send(direction, step.size, now);
    case Step::Kind::kFault:
      Do(step.fault, direction, now);
      return true;
    case Step::Kind::kEnd:
      EndTarget(direction);
      return true;
    case Step::Kind::kAbort:
      BeginReset(direction == Direction::kUp ? "client-reset" : "upstream-reset");
      return true;
  }
  return false;
}

bool Connection::Send(Direction direction, std::size_t most, SteadyTime now) {
  Flow& flow = FlowOf(direction);
  End& target = Target(direction);
  Shadow* const shadow = direction == Direction::kUp ? shadow_.get() : nullptr;
  if (!target.is_writable) return false;
  if (shadow != nullptr) most = std::min(most, shadow->Room());
  if (most == 0) return false;
  const BytesView bytes = flow.Front().first(std::min(most, flow.Front().size()));
  const Transfer written = target.socket.Write(bytes);
  switch (written.kind) {
    case Transfer::Kind::kSome:
      if (shadow != nullptr) shadow->Push(bytes.first(written.count));
      flow.Passed(now, written.count);
      return true;
    case Transfer::Kind::kLater:
      target.is_writable = false;
      return false;
    default:
      // Nobody reads any more. What that side had sent before may still pass the other way, and the
      // break behind it; if it had ended in order, this is all there will be. The system tells of a
      // break once: the next read will call it an end.
      flow.Discard();
      target.is_broken = true;
      target.is_readable = true;
      if (target.has_ended) {
        BeginReset(direction == Direction::kUp ? "upstream-reset" : "client-reset");
      }
      return true;
  }
}

void Connection::Do(const Trigger& fault, Direction direction, SteadyTime now) {
  ReportFault(fault, direction, FlowOf(direction).passed());
  if (fault.verb == Verb::kCut) BeginLeaving("cut", now);
  if (fault.verb == Verb::kReset) BeginReset("reset");
  if (fault.verb != Verb::kHalfClose) return;
  FlowOf(direction).Discard();
  EndTarget(direction);
}

void Connection::EndTarget(Direction direction) {
  Target(direction).socket.EndWriting();
  if (direction == Direction::kUp && shadow_) shadow_->Finish();
}

// --- the end ---

void Connection::BeginLeaving(const std::string& how, SteadyTime now) {
  how_ = how;
  for (End& end : ends_) end.socket.EndWriting();
  if (shadow_) shadow_->Finish();
  state_ = State::kLeaving;
  leave_at_ = now + kFarewell;
}

SteadyTime Connection::Leave(SteadyTime now) {
  bool has_all_ended = true;
  bool is_full = false;
  for (End& end : ends_) {
    if (end.has_ended) continue;
    const Transfer read = end.socket.Drain();
    end.has_ended = read.kind == Transfer::Kind::kEnd || read.kind == Transfer::Kind::kBroken;
    is_full = is_full || read.kind == Transfer::Kind::kSome;
    has_all_ended = has_all_ended && end.has_ended;
  }
  if (shadow_) {
    is_full = shadow_->Pump() || is_full;
    has_all_ended = has_all_ended && !shadow_->has_queued();
  }
  if (has_all_ended || now >= leave_at_) {
    Finish();
    return kNever;
  }
  is_busy_ = is_full;
  return is_full ? now : leave_at_;
}

void Connection::BeginReset(const std::string& how) {
  how_ = how;
  state_ = State::kResetting;
}

SteadyTime Connection::TryReset(SteadyTime now) {
  // A side that broke off will never confirm anything.
  const bool is_delivered = std::all_of(ends_.begin(), ends_.end(), [](const End& end) {
    return !end.socket.is_open() || end.is_broken || end.socket.HasDelivered();
  });
  if (!is_delivered && ++reset_tries_ < kMostResetTries) return now;
  Abort(how_);
  return kNever;
}

void Connection::Abort(const std::string& how) {
  if (is_over()) return;
  how_ = how;
  for (End& end : ends_) end.socket.Reset();
  Finish();
}

void Connection::Finish() {
  for (End& end : ends_) end.socket.Close();
  shadow_.reset();
  state_ = State::kOver;
  Report({.kind = Event::Kind::kClosed, .counters = counters(), .how = how_});
}

}  // namespace skep::faultproxy
