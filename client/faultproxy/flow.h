// Flow: one direction of one connection. Bytes come in, and the rules say which may go out and
// when.
//
// No sockets and no clock: time comes with each call, so that tests run in virtual time. What it
// holds back is bounded (`Room`); what it forwards is unchanged but for a corrupted bit. It knows
// nothing of what the bytes mean. Called by connection.h. One thread.
// Source: docs/reference/faultproxy.md; Skep durability, section 18.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "client/faultproxy/rule.h"
#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/rng.h"

namespace skep::faultproxy {

inline constexpr SteadyTime kNever = SteadyTime::max();

// A rule as it applies to one direction of one connection: draws are done.
struct Trigger {
  std::uint32_t rule = 0;
  Verb verb = Verb::kCut;
  std::uint64_t at = 0;  // happens when so many bytes have passed,
  SteadyTime from{};     // but not before; {}: the bytes alone decide
  Nanoseconds lasting{};
  Nanoseconds time{};
  Nanoseconds jitter{};
  std::uint64_t bytes_per_second = 0;
  unsigned bit = 0;
};

// What to do next.
struct Step {
  enum class Kind : std::uint8_t {
    kWait,   // nothing before `until`, unless something is received
    kSend,   // the first `size` bytes of Front() may go; then call Passed
    kFault,  // `fault` happens now; cut, reset and half-close are the caller's to do
    kEnd,    // the source has ended in order, and everything has passed
    kAbort,  // the source has broken off, and everything before has passed
    kOver,   // nothing any more
  };
  Kind kind = Kind::kWait;
  std::size_t size = 0;
  SteadyTime until = kNever;
  Trigger fault = {};
};

class Flow {
 public:
  // Holds back at most `limit` bytes. `jitter`: where the delays of this flow are drawn.
  Flow(std::size_t limit, const RandomStream& jitter) : limit_(limit), jitter_(jitter) {}

  void Add(const Trigger& trigger);
  // The rule is no more: what it would have done and what it still does (delay, rate, stall).
  void Remove(std::uint32_t rule);
  // Ends the stall that stands now.
  void Release() { stalled_until_.reset(); }
  // Nothing passes and nothing happens before `until`, whatever the rules say.
  void KeepDark(SteadyTime until) { dark_until_ = until; }

  // How many bytes may be received now; 0: leave them where they are.
  [[nodiscard]] std::size_t Room() const;
  // Precondition: not more than Room().
  void Receive(SteadyTime now, BytesView bytes);
  // No more bytes will come: an orderly end, or a broken connection.
  void End(SteadyTime now, bool is_broken);

  // Call again after each step but kWait and kOver.
  [[nodiscard]] Step Next(SteadyTime now);
  // The bytes that are held back, oldest first.
  [[nodiscard]] BytesView Front() const { return BytesView(buffer_).subspan(head_); }
  // `count` of the bytes that a kSend step allowed have gone.
  void Passed(SteadyTime now, std::size_t count);
  // What is held back and what still comes is thrown away; no rule applies any more.
  void Discard();

  [[nodiscard]] bool is_over() const { return state_ == State::kOver; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }    // received from the source
  [[nodiscard]] std::uint64_t passed() const { return passed_; }  // given to the other side

 private:
  enum class State : std::uint8_t { kOpen, kEnding, kBreaking, kOver };
  // Bytes before `end` (counted from the beginning) came at `came` and are late by `jitter`, a
  // share in [0, 1) of the longest.
  struct Mark {
    std::uint64_t end = 0;
    SteadyTime came{};
    double jitter = 0;
  };

  [[nodiscard]] std::size_t Held() const { return buffer_.size() - head_; }
  [[nodiscard]] SteadyTime DueAt(const Mark& mark) const;
  [[nodiscard]] std::optional<Step> Fire(SteadyTime now);
  void Apply(SteadyTime now, const Trigger& trigger);
  [[nodiscard]] SteadyTime NextByTime(SteadyTime now) const;
  [[nodiscard]] Step Finish(SteadyTime now);
  [[nodiscard]] std::size_t Allowance(SteadyTime now) const;

  std::size_t limit_;
  RandomStream jitter_;
  std::vector<Trigger> triggers_;  // that have not fired, in the order of their rules
  Bytes buffer_;                   // from head_ on
  std::size_t head_ = 0;
  std::deque<Mark> marks_;
  SteadyTime ended_at_{};
  State state_ = State::kOpen;
  std::uint64_t taken_ = 0;
  std::uint64_t passed_ = 0;

  SteadyTime dark_until_{};
  std::optional<SteadyTime> stalled_until_;
  std::uint32_t stall_rule_ = 0;
  Trigger delay_;  // what delays and limits now, or nothing
  Trigger rate_;
  SteadyTime free_at_{};  // of the rate: when the next byte may go
};

// The part of a rule that one direction of connection `connection` has, or nothing. Draws depend on
// the seed, the connection, the direction and the rule's number alone.
[[nodiscard]] std::optional<Trigger> Draw(const Rule& rule, std::uint32_t number,
                                          std::uint64_t seed, std::uint32_t connection,
                                          Direction direction);
// Whether a rule without directions (refuse, duplicate) applies to that connection.
[[nodiscard]] bool Applies(const Rule& rule, std::uint32_t number, std::uint64_t seed,
                           std::uint32_t connection);
// Where the jitter of one direction of a connection is drawn.
[[nodiscard]] RandomStream JitterOf(std::uint64_t seed, std::uint32_t connection,
                                    Direction direction);

}  // namespace skep::faultproxy
