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

// A plan whose norm layer stays on the device; the model that travels holds 1, 2, 3, ...
StartTraining MakeOwnStart(wire::TaskKind kind = wire::TaskKind::kTrain) {
  wire::Plan plan = MakePlan();
  const auto model =
      model::ModelSpec::Parse({4}, {"norm batch", "dense 3"}).value().WithPrivateNorms().value();
  plan.layout.clear();
  for (const model::TensorSpec& tensor : model.layout()->tensors()) {
    plan.layout.push_back({.name = tensor.name,
                           .dtype = static_cast<wire::TensorType>(tensor.dtype),
                           .shape = tensor.shape,
                           .role = static_cast<wire::TensorRole>(tensor.role)});
  }
  plan.params.back().text = "norm batch";
  plan.params.push_back({.key = "model.layer.0002", .number = 0, .text = "dense 3"});
  StartTraining start = MakeStart(kind);
  start.wire_plan = std::make_shared<const wire::Plan>(plan);
  start.plan = std::make_shared<const TrainingPlan>(ReadTrainingPlan(plan).value());
  std::vector<float> values(15);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  const BytesView bytes = AsBytes(std::span<const float>(values));
  start.model.bytes = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  start.model.sha256 = Sha256::Of(bytes);
  return start;
}

std::vector<float> Floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_CASE("private tensors are put in before training and taken out after it, never sent",
          "[unit]") {
  Run run;
  StartTraining start = MakeOwnStart();
  const PendingUpdate first = run(start).value();
  CHECK(Floats(*first.body.bytes) == std::vector<float>(15, 1.0F));
  REQUIRE(first.own != nullptr);
  // AddOne adds 1 to weight 1, bias 0, mean 0 and variance 1.
  CHECK(Floats(*first.own) == std::vector<float>{2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2});
  start.own = first.own;
  const PendingUpdate second = run(start).value();
  CHECK(*second.body.bytes == *first.body.bytes);
  CHECK(Floats(*second.own) == std::vector<float>{3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3});
}

TEST_CASE("an evaluation is of the personal model, and keeps nothing", "[unit]") {
  Run run;
  StartTraining start = MakeOwnStart(wire::TaskKind::kEvaluate);
  CHECK(run(start).value().own == nullptr);
  CHECK(run.trainer.evaluated == 1);  // norm1.weight comes first
  const std::vector<float> own(16, 7.0F);
  const BytesView bytes = AsBytes(std::span<const float>(own));
  start.own = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  CHECK(run(start).value().own == nullptr);
  CHECK(run.trainer.evaluated == 7);
}

TEST_CASE("private tensors that are not finite fail the task: nobody else would see them",
          "[unit]") {
  Run run;
  run.trainer.spoil = std::numeric_limits<float>::quiet_NaN();  // of norm1.weight
  CHECK(run(MakeOwnStart()).error().code == 7406);
}

TEST_CASE("a plan whose private tensors are not its norm layers' is declined", "[unit]") {
  wire::Plan plan = *MakeOwnStart().wire_plan;
  plan.layout.back().role = wire::TensorRole::kPrivate;  // fc1.bias
  CHECK(ReadTrainingPlan(plan).error().code == 2219);
  plan = MakePlan();
  plan.layout.back().role = wire::TensorRole::kPrivate;
  CHECK(ReadTrainingPlan(plan).error().code == 2219);
  plan = *MakeOwnStart().wire_plan;
  plan.layout.front().role = wire::TensorRole::kAveraged;
  CHECK(ReadTrainingPlan(plan).error().code == 2219);
}

TEST_CASE("of several private states the one that was included is gone on from", "[unit]") {
  PrivateHistory history;
  const auto tensors = [](std::uint8_t value) { return std::make_shared<const Bytes>(4, value); };
  CHECK(history.GoOnFrom(std::nullopt) == nullptr);
  history.Keep(MakeId<UpdateId>(1), tensors(1));
  history.Keep(MakeId<UpdateId>(2), tensors(2));
  CHECK(*history.GoOnFrom(MakeId<UpdateId>(1)) == *tensors(1));
  CHECK(history.Of(MakeId<UpdateId>(2)) == nullptr);
  CHECK(*history.GoOnFrom(MakeId<UpdateId>(1)) == *tensors(1));
  CHECK(history.GoOnFrom(MakeId<UpdateId>(3)) == nullptr);
  CHECK(history.GoOnFrom(MakeId<UpdateId>(1)) == nullptr);
}

}  // namespace
}  // namespace skep::client::test
