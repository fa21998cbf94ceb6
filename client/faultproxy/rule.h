// Rules of the fault proxy: what goes wrong, on which connections, in which direction, from which
// byte or moment on; and the orders that steer a proxy while it runs.
//
// Text in, values out; nothing here has happened yet (that is flow.h and connection.h). Called by
// the program, by proxy.h and by tests. Plain values, any thread. Source: docs/reference/
// faultproxy.md; Skep durability, section 18.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::faultproxy {

enum class Direction : std::uint8_t { kUp, kDown };  // up: what the client sends

enum class Verb : std::uint8_t {
  kCut,        // both sides see an orderly end
  kReset,      // both sides see a reset
  kHalfClose,  // this direction ends in order, the rest of it vanishes; the other one goes on
  kStall,      // nothing passes, and nothing is lost
  kCorrupt,    // one bit of one byte is flipped
  kDelay,      // every byte arrives later
  kRate,       // so many bytes a second
  kRefuse,     // reset as soon as it is accepted; the upstream never hears of it
  kDuplicate,  // a second connection upstream gets the same bytes; its answers are dropped
  kBlackhole,  // nothing passes on any connection, and new ones wait
};

// First and last, both included.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] bool Has(std::uint64_t number) const { return first <= number && number <= last; }
  friend bool operator==(const Range&, const Range&) = default;
};

struct Rule {
  Verb verb = Verb::kCut;
  Range connections{.first = 1};  // numbered from 1 as they are accepted
  bool is_up = true;
  bool is_down = true;
  std::optional<Range> at = std::nullopt;  // bytes passed before it happens; drawn if it is a range
  Nanoseconds after{};                     // since the connection was accepted
  Nanoseconds lasting{};                   // of stall and blackhole; 0: until released
  double chance = 1;                       // that a connection and direction has it
  Nanoseconds time{};                      // of delay
  Nanoseconds jitter{};                    // of delay: up to so much more, drawn for each read
  std::uint64_t bytes_per_second = 0;      // of rate
  unsigned bit = 0;                        // of corrupt: 0 is the lowest

  [[nodiscard]] bool Covers(Direction direction) const {
    return direction == Direction::kUp ? is_up : is_down;
  }
};

// "cut connection=2 direction=up at=4096". SKEP-1012 for an unknown verb or key, SKEP-1101 for text
// of another form, SKEP-1102 out of range, SKEP-1103 for a key given twice, missing, or not of this
// verb.
[[nodiscard]] Result<Rule> ParseRule(std::string_view text);
// A rule a line; empty lines and what follows # are skipped. As ParseRule, with the line's number.
[[nodiscard]] Result<std::vector<Rule>> ParseScript(std::string_view text);

// What a running proxy can be told.
struct Order {
  enum class Kind : std::uint8_t {
    kRule,     // a new rule, also for the connections that are open
    kClear,    // forget a rule, or all, and what they still do
    kRelease,  // end the stalls that stand now
    kClose,    // stop listening: the system refuses connections
    kOpen,     // listen again, on the same port
    kCount,    // report the counters
    kStop,
  };
  Kind kind = Kind::kCount;
  Rule rule = {};  // of kRule; of kRelease: its connections and directions
  std::optional<std::uint32_t> number = std::nullopt;  // of kClear
};

// A rule, or "clear [rule=N]", "release [connection=N] [direction=D]", "close", "open", "count",
// "stop". Numbers as ParseRule.
[[nodiscard]] Result<Order> ParseOrder(std::string_view text);

[[nodiscard]] std::string_view VerbName(Verb verb);
[[nodiscard]] std::string_view DirectionName(Direction direction);

}  // namespace skep::faultproxy
