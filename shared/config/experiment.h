// Experiment: experiment.toml as typed values. One file serves the simulator and the aggregator.
//
// What is here was read, checked and completed; the keys that this build knows but lacks are
// refused before (SKEP-1019). No data set is opened: what depends on the data is completed by
// `FinishExperiment`.
//
// Called by the programs. Plain values, any thread. Source: docs/reference/experiment.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/config/effective.h"
#include "shared/config/problem.h"

namespace skep::config {

// Counts times a fraction in integers: the fraction is first rounded to 1e-6. Halves round up; or
// always up.
[[nodiscard]] std::uint64_t RoundedShare(std::uint64_t count, double fraction);
[[nodiscard]] std::uint64_t ShareRoundedUp(std::uint64_t count, double factor);

struct DataConfig {
  std::string
      dataset;  // "fashion-mnist", or empty (with `path`, or where only the specification is given)
  std::string path;             // joined with the folder of the configuration file, or empty
  std::string path_text;        // as written
  std::string format = "auto";  // auto, idx, csv, plays
  std::string label;            // column name, or empty: the last one
  std::optional<std::uint32_t> label_index;  // given in place of the name
  std::string client_column;                 // column name, "@file", or empty
  std::string client_file;                   // joined like `path`, or empty
  std::optional<bool> header;                // nothing: decide by the first line
  std::string missing = "error";             // error, drop, mean
  char decimal = '.';
  std::string task = "auto";       // auto, classification, next_token
  std::string normalize = "auto";  // auto, none, unit, symmetric, standard
  std::string test_path;           // joined like `path`, or empty
  double test_fraction = 0.2;      // of a source without a test part of its own
  double client_test_fraction = 0;
  std::uint32_t text_length = 80;  // plays: characters of an example; from model.input
  // The data specification, where it is given and not found in the data.
  std::vector<std::string> features;
  std::vector<std::string> classes;
  std::map<std::string, std::vector<std::string>> categories;
  std::map<std::string, std::pair<double, double>> scaling;  // offset, scale

  std::uint32_t num_clients = 0;  // 0: natural, all owners, until FinishExperiment
  std::string partition;          // iid, shards, dirichlet, natural
  double dirichlet_alpha = 0.5;
  bool self_balancing = false;
  std::uint32_t partition_attempts = 10;
  bool repairs_partition = true;  // after the last attempt; else it is an error
  std::uint32_t shards_per_client = 2;
  std::uint32_t shard_size = 0;  // 0: not given
  bool keep_incomplete_shard = false;
  bool shuffle = true;
  std::uint64_t partition_seed = 42;
  std::uint32_t min_examples = 1;
  std::uint32_t max_examples = 0;  // 0: no limit
};

struct ModelConfig {
  std::string architecture = "2nn";    // a preset, or "layers"
  std::vector<std::uint32_t> input;    // empty: from the data
  std::uint32_t classes = 0;           // 0: from the data
  std::vector<std::uint32_t> hidden;   // mlp
  std::vector<std::string> layers;     // layers
  std::string activation = "relu";     // of presets: relu, tanh, sigmoid, gelu
  std::string normalization = "none";  // of presets: none, group, batch
  std::string loss = "auto";           // auto, cross_entropy, mse, binary_cross_entropy
  std::string init;                    // fan-in, glorot, he, zeros; empty with initial_model
  std::string initial_model;           // path of a .safetensors, joined like data.path, or empty
};

enum class Weighting : std::uint8_t { kExamples, kUniform };
enum class TargetMode : std::uint8_t { kMaximum, kMinimum };

struct TrainingConfig {
  std::string algorithm = "fedavg";
  std::uint32_t rounds = 50;
  std::uint32_t clients_per_round = 0;  // also from client_fraction; 0 until num_clients is known
  double over_selection = 1;
  std::uint32_t invited = 0;  // clients_per_round x over_selection, rounded up
  std::uint32_t min_reports = 0;
  std::uint32_t max_attempts = 3;
  Nanoseconds selection_window{};
  Nanoseconds report_deadline{};
  Nanoseconds min_separation{};
  Weighting weighting = Weighting::kExamples;
  std::uint32_t eval_every = 1;  // 0: only after the last round
  std::uint32_t client_eval_every = 10;
  std::uint32_t client_eval_clients = 200;
  std::uint32_t client_min_test_examples = 15;
  std::vector<std::string> metrics;  // accuracy, loss
  std::string target_metric = "accuracy";
  TargetMode target_mode = TargetMode::kMaximum;
  std::optional<double> target;
  bool stop_at_target = false;
  std::uint32_t patience = 0;  // evaluations without improvement; 0: off
  std::optional<Nanoseconds> stop_after;
  std::optional<std::uint64_t> stop_after_bytes;
};

enum class Schedule : std::uint8_t { kConstant, kExponential, kStep, kCosine };

struct ClientTraining {
  std::uint32_t local_epochs = 1;   // 0 with local_steps
  std::uint32_t local_steps = 0;    // 0 with local_epochs
  std::uint32_t batch_size = 10;    // 0: all examples of the client
  bool merges_single_tail = false;  // batch_tail = "merge"
  std::string optimizer = "sgd";    // sgd, adam, adamw
  double learning_rate = 0.1;
  Schedule schedule = Schedule::kConstant;
  double learning_rate_decay = 1;
  std::uint32_t decay_every = 1;
  double momentum = 0;  // sgd
  bool nesterov = false;
  double weight_decay = 0;
  std::optional<double> gradient_clip;
};

// The step size of a round, from 1.
[[nodiscard]] double LearningRateOf(const ClientTraining& client, std::uint32_t rounds,
                                    std::uint32_t round);
// The first round whose step size is so small that single precision has no full number for it and
// nothing is learnt; 0 if there is none.
[[nodiscard]] std::uint32_t FirstIdleRound(const ClientTraining& client, std::uint32_t rounds);

struct AdmissionConfig {
  double max_norm = 100;
  std::uint32_t max_weight = 1U << 20U;
};

struct PersonalizationConfig {
  std::string method = "none";  // none, fedbn
};

enum class DropoutPhase : std::uint8_t { kBefore, kTraining, kUpload, kAny };

// The simulator's model of devices; everything is off by default.
struct DevicesConfig {
  std::optional<double> examples_per_second;
  double speed_sigma = 0;
  double speed_jitter = 0;
  std::optional<double> down_mbps;
  std::optional<double> up_mbps;
  double network_sigma = 0;
  Nanoseconds latency{};
  double dropout = 0;
  DropoutPhase dropout_phase = DropoutPhase::kAny;
};

struct RunConfig {
  std::uint32_t jobs = 0;                         // 0: one per CPU
  std::string isa = "auto";                       // auto, portable, avx2, avx512
  std::string device = "auto";                    // auto, cpu, cuda, cuda:N
  std::optional<std::uint64_t> gpu_memory_limit;  // bytes; absent: a share of what is free
  std::string output = "runs/{name}-{time}";
  std::uint32_t checkpoint_every = 1;  // 0: only at the end
  std::uint32_t keep_checkpoints = 2;
  bool report = true;
};

struct Experiment {
  std::string name;
  std::string population;   // empty: not given
  std::uint64_t seed = 42;  // aggregator: 0 until it is drawn, unless given
  bool is_seed_given = false;
  DataConfig data;
  ModelConfig model;
  TrainingConfig training;
  ClientTraining client;
  double server_learning_rate = 1;
  AdmissionConfig admission;
  PersonalizationConfig personalization;
  DevicesConfig devices;
  RunConfig run;
};

template <class T>
struct Loaded {
  T value;
  Effective effective;
  std::vector<Note> notes;  // in the order in which to print them
};

enum class Program : std::uint8_t { kSimulator, kAggregator };

struct LoadOptions {
  std::vector<std::string> sets;  // "training.rounds=5", in the order of the command line
  Program program = Program::kSimulator;
  std::string folder =
      {};  // relative paths start here; empty: the folder of the configuration file
};

// Reads, checks and completes `path`. The aggregator's `run start` gets a note for the sections
// that it ignores and SKEP-5314 where a seed is given.
[[nodiscard]] Validated<Loaded<Experiment>> LoadExperiment(const std::string& path,
                                                           const LoadOptions& options);
// The same from text, with `path` only as a name.
[[nodiscard]] Validated<Loaded<Experiment>> ParseExperiment(const std::string& text,
                                                            const std::string& path,
                                                            const LoadOptions& options);

// What the data say; whatever is not known stays absent.
struct DataFacts {
  std::optional<std::uint64_t> rows;    // of the training part
  std::optional<std::uint32_t> owners;  // distinct owners that have a usable row
  std::optional<std::uint32_t> classes;
  std::vector<std::uint32_t> input;  // shape of one example, or empty
  std::optional<std::uint64_t>
      largest_client;               // most training examples of one client, after the split
  std::string largest_client_name;  // "client 3" or "client north"
};

// Completes what waits for the data (num_clients of natural, then clients_per_round, min_reports,
// model.input and model.classes) and checks against them: SKEP-1104, 1105, 1301, and 1102 where a
// client has more examples than admission.max_weight. May be called again when more is known.
// Empty: all is well.
[[nodiscard]] std::vector<Problem> FinishExperiment(Loaded<Experiment>& loaded,
                                                    const DataFacts& facts);

// The aggregator's seed, drawn by its caller; does nothing where the file gives one.
void SetDrawnSeed(Loaded<Experiment>& loaded, std::uint64_t seed);

}  // namespace skep::config
