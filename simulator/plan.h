// Plan: an experiment file with its data read, its clients split and its model made; all that a
// simulation needs, before anything trains.
//
// Called by the commands. Not thread-safe. Source: docs/architecture.md; docs/reference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "aggregator/engine/run_spec.h"
#include "client/device_trainer.h"
#include "kernels/backend.h"
#include "kernels/cuda/loader.h"
#include "shared/config/experiment.h"
#include "shared/data/partition.h"
#include "shared/data/reader.h"
#include "shared/model/free_memory.h"
#include "simulator/records.h"
#include "simulator/simulation.h"

namespace skep::simulator {

// The experiment and its data.
struct Prepared {
  config::Loaded<config::Experiment> loaded;
  data::LoadedData data;
  data::Partition partition;
  data::LabelTable labels;

  [[nodiscard]] const config::Experiment& experiment() const { return loaded.value; }
};

struct PlanSource {
  std::string file;
  std::vector<std::string> sets;
  std::string folder;  // where relative paths start; empty: the file's folder
};

// Every problem of the file, or the first one of the data.
[[nodiscard]] config::Validated<Prepared> Prepare(const PlanSource& source);

// Where clients train.
struct PlannedDevice {
  std::shared_ptr<kernels::DeviceApi> api{};  // null: the CPU
  std::string name = "cpu";                   // or "cuda:0, NVIDIA H200"
  std::string why{};  // of the CPU: why nothing else; empty where it was asked for
  std::uint64_t budget_bytes = 0;
  client::LanePlan lanes{};
};
// As kernels::ChooseDevice; tests put another device there.
using DeviceChooser =
    std::function<Result<kernels::ChosenDevice>(const kernels::DeviceChoice& choice)>;

struct Plan {
  Prepared prepared;
  std::shared_ptr<const aggregator::RunSpec> spec;
  model::ParamsPtr initial;
  kernels::Isa isa = kernels::Isa::kPortable;
  std::size_t jobs = 1;
  Hash32 config_sha256;
  std::uint64_t memory_bytes = 0;  // needed beside the data
  double largest_input = 0;        // of the training part, without its sign
  PlannedDevice device{};

  [[nodiscard]] const config::Experiment& experiment() const { return prepared.experiment(); }
};

// `run_id` also names the run in its files. SKEP-1401: it does not fit into 80 % of `free_memory`
// (0: not known), or not into that of the device; 72xx of a device that was asked for. Nothing of
// the model's size is made before.
[[nodiscard]] config::Validated<Plan> MakePlan(Prepared prepared, const RunId& run_id,
                                               const DeviceChooser& choose = kernels::ChooseDevice,
                                               std::uint64_t free_memory = model::FreeMemory());

[[nodiscard]] SimulationSetup MakeSetup(const Plan& plan);

// What the outputs are told first. Name, time, command and folder are the caller's to add.
[[nodiscard]] RunStart MakeRunStart(const Plan& plan);

// "cpu: no CUDA device: there is no ...", "cuda:0, NVIDIA H200: 25 clients at once, 1.2 GiB".
[[nodiscard]] std::string DeviceText(const PlannedDevice& device);

// "dirichlet α = 0.5", "shards, 2 per client", "natural".
[[nodiscard]] std::string PartitionText(const config::DataConfig& data);

// `error` as the problem of a file, so that it is shown like one.
[[nodiscard]] config::Problem AsProblem(const Error& error);

}  // namespace skep::simulator
