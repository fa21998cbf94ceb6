#include "client/update_pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "kernels/vector_ops.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"
#include "shared/model/parts.h"

namespace skep::client {
namespace {

PendingUpdate Begin(const StartTraining& task) {
  PendingUpdate update;
  update.task = {task.manifest.run_id, task.manifest.round, task.manifest.attempt,
                 task.manifest.kind};
  update.layout = task.manifest.layout_sha256;
  update.model = task.manifest.model_sha256;
  return update;
}

Result<std::uint32_t> Weight(const StartTraining& task, std::uint32_t examples) {
  if (examples <= task.manifest.max_weight) return examples;
  return Error{7413,
               std::to_string(examples) + " examples, the run allows a weight of " +
                   std::to_string(task.manifest.max_weight),
               "raise admission.max_weight of the run"};
}

// Who trains, and on what.
struct Work {
  std::function<Result<TrainReport>(const TaskIdentity&, std::span<float>)> train;
  std::function<Result<EvaluationReport>(const TaskIdentity&, std::span<const float>)> evaluate;
};

Result<PendingUpdate> RunEvaluation(const StartTraining& task, const TaskIdentity& identity,
                                    const Work& work, std::span<const float> params) {
  SKEP_ASSIGN(const EvaluationReport found, work.evaluate(identity, params));
  SKEP_ASSIGN(PendingUpdate update, MakeEvaluation(task, found.examples));
  AddMetrics(task, {{"loss", found.loss}, {"accuracy", found.accuracy}}, update);
  return update;
}

Result<PendingUpdate> RunWork(const StartTraining& task, const Work& work,
                              model::FloatVector& scratch, TrainReport* report) {
  const std::size_t values = task.plan->model.layout()->values();
  // The model as received stays beside the one in training.
  scratch.resize(2 * values);
  const auto trained = std::span<float>(scratch).first(values);
  const auto received = std::span<float>(scratch).last(values);
  SKEP_TRY(ReadModel(task, trained));
  const TaskIdentity identity{task.manifest.round_seed, task.manifest.round, task.client};
  if (task.manifest.kind == wire::TaskKind::kEvaluate) {
    return RunEvaluation(task, identity, work, trained);
  }
  std::copy(trained.begin(), trained.end(), received.begin());
  SKEP_ASSIGN(const TrainReport done, work.train(identity, trained));
  if (report != nullptr) *report = done;
  return MakeUpdate(task, done, received, trained);
}

// The device would go on from them for ever. Where the update is not finite either, the
// aggregator's refusal says so.
Status CheckOwn(const model::Layout& layout, const Bytes& own, const Bytes& update) {
  const auto is_finite = [](const Bytes& bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(float));
      if (!std::isfinite(value)) return false;
    }
    return true;
  };
  if (layout.private_values() == 0 || is_finite(own) || !is_finite(update)) return Ok();
  return Error{7406, "training left values that are not finite in the norm layers",
               "lower client.learning_rate"};
}

}  // namespace

Status ReadModel(const StartTraining& task, std::span<float> params) {
  const model::Layout& layout = *task.plan->model.layout();
  if (task.model.bytes == nullptr || params.size() != layout.values() ||
      task.model.bytes->size() != layout.model_values() * sizeof(float)) {
    return Error{2218, "the model has another size than its plan says", ""};
  }
  model::PutPart(layout, model::Part::kModel, *task.model.bytes, params);
  if (task.own == nullptr) {
    model::FillPrivate(layout, params);
  } else {
    model::PutPart(layout, model::Part::kPrivate, *task.own, params);
  }
  return Ok();
}

Result<PendingUpdate> MakeUpdate(const StartTraining& task, const TrainReport& report,
                                 std::span<const float> received, std::span<float> trained) {
  const model::Layout& layout = *task.plan->model.layout();
  const auto own =
      std::make_shared<const Bytes>(model::TakePart(layout, model::Part::kPrivate, trained));
  kernels::Difference(trained, received, trained);
  // An update that is not finite travels too: the aggregator's refusal (2104) names the tensor and
  // is seen by whoever can lower the learning rate.
  PendingUpdate update = Begin(task);
  update.weight = 1;
  if (!task.plan->uniform_weighting) {
    SKEP_ASSIGN(update.weight, Weight(task, report.examples));
  }
  update.body.bytes =
      std::make_shared<const Bytes>(model::TakePart(layout, model::Part::kUpdate, trained));
  SKEP_TRY(CheckOwn(layout, *own, *update.body.bytes));
  if (!own->empty()) update.own = own;
  update.body.sha256 = Sha256::Of(*update.body.bytes);
  update.encoding = wire::Encoding::kF32;
  AddMetrics(task, {{"train_loss", report.loss}}, update);
  return update;
}

Result<PendingUpdate> MakeEvaluation(const StartTraining& task, std::uint32_t examples) {
  PendingUpdate update = Begin(task);
  SKEP_ASSIGN(update.weight, Weight(task, examples));
  update.body = {std::make_shared<const Bytes>(), Sha256::Of({})};
  return update;
}

void AddMetrics(const StartTraining& task, const NamedMetrics& metrics, PendingUpdate& update) {
  const std::vector<std::string>& names = task.wire_plan->metrics;
  for (const auto& [name, value] : metrics) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end() || !std::isfinite(value)) continue;
    update.metrics.push_back({static_cast<std::uint32_t>(found - names.begin()) + 1, value});
  }
}

Result<PendingUpdate> RunTask(const StartTraining& task, const LocalData& data, Trainer& trainer,
                              model::FloatVector& scratch, BatchGate* gate, TrainReport* report) {
  const Work work{.train =
                      [&](const TaskIdentity& identity, std::span<float> params) {
                        return trainer.Train(*task.plan, identity, data, params, gate);
                      },
                  .evaluate =
                      [&](const TaskIdentity&, std::span<const float> params) {
                        return trainer.Evaluate(*task.plan, data, params, gate);
                      }};
  return RunWork(task, work, scratch, report);
}

Result<PendingUpdate> RunTaskFrom(const StartTraining& task, ExampleSource& source,
                                  Trainer& trainer, model::FloatVector& scratch, BatchGate* gate,
                                  TrainReport* report) {
  const Work work{.train =
                      [&](const TaskIdentity& identity, std::span<float> params) {
                        return trainer.TrainFrom(*task.plan, identity, source, params, gate);
                      },
                  .evaluate =
                      [&](const TaskIdentity& identity, std::span<const float> params) {
                        return trainer.EvaluateFrom(*task.plan, identity, source, params, gate);
                      }};
  return RunWork(task, work, scratch, report);
}

}  // namespace skep::client
