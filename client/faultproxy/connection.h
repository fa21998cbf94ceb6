// Connection: one client, its connection to the upstream, and the two flows between them.
//
// Moves bytes between sockets as far as its flows allow, and does what they cannot: connect, cut,
// reset, half-close. It never waits: `Pump` does what is possible now and says when it wants to be
// called again. Owned and called by proxy.h. One thread.
// Source: docs/reference/faultproxy.md; Skep durability, section 18.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/faultproxy/event.h"
#include "client/faultproxy/flow.h"
#include "client/faultproxy/shadow.h"
#include "client/faultproxy/socket.h"

namespace skep::faultproxy {

enum class Side : std::uint8_t { kClient = 0, kUpstream = 1, kShadow = 2 };

// What a connection has in common with all others of its proxy.
struct Surroundings {
  std::vector<Address> upstream = {};  // tried in this order
  std::size_t buffer = 0;              // bytes that a direction may hold back
  std::uint64_t seed = 0;
  std::function<void(Event)> report = {};  // sets the time
  // From now on changes of that descriptor come to Notice.
  std::function<void(int descriptor, std::uint32_t connection, Side side)> watch = {};
};

class Connection {
 public:
  Connection(std::uint32_t number, Socket client, const Surroundings& around, SteadyTime now);

  // A rule that may apply. `is_late`: the connection has begun; a byte that has passed is missed.
  void AddRule(std::uint32_t rule_number, const Rule& rule, SteadyTime now, bool is_late);
  void RemoveRule(std::uint32_t rule_number);
  // Ends the stalls in the directions that `target` names.
  void Release(const Rule& target);
  // Nothing passes before `until`, and no connection to the upstream is begun.
  void KeepDark(SteadyTime until);

  // After its rules were added: refuses, or connects to the upstream.
  void Begin(SteadyTime now);
  void Notice(Side side, bool is_readable, bool is_writable);
  // Does what can be done; when it wants to be called again at the latest. Up to `now`: soon.
  [[nodiscard]] SteadyTime Pump(SteadyTime now);
  // After Pump: whether "soon" means without waiting (bytes are there), not a look a moment later.
  [[nodiscard]] bool is_busy() const { return is_busy_; }
  // Breaks off at once.
  void Abort(const std::string& how);

  [[nodiscard]] bool is_over() const { return state_ == State::kOver; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] Counters counters() const;

 private:
  enum class State : std::uint8_t {
    kWaiting,     // to connect to the upstream
    kConnecting,  // to it
    kOpen,
    kLeaving,    // both sides were told an orderly end; what they still send is thrown away
    kResetting,  // both sides get a reset once they have what was sent before
    kOver,
  };
  struct End {
    Socket socket = {};
    bool is_readable = false;
    bool is_writable = false;
    bool has_ended = false;  // nothing more can be read
    bool is_broken = false;  // and nothing be written: it did not end in order
  };

  [[nodiscard]] End& Source(Direction direction) { return Of(direction, false); }
  [[nodiscard]] End& Target(Direction direction) { return Of(direction, true); }
  [[nodiscard]] End& Of(Direction direction, bool is_target);
  [[nodiscard]] Flow& FlowOf(Direction direction) {
    return flows_.at(static_cast<std::size_t>(direction));
  }
  void Report(Event event) const;
  void ReportFault(const Trigger& fault, std::optional<Direction> direction,
                   std::optional<std::uint64_t> at) const;

  void Connect();
  void CheckConnected();
  void TryNextAddress(int system_error);
  [[nodiscard]] SteadyTime MoveBytes(SteadyTime now);
  [[nodiscard]] bool Take(Direction direction, SteadyTime now);
  [[nodiscard]] bool Give(Direction direction, SteadyTime now, SteadyTime& wake);
  [[nodiscard]] bool Send(Direction direction, std::size_t most, SteadyTime now);
  void Do(const Trigger& fault, Direction direction, SteadyTime now);
  void EndTarget(Direction direction);
  void BeginLeaving(const std::string& how, SteadyTime now);
  void BeginReset(const std::string& how);
  [[nodiscard]] SteadyTime Leave(SteadyTime now);
  [[nodiscard]] SteadyTime TryReset(SteadyTime now);
  void Finish();

  std::uint32_t number_;
  const Surroundings& around_;
  SteadyTime accepted_;
  std::array<End, 2> ends_;  // the client, the upstream
  std::array<Flow, 2> flows_;
  std::unique_ptr<Shadow> shadow_;
  State state_ = State::kWaiting;
  std::size_t address_ = 0;       // of the upstream's: the one that is tried, or used
  std::uint32_t refused_by_ = 0;  // number of the rule, or 0
  std::uint32_t duplicated_by_ = 0;
  SteadyTime dark_until_{};
  SteadyTime leave_at_{};
  int reset_tries_ = 0;
  std::string how_;  // it ended
  bool is_busy_ = false;
};

}  // namespace skep::faultproxy
