// From a task to the bytes of its update.
#include "client/update_pipeline.h"

#include <cstring>
#include <limits>

#include "tests/client/scripted_server.h"

namespace skep::client::test {
namespace {

// Adds 1 to every value, and reports what it is told to.
class AddOne final : public Trainer {
 public:
  Result<TrainReport> Train(const TrainingPlan&, const TaskIdentity& task, const LocalData&,
                            std::span<float> params, BatchGate*) override {
    seen = task;
    if (failure) return *failure;
    for (float& value : params) value += 1;
    if (spoil) params[3] = *spoil;
    return report;
  }
  Result<EvaluationReport> Evaluate(const TrainingPlan&, const LocalData&,
                                    std::span<const float> params, BatchGate*) override {
    evaluated = params[0];
    return EvaluationReport{.examples = 40, .loss = 0.5, .accuracy = 0.75};
  }
  Result<TrainReport> TrainFrom(const TrainingPlan&, const TaskIdentity&, ExampleSource&,
                                std::span<float>, BatchGate*) override {
    return Error{7406, "not from a source", ""};
  }
  Result<EvaluationReport> EvaluateFrom(const TrainingPlan&, const TaskIdentity&, ExampleSource&,
                                        std::span<const float>, BatchGate*) override {
    return Error{7406, "not from a source", ""};
  }

  TrainReport report{.examples = 120, .steps = 12, .loss = 1.25};
  std::optional<Error> failure;
  std::optional<float> spoil;
  TaskIdentity seen;
  float evaluated = 0;
};

StartTraining MakeStart(wire::TaskKind kind = wire::TaskKind::kTrain) {
  StartTraining start;
  start.manifest = MakeTask(3, kind).manifest;
  start.wire_plan = std::make_shared<const wire::Plan>(MakePlan());
  start.plan = std::make_shared<const TrainingPlan>(ReadTrainingPlan(MakePlan()).value());
  start.model = MakeModel();
  start.client = 7;
  return start;
}

struct Run {
  AddOne trainer;
  model::FloatVector scratch;
  TrainReport report;
  Result<PendingUpdate> operator()(const StartTraining& start) {
    return RunTask(start, LocalData{}, trainer, scratch, nullptr, &report);
  }
};

TEST_CASE("an update is the difference from the received model, as floats", "[unit]") {
  Run run;
  const PendingUpdate update = run(MakeStart()).value();
  REQUIRE(update.body.bytes->size() == 60);
  std::vector<float> values(15);
  std::memcpy(values.data(), update.body.bytes->data(), 60);
  // The received values are tiny: received + 1 - received is 1.
  for (const float value : values) CHECK(value == 1.0F);
  CHECK(update.body.sha256 == Sha256::Of(*update.body.bytes));
  CHECK(update.encoding == wire::Encoding::kF32);
  CHECK(update.task == MakeTask(3).Ref());
  CHECK(update.layout == MakeTask().manifest.layout_sha256);
  CHECK(update.model == MakeModel().sha256);
  CHECK(update.id.IsZero());
}

TEST_CASE("weight and loss are those of the training", "[unit]") {
  Run run;
  const PendingUpdate update = run(MakeStart()).value();
  CHECK(update.weight == 120);
  CHECK(update.metrics == std::vector<wire::MetricValue>{{1, 1.25}});
  CHECK(run.report.steps == 12);
  CHECK(run.trainer.seen.client == 7);
  CHECK(run.trainer.seen.round == 3);
  CHECK(run.trainer.seen.round_seed == MakeTask().manifest.round_seed);
}

TEST_CASE("with equal weights the weight is one", "[unit]") {
  Run run;
  StartTraining start = MakeStart();
  TrainingPlan plan = *start.plan;
  plan.uniform_weighting = true;
  start.plan = std::make_shared<const TrainingPlan>(plan);
  start.manifest.max_weight = 1;
  CHECK(run(start).value().weight == 1);
}

TEST_CASE("more examples than the run lets weigh fail the task", "[unit]") {
  Run run;
  run.trainer.report.examples = 1001;
  CHECK(run(MakeStart()).error().code == 7413);
}

TEST_CASE("an update that is not finite is sent as it is, for the aggregator to refuse", "[unit]") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Run run;
    run.trainer.spoil = bad;
    CHECK(run(MakeStart()).has_value());
  }
}

TEST_CASE("a metric that is undefined or not in the plan is left out", "[unit]") {
  Run run;
  run.trainer.report.loss = std::numeric_limits<double>::quiet_NaN();
  CHECK(run(MakeStart()).value().metrics.empty());
  StartTraining start = MakeStart();
  wire::Plan plan = MakePlan();
  plan.metrics = {"accuracy"};
  start.wire_plan = std::make_shared<const wire::Plan>(plan);
  run.trainer.report.loss = 1;
  CHECK(run(start).value().metrics.empty());
}

TEST_CASE("an evaluation reports metrics and no body", "[unit]") {
  Run run;
  const PendingUpdate update = run(MakeStart(wire::TaskKind::kEvaluate)).value();
  CHECK(update.body.bytes->empty());
  CHECK(update.body.sha256 == Sha256::Of({}));
  CHECK(update.encoding == wire::Encoding::kNone);
  CHECK(update.weight == 40);
  CHECK(update.metrics == std::vector<wire::MetricValue>{{2, 0.5}, {3, 0.75}});
  float first = 0;
  std::memcpy(&first, MakeModel().bytes->data(), sizeof first);
  CHECK(run.trainer.evaluated == first);
}

TEST_CASE("errors of the trainer and a model of another size pass through", "[unit]") {
  Run run;
  run.trainer.failure = Error{7407, "stopped", ""};
  CHECK(run(MakeStart()).error().code == 7407);
  StartTraining start = MakeStart();
  start.model.bytes = std::make_shared<const Bytes>(56);
  CHECK(run(start).error().code == 2218);
}

}  // namespace
}  // namespace skep::client::test
