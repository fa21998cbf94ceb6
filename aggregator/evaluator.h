// DatasetEvaluator: a model's loss and accuracy on the aggregator's test data.
//
// Rows are evaluated in fixed blocks on all workers of a pool and the blocks' sums added in order,
// so that the number of workers never changes a bit. Called by the job runner, one thread at a
// time; the pool must not be the one that the caller runs on.
#pragma once

#include <memory>
#include <vector>

#include "aggregator/engine/job_runner.h"
#include "kernels/backend.h"
#include "shared/base/executor.h"
#include "shared/data/dataset.h"

namespace skep::kernels {
class Network;
}

namespace skep::aggregator {

class DatasetEvaluator final : public Evaluator {
 public:
  // `pool` may be null: then it works on the caller's thread. It must outlive the evaluator.
  DatasetEvaluator(std::shared_ptr<const data::Dataset> test, kernels::Isa isa, ThreadPool* pool);
  ~DatasetEvaluator() override;

  // Metrics "loss" and "accuracy", as far as the run's plan names them and they are finite.
  // SKEP-1301: the data do not fit the model.
  [[nodiscard]] Result<Evaluated> Evaluate(const RunSpec& spec,
                                           const model::Params& params) override;

 private:
  struct Workspace;
  void Prepare(const RunSpec& spec);

  std::shared_ptr<const data::Dataset> test_;
  kernels::Isa isa_;
  ThreadPool* pool_;
  RunId prepared_for_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one a worker
};

[[nodiscard]] std::unique_ptr<Evaluator> MakeEvaluator(std::shared_ptr<const data::Dataset> test,
                                                       kernels::Isa isa, ThreadPool* pool);

}  // namespace skep::aggregator
