// JobRunner: does the engine's heavy jobs (Fold, Finish, Evaluate, Release) for both drivers.
//
// Keeps the sums of open attempts; bodies and models lie with the driver. One thread at a time; the
// server calls it on its compute thread, the simulator inline. Sign and Commit are the driver's
// own.
#pragma once

#include <map>
#include <memory>

#include "aggregator/engine/events.h"
#include "aggregator/strategy/strategy.h"

namespace skep::aggregator {

// The driver's models by hash.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  // SKEP-4008 if it is not there.
  [[nodiscard]] virtual Result<model::ParamsPtr> Model(const Hash32& hash) = 0;
  // Durable on return where the driver promises that.
  [[nodiscard]] virtual Status Keep(model::ParamsPtr params, const Hash32& hash) = 0;
};

// Central evaluation on the aggregator's test data. The simulator's uses all workers.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  [[nodiscard]] virtual Result<Evaluated> Evaluate(const RunSpec& spec,
                                                   const model::Params& params) = 0;
};

class JobRunner {
 public:
  JobRunner(ModelSource& models, BodySource& bodies);

  // A run must be known before its jobs. `evaluator` may be null when the run has no test data; it
  // must outlive the runner.
  void AddRun(std::shared_ptr<const RunSpec> spec, Evaluator* evaluator);
  // Precondition: not a CommitJob or SignJob.
  [[nodiscard]] JobResult Run(const Job& job);

 private:
  struct KnownRun {
    std::shared_ptr<const RunSpec> spec;
    Evaluator* evaluator = nullptr;
  };
  [[nodiscard]] Result<const KnownRun*> Find(const RunId& id) const;
  [[nodiscard]] Status Fold(const FoldJob& job);
  [[nodiscard]] Result<Finished> Finish(const FinishJob& job);
  [[nodiscard]] Result<Evaluated> Evaluate(const EvaluateJob& job);

  ModelSource& models_;
  BodySource& bodies_;
  std::map<RunId, KnownRun> runs_;
  std::map<AttemptKey, std::unique_ptr<Strategy>> sums_;
};

}  // namespace skep::aggregator
