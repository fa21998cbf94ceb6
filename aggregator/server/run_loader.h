// From an experiment file to a run, and from a stored run back to what the engine needs.
//
// Reads data, so it takes its time: never on the network thread. Changes nothing; storing the first
// model and starting the run is the server's. Any thread. Source: docs/reference/experiment.md;
// docs/operations.md (run start).
#pragma once

#include <memory>
#include <string>

#include "aggregator/engine/job_runner.h"
#include "aggregator/server/control.h"
#include "kernels/backend.h"
#include "shared/base/executor.h"

namespace skep::aggregator {

struct EvaluationMeans {
  kernels::Isa isa = kernels::Isa::kPortable;
  ThreadPool* pool = nullptr;
};

struct PreparedRun {
  std::shared_ptr<const RunSpec> spec;
  std::string experiment_toml;  // effective, with absolute paths: all that a restart needs
  model::ParamsPtr initial;
  std::unique_ptr<Evaluator> evaluator;  // null without test data
  StartedRun answer;
};

// Every problem of the file at once, or the first of the data: SKEP-10xx to 13xx, 5304, 5305, 5307,
// 5310, 5314 (a note), 5315, 5316.
[[nodiscard]] config::Validated<PreparedRun> PrepareRun(const StartRequest& request,
                                                        const EvaluationMeans& means);

struct RestoredRun {
  std::shared_ptr<const RunSpec> spec;
  std::unique_ptr<Evaluator> evaluator;  // reads its data when it is first used
};
// SKEP-4007: what is stored of the run does not make sense to this program.
[[nodiscard]] Result<RestoredRun> RestoreRun(const RunRow& row, const EvaluationMeans& means);

// What `run start` answers, as far as the specification says it.
[[nodiscard]] StartedRun DescribeRun(const RunSpec& spec);

// The request key that stands for a request without one.
[[nodiscard]] std::string RequestKeyOf(const StartRequest& request);

}  // namespace skep::aggregator
