// RoundEngine: rounds of federated training as one state machine without I/O, clock, threads or
// entropy.
//
// One per process; holds all runs. The network server and the simulator both drive it: they say
// what happened and do what it says. Step is total: no input makes it throw or abort. A peer's
// fault is an output (Disconnect, RefuseUpload); a fault of the aggregator is a failed JobDone or
// EngineFailed. Not thread-safe: one thread at a time. Source: Skep protocol 1.0, sections 7,
// 8, 9.2 and 18.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aggregator/engine/events.h"

namespace skep::aggregator {

// The operator's values that the engine needs (server.toml; the simulator takes the defaults it
// documents).
struct EngineConfig {
  FederationId federation;
  std::uint32_t epoch = 1;
  Nanoseconds
      absent_after{};  // a device silent for so long is not waited for when a cohort is drawn
  Nanoseconds offer_ttl{};
  Nanoseconds progress_lease{};   // last contact within it: late rather than dropped
  Nanoseconds max_hold{};         // 0 = Polls are held without limit (simulator)
  std::uint32_t max_held = 1000;  // Polls held while the population has no run
  double headroom = 1.5;          // pace steering
  double small_factor = 4.0;      // infinity in the simulator: every cohort waits for all
  Nanoseconds min_return{};
  Nanoseconds max_return{};
  Nanoseconds overload_return{};
  std::uint64_t max_update_bytes = 0;
  std::uint64_t max_model_bytes = 0;
  std::uint32_t strikes = 3;  // refusals of kind 2104, 2105, 2110, 2113 before quarantine
  bool detach_allowed = true;
};

// What a start begins from: the specifications of the runs that are not over, beside their rows.
struct EngineSnapshot {
  StoreSnapshot store;
  std::vector<std::shared_ptr<const RunSpec>>
      specs;  // of store.runs in states running and paused, by id
  std::vector<DeviceRow> devices;
};

// One run as `status` and `run show` print it. Every waiting state says what it waits for and since
// when.
struct RunView {
  RunId id;
  std::string name;
  std::string population;
  RunState state = RunState::kRunning;
  int code = 0;
  std::string reason;
  AttemptKey attempt;  // current or next
  // selecting, opening, collecting, publishing, evaluating, failed (being abandoned), stopped
  std::string phase;
  std::string waiting_for;  // "waiting for devices: 3 of 10 held, 4 present"; stopped: the reason
  SteadyTime waiting_since{};
  AttemptCounts counts;  // of the open attempt
  std::uint32_t reports_wanted = 0;
  std::uint32_t min_reports = 0;
  SteadyTime closes_at{};  // of an open attempt
  std::uint32_t rounds = 0;
  Hash32 model;
  std::vector<Metric> last_metrics;
};

class RoundEngine {
 public:
  RoundEngine(EngineConfig config, EngineSnapshot recovered);
  ~RoundEngine();

  [[nodiscard]] Outputs Step(Now now, Input input);
  // What to do first after construction: reopens open attempts, re-folds their updates, arms
  // timers.
  [[nodiscard]] Outputs Resume(Now now);

  [[nodiscard]] std::vector<RunView> Runs() const;

  // Session and device of a simulated client (Eligible).
  [[nodiscard]] static SessionNumber SimulatedSession(ClientNumber client);
  [[nodiscard]] static DeviceId SimulatedDevice(ClientNumber client);
  [[nodiscard]] static ClientNumber SimulatedClient(SessionNumber session);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skep::aggregator
