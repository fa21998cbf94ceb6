// FaultProxy: stands between clients and an upstream and makes the faults that its rules say.
//
// It passes bytes on as they are and never looks into them: TLS ends at the upstream. It is a tool
// for tests, not a relay for a network; it listens on a loopback address unless told otherwise.
// What it holds back is bounded for each connection, and so are the connections.
//
// `Run` is the caller's thread; `Stop`, `Post` and `Wake` may come from any thread, `Stop` also
// from a signal handler. Tests use BackgroundProxy (background.h).
// Source: docs/reference/faultproxy.md; Skep durability, section 18.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/faultproxy/connection.h"
#include "client/faultproxy/event.h"
#include "client/faultproxy/line_reader.h"
#include "client/faultproxy/rule.h"
#include "client/faultproxy/socket.h"

namespace skep::faultproxy {

inline constexpr std::size_t kDefaultBuffer = 256UL * 1024;
inline constexpr std::size_t kDefaultConnections = 1024;

struct ProxyOptions {
  std::string listen = "127.0.0.1:0";  // port 0: a free one
  std::string upstream = {};           // HOST:PORT; resolved once
  bool allows_remote = false;          // to listen on an address that is not loopback
  std::vector<Rule> rules = {};        // numbered from 1
  std::uint64_t seed = 0;
  std::size_t buffer = kDefaultBuffer;  // bytes held back at most, per connection and direction
  std::size_t most_connections = kDefaultConnections;  // further clients wait to be accepted
  // Where orders come from, a line each, or -1; its end ends the proxy. Stays the caller's.
  int control = -1;
  std::function<void(const Event&)> report = [](const Event&) {};  // in Run's thread
  // Time; another one than the machine's must call Wake when it moves.
  std::function<SteadyTime()> clock = [] { return ReadClock().steady; };
};

class FaultProxy {
 public:
  // Listens when it returns; connections wait for Run. SKEP-5202 for an address of another form,
  // SKEP-3002 for a name, SKEP-1102 for an address that others can reach, SKEP-5201 and SKEP-5209
  // if it cannot listen, SKEP-5205 without descriptors.
  [[nodiscard]] static Result<std::unique_ptr<FaultProxy>> Make(ProxyOptions options);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const { return listening_on_.port(); }

  // Until Stop, the order `stop` or the end of the control; then nothing is open any more.
  void Run();
  void Stop();
  void Post(Order order);
  void Wake();

 private:
  struct NumberedRule {
    std::uint32_t number = 0;
    Rule rule;
    SteadyTime dark_from{};  // of blackhole
    SteadyTime dark_until{};
    bool has_begun = false;  // of blackhole
  };
  struct Open {
    std::unique_ptr<Connection> connection;
    SteadyTime wake = kNever;
  };

  explicit FaultProxy(ProxyOptions options);
  [[nodiscard]] Status Prepare();
  [[nodiscard]] bool Watch(int descriptor, std::uint64_t key, std::uint32_t events) const;
  void Report(Event event) const;
  void ReportProblem(const Error& error) const;

  void Turn();
  [[nodiscard]] int Patience(SteadyTime now) const;
  void Dispatch(std::uint64_t key, std::uint32_t events);
  void PumpDue(SteadyTime now);
  void PumpOne(Open& open, SteadyTime now);

  [[nodiscard]] Status OpenListener();
  void CloseListener();
  void AcceptAll(SteadyTime now);
  void Admit(Socket client, SteadyTime now);
  void PauseAccepting(bool is_paused);

  void ReadControl();
  void TakeLine(std::string_view line);
  void TakePosted();
  void Carry(const Order& order);
  void AddRule(const Rule& rule);
  void Clear(const Order& order);
  void Count();
  void MindBlackholes(SteadyTime now);
  [[nodiscard]] Counters Total() const;
  void CloseAll();

  ProxyOptions options_;
  Surroundings around_;
  Address listening_on_;
  Socket keeper_;  // bound, never listening: keeps the port while the listener is closed
  Socket listener_;
  int poller_ = -1;
  int waker_ = -1;
  SteadyTime made_{};

  std::atomic<bool> must_stop_{false};
  std::mutex mutex_;
  std::vector<Order> posted_;  // guarded by mutex_

  std::vector<NumberedRule> rules_;
  std::uint32_t last_rule_ = 0;
  std::uint32_t last_connection_ = 0;
  std::map<std::uint32_t, Open> open_;
  std::set<std::pair<SteadyTime, std::uint32_t>> timers_;  // of those that wait for a moment
  std::set<std::uint32_t> due_;                            // to be pumped in this turn
  bool is_busy_ = false;                                   // some of them without waiting
  bool is_accepting_ = false;                              // the listener is watched
  SteadyTime accept_at_ = kNever;                          // after a lack of descriptors
  bool lacks_files_ = false;
  SteadyTime dark_until_{};
  SteadyTime next_dark_ = kNever;
  Counters closed_;  // of the connections that are over
  LineReader lines_;
};

}  // namespace skep::faultproxy
