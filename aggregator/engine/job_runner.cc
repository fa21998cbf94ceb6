#include "aggregator/engine/job_runner.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr int kDamaged = 4007;
constexpr int kInternal = 9001;

// The body's floats: in place where they are aligned for it, else a copy.
std::span<const float> AsFloats(const Bytes& body, model::FloatVector& copy) {
  const std::size_t count = body.size() / sizeof(float);
  if (reinterpret_cast<std::uintptr_t>(body.data()) % alignof(float) == 0) {
    return {reinterpret_cast<const float*>(body.data()), count};
  }
  copy.resize(count);
  std::memcpy(copy.data(), body.data(), count * sizeof(float));
  return copy;
}

JobResult AsResult(Status status) {
  if (!status) return std::move(status).error();
  return JobOk{};
}

template <class T>
JobResult AsResult(Result<T> result) {
  if (!result) return std::move(result).error();
  return std::move(result).value();
}

}  // namespace

JobRunner::JobRunner(ModelSource& models, BodySource& bodies) : models_(models), bodies_(bodies) {}

void JobRunner::AddRun(std::shared_ptr<const RunSpec> spec, Evaluator* evaluator) {
  const RunId id = spec->id;
  runs_[id] = {std::move(spec), evaluator};
}

Result<const JobRunner::KnownRun*> JobRunner::Find(const RunId& id) const {
  const auto run = runs_.find(id);
  if (run == runs_.end()) return Error{kInternal, "job of an unknown run " + id.Hex(), ""};
  return &run->second;
}

Status JobRunner::Fold(const FoldJob& job) {
  SKEP_ASSIGN(const KnownRun* run, Find(job.key.run));
  const RunSpec& spec = *run->spec;
  std::unique_ptr<Strategy>& sum = sums_[job.key];
  if (!sum) {
    sum = MakeStrategy(spec);
    sum->Begin();
  }
  const bool is_uniform = spec.training.weighting == Weighting::kUniform;
  const std::uint64_t expected = spec.model.layout()->update_values() * sizeof(float);
  for (const UpdateRow& update : job.updates) {
    const std::shared_ptr<const Bytes> body = bodies_.Body(update.upload);
    if (!body || body->size() != expected) {
      return Error{kDamaged,
                   fmt::format("the body of client {}'s update in round {} is {}", update.client,
                               job.key.round, body ? "of another size" : "missing"),
                   ""};
    }
    model::FloatVector copy;
    sum->Accumulate(AsFloats(*body, copy), is_uniform ? 1.0 : update.weight);
  }
  return Ok();
}

Result<Finished> JobRunner::Finish(const FinishJob& job) {
  SKEP_TRY(Find(job.key.run));
  const auto sum = sums_.find(job.key);
  if (sum == sums_.end()) return Error{2202, "no update was added", ""};
  SKEP_ASSIGN(const model::ParamsPtr base, models_.Model(job.base));
  SKEP_ASSIGN(model::Params next, sum->second->Finish(*base));
  const Hash32 hash = next.ModelHash();
  SKEP_TRY(models_.Keep(std::make_shared<const model::Params>(std::move(next)), hash));
  return Finished{hash};
}

Result<Evaluated> JobRunner::Evaluate(const EvaluateJob& job) {
  SKEP_ASSIGN(const KnownRun* run, Find(job.run));
  if (run->evaluator == nullptr) return Error{kInternal, "a run without test data", ""};
  SKEP_ASSIGN(const model::ParamsPtr params, models_.Model(job.model));
  return run->evaluator->Evaluate(*run->spec, *params);
}

JobResult JobRunner::Run(const Job& job) {
  if (const auto* fold = std::get_if<FoldJob>(&job)) return AsResult(Fold(*fold));
  if (const auto* finish = std::get_if<FinishJob>(&job)) return AsResult(Finish(*finish));
  if (const auto* evaluate = std::get_if<EvaluateJob>(&job)) return AsResult(Evaluate(*evaluate));
  if (const auto* release = std::get_if<ReleaseJob>(&job)) {
    sums_.erase(release->key);
    return JobOk{};
  }
  return Error{kInternal, "this job belongs to the driver", ""};
}

}  // namespace skep::aggregator
