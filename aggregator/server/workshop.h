// Workshop: the threads beside the network's: one that writes the store, one that adds up and
// finishes models, one for files that are only advice, and a pool for what can go on side by side
// (checking bodies, evaluation).
//
// Results come back on the network's thread through `post`. Transactions are applied in the order
// in which they were given; so are jobs. Called by Server on the network's thread, but for OnStore.
// Source: Skep protocol 1.0, section 18 (StartJob); docs/durability.md.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "aggregator/engine/job_runner.h"
#include "aggregator/server/model_shelf.h"
#include "aggregator/server/upload_body.h"
#include "crypto/signature.h"
#include "shared/base/executor.h"

namespace skep::aggregator {

class Workshop {
 public:
  using Task = std::function<void()>;
  using Done = std::function<void(JobResult)>;

  struct Means {
    Store& store;
    ModelShelf& models;
    BodyShelf& bodies;
    crypto::SigningKey signing_key;
    std::size_t compute_workers = 1;
    std::size_t queue_bound = 0;     // beyond it IsCongested
    std::function<void(Task)> post;  // to the network's thread
  };
  explicit Workshop(Means means);

  // A run must be known before its jobs; the evaluator may be null.
  void AddRun(std::shared_ptr<const RunSpec> spec, std::unique_ptr<Evaluator> evaluator);
  // A run that is over: what its evaluation held is let go.
  void EndRun(std::shared_ptr<const RunSpec> spec);
  // `done` is called on the network's thread.
  void Start(Job job, WallMs now, Done done);
  // On the store's thread, after the transactions given before. Any thread may call.
  void OnStore(Task task);
  // On one of the pool's threads.
  void OnPool(Task task);
  // On the thread for files that nothing durable depends on, in the order given.
  void OnFiles(Task task);
  [[nodiscard]] bool IsCongested() const { return waiting_.load() > means_.queue_bound; }
  [[nodiscard]] ThreadPool& pool() { return pool_; }

 private:
  [[nodiscard]] JobResult Commit(const Transaction& transaction, WallMs now);
  [[nodiscard]] JobResult Sign(Bytes payload) const;
  [[nodiscard]] JobResult Compute(const Job& job);

  Means means_;
  std::atomic<std::size_t> waiting_{0};  // tasks of all threads that have not ended
  FoldBodies fold_bodies_;
  JobRunner jobs_;                                          // used by jobs_thread_ alone
  std::map<RunId, std::unique_ptr<Evaluator>> evaluators_;  // likewise
  // Their destructors finish what was given to them, the users of the pool first.
  ThreadPool pool_;
  ThreadPool store_thread_{1};
  ThreadPool jobs_thread_{1};
  ThreadPool files_thread_{1};
};

}  // namespace skep::aggregator
