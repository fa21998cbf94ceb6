// RunSpec: everything the engine must know of a run, fixed when the run starts.
//
// Made from an experiment file by MakeRunSpec, in the aggregator and in the simulator alike, so
// that both train the same thing. A plain value; immutable once the engine has it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/nn/loss.h"
#include "shared/base/clock.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/config/experiment.h"
#include "shared/data/data_spec.h"
#include "shared/model/free_memory.h"
#include "shared/model/model_spec.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

enum class Weighting { kExamples, kUniform };

// Rounds, cohorts and times of a run. Defaults live in the configuration's schema, not here.
struct TrainingRules {
  std::uint32_t rounds = 0;
  std::uint32_t clients_per_round = 0;  // m, reports wanted
  std::uint32_t invited = 0;            // N = ceil(m x over_selection)
  std::uint32_t min_reports = 0;
  std::uint32_t max_attempts = 0;  // consecutive abandoned attempts before the run pauses
  Nanoseconds selection_window{};
  Nanoseconds report_deadline{};
  Nanoseconds min_separation{};
  Weighting weighting = Weighting::kExamples;
  double server_learning_rate = 1.0;
};

struct EvaluationRules {
  std::uint32_t eval_every = 0;         // 0 = only the last round
  bool has_test_data = false;           // without: no central evaluation
  std::uint32_t client_eval_every = 0;  // 0 = never
  std::uint32_t client_eval_clients = 0;
};

// When a run ends before its last round. `target` is compared with the central metric.
struct StopRules {
  std::string metric = "accuracy";
  bool maximise = true;
  std::optional<double> target;
  bool stop_at_target = false;
  std::uint32_t patience = 0;  // evaluations without improvement; 0 = off
};

struct AdmissionLimits {
  double max_norm = 0;
  std::uint32_t max_weight = 0;  // 1 with uniform weighting
};

struct RunSpec {
  RunId id;
  std::string name;
  std::string population;
  std::uint64_t seed = 0;
  TrainingRules training;
  EvaluationRules evaluation;
  StopRules stop;
  AdmissionLimits admission;
  int scale = 0;  // S of the exact sum (kernels/fixed_point.h)
  model::ModelSpec model;
  kernels::LossKind loss = kernels::LossKind::kSoftmaxCrossEntropy;
  Hash32 initial_model;                // model hash
  wire::Plan plan;                     // the plan of round 1; PlanForRound gives the others
  std::vector<double> learning_rates;  // one per round where a schedule changes it; else empty
};

// What a run needs besides the experiment file.
struct RunInputs {
  RunId id;
  std::string population;
  std::uint64_t seed = 0;
  data::DataSpec data;
  std::vector<std::uint32_t> input_shape;
  std::uint32_t labels_per_row = 0;  // 0: not known here, the devices check it
  bool has_test_data = false;
  bool has_client_test_data = false;  // the split holds rows out on clients without being asked to
  Hash32 initial_model;
};

// SKEP-5304 the limits leave too few bits for the exact sum; SKEP-5307 the plan is too large;
// SKEP-1301 the model does not fit the data; SKEP-1303 batch norm with batches of one row;
// SKEP-1103 a personalization that the model does not suit.
[[nodiscard]] Result<RunSpec> MakeRunSpec(const config::Experiment& experiment,
                                          const RunInputs& inputs);

// Whether all of the model is shared: otherwise what is published lacks the tensors that stay on
// the devices, and cannot be evaluated by itself.
[[nodiscard]] bool IsWhole(const model::ModelSpec& model);

// How batch norm is left for what one row can train: "model.normalization = "group"".
[[nodiscard]] std::string GroupNormHint(const config::ModelConfig& wanted);

// What people are to know of a run whose clients have models of their own.
[[nodiscard]] std::vector<std::string> PersonalNotes(const RunSpec& spec);

// The plan of a round: the run's plan with that round's learning rate.
[[nodiscard]] wire::Plan PlanForRound(const RunSpec& spec, std::uint32_t round);

// Initial parameters from the experiment: its initialiser under `seed`, or the file it names; what
// of that file is skipped goes to `notes`, if given. SKEP-1401: the models of a run would not fit
// into `free_memory` (0: not known); nothing is made then.
[[nodiscard]] Result<model::Params> MakeInitialModel(
    const config::Experiment& experiment, const model::ModelSpec& spec, std::uint64_t seed,
    std::vector<std::string>* notes = nullptr, std::uint64_t free_memory = model::FreeMemory());

}  // namespace skep::aggregator
