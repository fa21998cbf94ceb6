// Simulation: drives the aggregator's RoundEngine and one client Session per virtual client in
// virtual time.
//
// The driver of a whole run: what the network server does with sockets and clocks, this does with
// an event queue. Training runs on worker threads; everything else on the caller's thread. The same
// setup gives the same model, bit for bit, for any number of workers. Source: docs/architecture.md;
// Skep protocol 1.0, section 18.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/engine/run_spec.h"
#include "client/private_tensors.h"
#include "client/trainer.h"
#include "kernels/backend.h"
#include "shared/data/dataset.h"
#include "shared/data/partition.h"
#include "shared/model/params.h"
#include "simulator/device_model.h"
#include "simulator/records.h"
#include "simulator/round_log.h"
#include "simulator/task_pool.h"

namespace skep::simulator {

// How far a stop was asked for; set from a signal handler.
enum class StopLevel : int { kNone, kAfterRound, kNow };
using StopRequest = std::atomic<StopLevel>;

// What a client keeps for itself, as the latest published model with an update of it left it.
struct OwnState {
  ClientNumber client = 0;
  UpdateId update{};
  client::PrivateTensors tensors{};
};
using OwnStates = std::vector<OwnState>;  // ascending clients; those that took part

// Where a run goes on: the state after a published round.
struct ResumePoint {
  std::uint32_t round = 0;
  model::ParamsPtr model{};
  OwnStates own{};
  std::vector<PublishedRound> published{};  // rounds 1..round, oldest first
  double time_s = 0;                        // spent before
  double virtual_s = 0;                     // likewise, virtual
  std::uint64_t bytes = 0;                  // up and down before
};

struct SimulationSetup {
  std::shared_ptr<const aggregator::RunSpec> spec{};
  std::shared_ptr<const data::Dataset> train{};
  std::shared_ptr<const data::Dataset> test{};  // null: no central evaluation
  data::Partition partition{};
  model::ParamsPtr initial{};
  RoundLog::Rules log_rules{};
  DeviceRules devices{};
  kernels::Isa isa = kernels::Isa::kPortable;
  std::size_t jobs = 1;
  TaskPool::Lanes lanes{};  // without a device: clients train on the CPU
  Hash32 config_sha256{};
  Hash32 data_sha256{};
  std::optional<Nanoseconds> stop_after{};  // virtual time, or wall time without devices
  std::optional<std::uint64_t> stop_after_bytes{};
  bool keep_going = false;  // also when every client of the first attempt failed alike
  std::optional<ResumePoint> resume{};
};

// The state after a published round.
struct RoundState {
  std::uint32_t round = 0;
  const model::Params& model;
  OwnStates own{};
  bool is_last = false;
};

// Called when a published round is complete, before the next one starts. A failure ends the run
// (SKEP-40xx).
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;
  [[nodiscard]] virtual Status Write(const RoundState& state) = 0;
};

class Simulation {
 public:
  // `recorder`, `checkpoints` and `stop` must outlive the simulation.
  Simulation(SimulationSetup setup, Recorder& recorder, CheckpointWriter& checkpoints,
             const StopRequest& stop);
  ~Simulation();

  // Runs to the end; the RunEnd also goes to the recorder. `final_model`, if given, receives the
  // last published model.
  [[nodiscard]] RunEnd Run(model::ParamsPtr* final_model);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_{};
};

}  // namespace skep::simulator
