// Event: what the proxy tells about itself, as a value and as one line of JSON.
//
// Bytes that pass are never in an event, only their number. Plain values, any thread.
// Source: docs/reference/faultproxy.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/faultproxy/rule.h"
#include "shared/base/clock.h"

namespace skep::faultproxy {

struct Counters {
  std::uint64_t up_in = 0;     // received from the client
  std::uint64_t up_out = 0;    // passed on to the upstream
  std::uint64_t down_in = 0;   // received from the upstream
  std::uint64_t down_out = 0;  // passed on to the client

  friend bool operator==(const Counters&, const Counters&) = default;
};
void Add(Counters& to, const Counters& from);

struct Event {
  enum class Kind : std::uint8_t {
    kReady,      // it listens; `listen`, `upstream`
    kAccepted,   // a client
    kConnected,  // to the upstream, for that client
    kFault,      // a rule did what it says; `verb`, `rule`, `direction` and the byte `at`
    kClosed,     // a connection is over: `how`, `counters`
    kRule,       // an order made a rule: its number
    kDone,       // another order was carried out: `text`
    kProblem,    // something was refused or failed: `code`, `text`
    kCount,      // of one open connection, or (connection 0) of all there ever were
    kStopped,    // the last event; `counters` of all
  };
  Kind kind = Kind::kReady;
  Nanoseconds time{};            // since the proxy was made
  std::uint32_t connection = 0;  // 0: none
  std::uint32_t rule = 0;        // 0: none
  std::optional<Verb> verb = std::nullopt;
  std::optional<Direction> direction = std::nullopt;
  std::optional<std::uint64_t> at = std::nullopt;
  std::optional<Counters> counters = std::nullopt;
  // kClosed: "ended", "cut", "reset", "refused", "unreachable", "client-reset", "upstream-reset" or
  // "stopped".
  std::string how = {};
  std::string listen = {};
  std::string upstream = {};
  int code = 0;
  std::string text = {};
};

// {"event":"fault","ms":12.345,"connection":2,"rule":1,"fault":"cut","direction":"up","at":4096}
[[nodiscard]] std::string EventLine(const Event& event);

}  // namespace skep::faultproxy
