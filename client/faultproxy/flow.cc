#include "client/faultproxy/flow.h"

#include <algorithm>
#include <cmath>

#include "shared/base/check.h"

namespace skep::faultproxy {
namespace {

// Of a rate: what goes at once, and what may be caught up after a late call.
constexpr Nanoseconds kSlice = std::chrono::milliseconds(20);
constexpr double kNanosecondsPerSecond = 1e9;
// Reads are told apart up to so many; beyond, the newest take in what comes. Else a peer that sends
// single bytes into a stall could make the notes larger than the bytes.
constexpr std::size_t kMostMarks = 1024;
// The last block of a stream of draws is never reached by jitter, which starts here.
constexpr std::uint32_t kJitterRound = 0xFFFFFFFEU;

Nanoseconds TimeFor(std::uint64_t bytes, std::uint64_t bytes_per_second) {
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second);
  return Nanoseconds(std::llround(seconds * kNanosecondsPerSecond));
}

// Later, but never past the end of time.
SteadyTime Plus(SteadyTime from, Nanoseconds span) {
  return from > kNever - span ? kNever : from + span;
}

bool IsChange(Verb verb) {
  return verb == Verb::kDelay || verb == Verb::kRate || verb == Verb::kStall ||
         verb == Verb::kCorrupt;
}

RandomStream DrawsOf(std::uint32_t number, std::uint64_t seed, std::uint32_t connection,
                     Direction direction) {
  const std::uint32_t round = number * 2 + (direction == Direction::kDown ? 1 : 0);
  return {seed, {.purpose = Purpose::kNetworkFault, .client = connection, .round = round}};
}

}  // namespace

void Flow::Add(const Trigger& trigger) {
  if (!is_over()) triggers_.push_back(trigger);
}

void Flow::Remove(std::uint32_t rule) {
  std::erase_if(triggers_, [rule](const Trigger& trigger) { return trigger.rule == rule; });
  if (stalled_until_ && stall_rule_ == rule) stalled_until_.reset();
  if (delay_.rule == rule) delay_ = {};
  if (rate_.rule == rule) rate_ = {};
}

std::size_t Flow::Room() const {
  if (is_over()) return limit_;  // it is thrown away
  return state_ == State::kOpen ? limit_ - Held() : 0;
}

void Flow::Receive(SteadyTime now, BytesView bytes) {
  SKEP_CHECK(bytes.size() <= Room());
  taken_ += bytes.size();
  if (is_over() || bytes.empty()) return;
  if (buffer_.size() + bytes.size() > 2 * limit_) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  if (buffer_.size() + bytes.size() > buffer_.capacity()) {
    buffer_.reserve(std::min(2 * limit_, 2 * (buffer_.size() + bytes.size())));
  }
  Append(buffer_, bytes);
  if (marks_.size() < kMostMarks) {
    marks_.push_back({.end = taken_, .came = now, .jitter = jitter_.Uniform()});
  } else {
    marks_.back().end = taken_;
    marks_.back().came = now;
  }
}

void Flow::End(SteadyTime now, bool is_broken) {
  if (state_ != State::kOpen) return;
  state_ = is_broken ? State::kBreaking : State::kEnding;
  ended_at_ = now;
}

SteadyTime Flow::DueAt(const Mark& mark) const {
  const double extra = mark.jitter * static_cast<double>(delay_.jitter.count());
  return Plus(mark.came, delay_.time + Nanoseconds(std::llround(extra)));
}

void Flow::Apply(SteadyTime now, const Trigger& trigger) {
  switch (trigger.verb) {
    case Verb::kDelay:
      delay_ = trigger;
      return;
    case Verb::kRate:
      rate_ = trigger;
      free_at_ = now;
      return;
    case Verb::kStall:
      stalled_until_ = trigger.lasting.count() == 0 ? kNever : Plus(now, trigger.lasting);
      stall_rule_ = trigger.rule;
      return;
    case Verb::kCorrupt:
      buffer_[head_] = static_cast<std::uint8_t>(buffer_[head_] ^ (1U << trigger.bit));
      return;
    default:
      return;
  }
}

// The first trigger whose byte and moment have come. A stall keeps back what hangs on bytes alone
// and what changes the bytes behind it; an end that hangs on time comes all the same.
std::optional<Step> Flow::Fire(SteadyTime now) {
  for (auto trigger = triggers_.begin(); trigger != triggers_.end(); ++trigger) {
    if (trigger->at > passed_ || trigger->from > now) continue;
    const bool is_timed = trigger->from != SteadyTime{};
    if (stalled_until_ && (!is_timed || IsChange(trigger->verb))) continue;
    if (trigger->verb == Verb::kCorrupt && Held() == 0) continue;
    const Trigger fired = *trigger;
    triggers_.erase(trigger);
    Apply(now, fired);
    return Step{.kind = Step::Kind::kFault, .fault = fired};
  }
  return std::nullopt;
}

SteadyTime Flow::NextByTime(SteadyTime now) const {
  SteadyTime next = kNever;
  for (const Trigger& trigger : triggers_) {
    if (trigger.from > now && trigger.at <= passed_) next = std::min(next, trigger.from);
  }
  return next;
}

Step Flow::Finish(SteadyTime now) {
  if (state_ == State::kOpen) return {.until = NextByTime(now)};
  const SteadyTime due = DueAt({.came = ended_at_});
  if (due > now) return {.until = std::min(due, NextByTime(now))};
  const Step::Kind kind = state_ == State::kEnding ? Step::Kind::kEnd : Step::Kind::kAbort;
  state_ = State::kOver;
  return {.kind = kind};
}

std::size_t Flow::Allowance(SteadyTime now) const {
  std::uint64_t most = marks_.front().end - passed_;
  for (const Trigger& trigger : triggers_) {
    if (trigger.at > passed_) most = std::min(most, trigger.at - passed_);
  }
  if (rate_.bytes_per_second != 0) {
    const SteadyTime since = std::max(free_at_, now - kSlice);
    const double span = static_cast<double>((now + kSlice - since).count());
    const double bytes = span / kNanosecondsPerSecond * static_cast<double>(rate_.bytes_per_second);
    most = std::min(most, std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes)));
  }
  return static_cast<std::size_t>(most);
}

Step Flow::Next(SteadyTime now) {
  if (is_over()) return {.kind = Step::Kind::kOver};
  if (dark_until_ > now) return {.until = dark_until_};
  if (stalled_until_ && *stalled_until_ <= now) stalled_until_.reset();
  if (auto fired = Fire(now)) return *fired;
  if (stalled_until_) return {.until = std::min(*stalled_until_, NextByTime(now))};
  if (Held() == 0) return Finish(now);
  SteadyTime due = DueAt(marks_.front());
  if (rate_.bytes_per_second != 0) due = std::max(due, free_at_);
  if (due > now) return {.until = std::min(due, NextByTime(now))};
  return {.kind = Step::Kind::kSend, .size = Allowance(now), .until = NextByTime(now)};
}

void Flow::Passed(SteadyTime now, std::size_t count) {
  SKEP_CHECK(count <= Held());
  passed_ += count;
  head_ += count;
  while (!marks_.empty() && marks_.front().end <= passed_) marks_.pop_front();
  if (head_ == buffer_.size()) {
    buffer_.clear();
    head_ = 0;
  }
  if (rate_.bytes_per_second != 0) {
    free_at_ = Plus(std::max(free_at_, now - kSlice), TimeFor(count, rate_.bytes_per_second));
  }
}

void Flow::Discard() {
  state_ = State::kOver;
  triggers_.clear();
  marks_.clear();
  buffer_ = {};
  head_ = 0;
}

std::optional<Trigger> Draw(const Rule& rule, std::uint32_t number, std::uint64_t seed,
                            std::uint32_t connection, Direction direction) {
  if (!rule.connections.Has(connection) || !rule.Covers(direction)) return std::nullopt;
  RandomStream draws = DrawsOf(number, seed, connection, direction);
  if (draws.Uniform() >= rule.chance) return std::nullopt;
  Trigger trigger{.rule = number,
                  .verb = rule.verb,
                  .lasting = rule.lasting,
                  .time = rule.time,
                  .jitter = rule.jitter,
                  .bytes_per_second = rule.bytes_per_second,
                  .bit = rule.bit};
  if (rule.at) {
    const std::uint64_t span = rule.at->last - rule.at->first;
    trigger.at = rule.at->first;
    if (span == std::numeric_limits<std::uint64_t>::max()) {
      trigger.at = draws.Word() + (static_cast<std::uint64_t>(draws.Word()) << 32U);
    } else if (span > 0) {
      trigger.at += draws.Below(span + 1);
    }
  }
  return trigger;
}

bool Applies(const Rule& rule, std::uint32_t number, std::uint64_t seed, std::uint32_t connection) {
  if (!rule.connections.Has(connection)) return false;
  return DrawsOf(number, seed, connection, Direction::kUp).Uniform() < rule.chance;
}

RandomStream JitterOf(std::uint64_t seed, std::uint32_t connection, Direction direction) {
  const std::uint32_t round = kJitterRound + (direction == Direction::kDown ? 1 : 0);
  return {seed, {.purpose = Purpose::kNetworkFault, .client = connection, .round = round}};
}

}  // namespace skep::faultproxy
