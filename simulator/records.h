// What a simulated run tells its outputs: progress display, metrics.jsonl, run.db and report all
// read these records.
//
// Plain values, handed to a Recorder on the simulation's thread in the order in which things
// happened. Metric names are those of docs/formats.md ("test/accuracy"); a metric that was due but
// is undefined has no value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregator/engine/events.h"
#include "shared/base/clock.h"
#include "shared/base/ids.h"

namespace skep::simulator {

using Metrics = std::map<std::string, std::optional<double>>;

struct ClientInfo {
  ClientNumber number = 0;
  std::string name{};  // the owner's, or empty
  std::uint32_t examples = 0;
  std::uint32_t test_examples = 0;
  std::vector<std::uint32_t> labels{};  // training examples (text: labels) per class
};

// How the note begins that says where clients train, and why.
inline constexpr std::string_view kDeviceNote = "trains on ";

struct RunStart {
  std::string name{};
  std::string run_id{};  // 32 hexadecimal digits
  std::string version{};
  std::string command{};  // reproduces the run
  std::string
      folder{};  // where relative paths of the configuration start, seen from the run directory
  WallMs time = 0;
  std::uint64_t seed = 0;
  Hash32 config_sha256{};
  Hash32 data_sha256{};
  Hash32 layout_sha256{};
  std::string config_toml{};  // effective, canonical
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>>
      settings{};  // key -> (value, source), in schema order
  std::string algorithm{};
  std::string architecture{};
  std::string partition{};  // in words: "dirichlet 0.5"
  std::uint32_t rounds = 0;
  std::uint32_t clients_per_round = 0;
  std::string device{};
  std::string isa{};
  std::size_t jobs = 1;
  std::uint64_t model_parameters = 0;
  std::uint64_t memory_plan_bytes = 0;
  bool has_large_inputs = false;  // their scale may be what keeps training from staying finite
  std::optional<std::uint32_t> resumed_from{};
  std::string target_metric{};  // "test/accuracy"
  bool is_target_maximised = true;
  std::optional<double> target{};
  std::vector<std::string> classes{};
  std::vector<ClientInfo> clients{};
};

struct PhaseSeconds {
  double select = 0;
  double train = 0;
  double aggregate = 0;
  double evaluate = 0;
};

// One attempt of a round, when everything about it is known (evaluations included).
struct RoundRecord {
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
  bool published = false;
  int code = 0;
  std::string reason{};
  double time_s = 0;  // since the start of the run
  std::optional<double> virtual_s{};
  aggregator::AttemptCounts counts{};
  Metrics metrics{};  // of a published attempt
  std::map<std::string, std::uint32_t> metric_clients{};
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  PhaseSeconds phases{};
  Hash32 model{};
  std::uint32_t consecutive_abandoned = 0;
};

// The outcome of one client in one attempt.
struct ClientRecord {
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
  ClientNumber client = 0;
  std::string name{};
  aggregator::Outcome outcome = aggregator::Outcome::kOk;
  int code = 0;
  std::string detail{};
  std::uint32_t examples = 0;
  std::uint32_t steps = 0;
  std::optional<double> train_loss{};
  std::optional<double> update_norm{};
  double train_s = 0;
  std::optional<double> virtual_s{};
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
};

// One client's evaluation of the global model of `round`.
struct ClientMetric {
  std::uint32_t round = 0;
  ClientNumber client = 0;
  std::uint32_t examples = 0;
  std::string name{};  // "accuracy", "loss"
  double value = 0;
};

enum class NoteLevel { kInfo, kWarning, kError };

struct NoteRecord {
  std::optional<std::uint32_t> round{};
  std::optional<std::uint32_t> attempt{};
  double time_s = 0;
  NoteLevel level = NoteLevel::kInfo;
  int code = 0;
  std::string text{};
};

struct CheckpointRecord {
  std::uint32_t round = 0;
  std::string path{};  // relative to the run directory
  Hash32 file_sha256{};
  Hash32 model{};
};

enum class EndState { kFinished, kStopped, kInterrupted, kFailed };

struct RunEnd {
  EndState state = EndState::kFinished;
  int exit_code = 0;
  int code = 0;
  std::string text{};
  std::uint32_t rounds = 0;
  double time_s = 0;
  Metrics final_metrics{};
  std::optional<double> best{};
  std::uint32_t best_round = 0;
  std::optional<double> rounds_to_target{};
  Hash32 model{};
  Hash32 result_sha256{};
  bool reproducible = true;
};

// What the simulation is doing right now, for a display that must say what it waits for.
struct Activity {
  std::uint32_t round = 0;
  std::size_t reports = 0;
  std::size_t wanted = 0;
  std::string waiting_for{};  // "training client 17", or empty
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void On(const RunStart&) {}
  virtual void On(const ClientRecord&) {}
  virtual void On(const ClientMetric&) {}
  virtual void On(const RoundRecord&) {}
  virtual void On(const NoteRecord&) {}
  virtual void On(const CheckpointRecord&) {}
  virtual void On(const RunEnd&) {}
  virtual void On(const Activity&) {}
};

}  // namespace skep::simulator
