#include "aggregator/server/workshop.h"

#include <utility>

namespace skep::aggregator {
namespace {

constexpr int kContradiction = 4007;

}  // namespace

Workshop::Workshop(Means means)
    : means_(std::move(means)),
      fold_bodies_(means_.bodies, means_.store),
      jobs_(means_.models, fold_bodies_),
      pool_(means_.compute_workers) {}

void Workshop::AddRun(std::shared_ptr<const RunSpec> spec, std::unique_ptr<Evaluator> evaluator) {
  const auto shared = std::make_shared<std::unique_ptr<Evaluator>>(std::move(evaluator));
  jobs_thread_.Post([this, spec = std::move(spec), shared](std::size_t) {
    jobs_.AddRun(spec, shared->get());
    evaluators_[spec->id] = std::move(*shared);
  });
}

void Workshop::EndRun(std::shared_ptr<const RunSpec> spec) {
  jobs_thread_.Post([this, spec = std::move(spec)](std::size_t) {
    jobs_.AddRun(spec, nullptr);
    evaluators_.erase(spec->id);
  });
}

void Workshop::OnStore(Task task) {
  ++waiting_;
  store_thread_.Post([this, task = std::move(task)](std::size_t) {
    task();
    --waiting_;
  });
}

void Workshop::OnPool(Task task) {
  ++waiting_;
  pool_.Post([this, task = std::move(task)](std::size_t) {
    task();
    --waiting_;
  });
}

void Workshop::OnFiles(Task task) {
  ++waiting_;
  files_thread_.Post([this, task = std::move(task)](std::size_t) {
    task();
    --waiting_;
  });
}

void Workshop::Start(Job job, WallMs now, Done done) {
  const auto shared = std::make_shared<Job>(std::move(job));
  const auto finish = [this, done = std::move(done)](JobResult result) {
    means_.post([done, result = std::move(result)] { done(result); });
  };
  if (std::holds_alternative<CommitJob>(*shared)) {
    OnStore([this, shared, now, finish] {
      finish(Commit(std::get<CommitJob>(*shared).transaction, now));
    });
    return;
  }
  ++waiting_;
  jobs_thread_.Post([this, shared, finish](std::size_t) {
    finish(Compute(*shared));
    --waiting_;
  });
}

JobResult Workshop::Commit(const Transaction& transaction, WallMs now) {
  Result<std::uint64_t> applied = means_.store.Apply(transaction, now, means_.bodies);
  if (!applied) {
    // A row that contradicts what is stored is never tried again, and its body not needed.
    const auto* update = std::get_if<UpdateTx>(&transaction);
    if (update != nullptr && applied.error().code == kContradiction) {
      means_.bodies.Forget(update->update.upload);
    }
    return std::move(applied).error();
  }
  return Committed{applied.value()};
}

JobResult Workshop::Sign(Bytes payload) const {
  Result<wire::Signature> signature =
      means_.signing_key.Sign(crypto::SignedKind::kManifest, payload);
  if (!signature) return std::move(signature).error();
  return Signed{{.payload = std::move(payload),
                 .key_id = means_.signing_key.id(),
                 .signature = signature.value()}};
}

JobResult Workshop::Compute(const Job& job) {
  if (const auto* sign = std::get_if<SignJob>(&job)) return Sign(sign->payload);
  JobResult result = jobs_.Run(job);
  if (const auto* fold = std::get_if<FoldJob>(&job)) {
    for (const UpdateRow& update : fold->updates) means_.bodies.Forget(update.upload);
  } else if (const auto* release = std::get_if<ReleaseJob>(&job)) {
    means_.bodies.ForgetAllOf(release->key);
  }
  return result;
}

}  // namespace skep::aggregator
