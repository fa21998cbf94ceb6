// From an experiment to a run: plan, limits, schedules; and the jobs that a run gives.
#include <cmath>

#include "aggregator/evaluator.h"
#include "client/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

config::Experiment Small() {
  config::Experiment experiment;
  experiment.name = "small";
  experiment.model.architecture = "softmax";
  experiment.model.init = "zeros";
  experiment.training.rounds = 10;
  experiment.training.clients_per_round = 4;
  experiment.training.invited = 6;
  experiment.training.min_reports = 2;
  experiment.training.metrics = {"accuracy", "loss"};
  return experiment;
}

RunInputs Inputs() {
  RunInputs inputs;
  inputs.population = "bees";
  inputs.seed = 42;
  inputs.data.features = {{.name = "x", .categories = {}}};
  inputs.data.classes = {"a", "b", "c"};
  inputs.input_shape = {4};
  inputs.has_test_data = true;
  return inputs;
}

const wire::Param* Find(const wire::Plan& plan, const std::string& key) {
  for (const wire::Param& param : plan.params) {
    if (param.key == key) return &param;
  }
  return nullptr;
}

TEST_CASE("the plan carries the model, the trainer's parameters and the metric names", "[unit]") {
  const RunSpec spec = MakeRunSpec(Small(), Inputs()).value();
  REQUIRE(Find(spec.plan, "model.layer.0001") != nullptr);
  CHECK(Find(spec.plan, "model.layer.0001")->text == "dense 3");
  CHECK(Find(spec.plan, "model.input")->text == "4");
  CHECK(Find(spec.plan, "client.learning_rate")->number == 0.1);
  CHECK(Find(spec.plan, "training.weighting")->text == "examples");
  CHECK(spec.plan.metrics == std::vector<std::string>{"train_loss", "accuracy", "loss"});
  CHECK(spec.plan.data->classes == std::vector<std::string>{"a", "b", "c"});
  CHECK(spec.admission.max_weight == 1'048'576);
}

TEST_CASE("a client can read the plan that a run makes", "[unit]") {
  config::Experiment experiment = Small();
  experiment.client.momentum = 0.9;
  experiment.client.nesterov = true;
  experiment.client.batch_size = 0;
  const RunSpec spec = MakeRunSpec(experiment, Inputs()).value();
  const auto plan = client::ReadTrainingPlan(spec.plan);
  REQUIRE(plan.has_value());
  CHECK(plan.value().model.layout()->hash() == spec.model.layout()->hash());
  CHECK(plan.value().batch_size == 0);
  CHECK(plan.value().local_epochs == 1);
  CHECK(plan.value().nesterov);
  CHECK_FALSE(plan.value().uniform_weighting);
}

TEST_CASE("uniform weighting allows a weight of 1 only", "[unit]") {
  config::Experiment experiment = Small();
  experiment.training.weighting = config::Weighting::kUniform;
  const RunSpec spec = MakeRunSpec(experiment, Inputs()).value();
  CHECK(spec.admission.max_weight == 1);
  CHECK(Find(spec.plan, "training.weighting")->text == "uniform");
}

TEST_CASE("limits that leave too few bits are refused when the run is made", "[unit]") {
  config::Experiment experiment = Small();
  experiment.admission.max_norm = 1e12;
  const auto spec = MakeRunSpec(experiment, Inputs());
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().code == 5304);
}

TEST_CASE("a model that does not fit the data is refused by name", "[unit]") {
  config::Experiment other_input = Small();
  other_input.model.input = {5};
  config::Experiment other_classes = Small();
  other_classes.model.classes = 7;
  config::Experiment other_outputs = Small();
  other_outputs.model.architecture = "layers";
  other_outputs.model.layers = {"dense 2"};
  for (const config::Experiment& experiment : {other_input, other_classes, other_outputs}) {
    const auto spec = MakeRunSpec(experiment, Inputs());
    REQUIRE_FALSE(spec.has_value());
    CHECK(spec.error().code == 1301);
  }
}

TEST_CASE("every choice of the optimiser and the loss reaches the client", "[unit]") {
  config::Experiment experiment = Small();
  experiment.client.optimizer = "adamw";
  experiment.client.weight_decay = 0.01;
  experiment.client.gradient_clip = 2;
  experiment.model.loss = "mse";
  const RunSpec spec = MakeRunSpec(experiment, Inputs()).value();
  CHECK(spec.loss == kernels::LossKind::kMeanSquaredError);
  const client::TrainingPlan plan = client::ReadTrainingPlan(spec.plan).value();
  CHECK(plan.rule == kernels::Rule::kAdamW);
  CHECK(plan.loss == kernels::LossKind::kMeanSquaredError);
  CHECK(plan.weight_decay == 0.01);
  CHECK(plan.gradient_clip == 2);
  CHECK(Find(MakeRunSpec(Small(), Inputs()).value().plan, "model.loss")->text == "cross_entropy");
}

TEST_CASE("activation and normalization stand in the plan as lines", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "mlp";
  experiment.model.hidden = {8};
  experiment.model.activation = "tanh";
  experiment.model.normalization = "batch";
  const RunSpec spec = MakeRunSpec(experiment, Inputs()).value();
  CHECK(spec.model.lines() == std::vector<std::string>{"dense 8", "norm batch", "tanh", "dense 3"});
  CHECK(client::ReadTrainingPlan(spec.plan).has_value());
}

TEST_CASE("an embedding without symbols has as many as classes, and the plan says so", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"embedding 2", "dense 3"};
  RunInputs inputs = Inputs();
  inputs.data.task = data::Task::kNextToken;
  inputs.labels_per_row = 4;
  const RunSpec spec = MakeRunSpec(experiment, inputs).value();
  CHECK(Find(spec.plan, "model.layer.0001")->text == "embedding 2 symbols 3");
  CHECK(Find(spec.plan, "data.task")->text == "next_token");
  CHECK(client::ReadTrainingPlan(spec.plan).value().model.positions() == 4);
  experiment.model.layers = {"embedding 2 symbols 9", "dense 3"};
  CHECK(MakeRunSpec(experiment, inputs).value().model.input_symbols() == 9);
  experiment.model.layers = {"\t embedding  2 ", "dense 3"};
  CHECK(MakeRunSpec(experiment, inputs).value().model.lines()[0] == "embedding 2 symbols 3");
}

TEST_CASE("an embedding of fewer symbols than the data is refused when the run is made", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"embedding 2 symbols 2", "dense 3"};
  RunInputs inputs = Inputs();
  inputs.data.task = data::Task::kNextToken;
  inputs.labels_per_row = 4;
  const auto spec = MakeRunSpec(experiment, inputs);
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().code == 1301);
  CHECK(spec.error().message ==
        "model.layers, line 1 \"embedding 2 symbols 2\": 2 symbols for data of 3 symbols");
  CHECK(spec.error().hint == "leave \"symbols\" out: the data say it");
}

TEST_CASE("a preset whose lines do not fit is named, with one output in the singular", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "lenet";
  RunInputs inputs = Inputs();
  inputs.input_shape = {1, 2, 2};
  CHECK(MakeRunSpec(experiment, inputs)
            .error()
            .message.starts_with(
                "model.architecture = \"lenet\": model.layers, line 1 \"conv 6 5x5\": its window"));
  experiment.model.architecture = "layers";
  experiment.model.layers = {"dense 1"};
  const Error error = MakeRunSpec(experiment, Inputs()).error();
  CHECK(error.message == "model.layers: the model has 1 output for 3 classes");
  CHECK(error.hint == "end with \"dense 3\"");
}

TEST_CASE("a model that the machine has no memory for is refused before it is made", "[unit]") {
  constexpr std::uint64_t kFree = std::uint64_t{4} << 30U;
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"dense 1000000000", "dense 3"};
  experiment.model.init = "fan-in";
  const RunSpec spec = MakeRunSpec(experiment, Inputs()).value();
  const auto refused = MakeInitialModel(experiment, spec.model, 42, nullptr, kFree);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 1401);
  CHECK(refused.error().message ==
        "a run of 8000000003 parameters needs 208.6 GiB; 80 % of the free memory is 3.2 GiB");
  // A file is not read either.
  experiment.model.initial_model = "missing.safetensors";
  CHECK(MakeInitialModel(experiment, spec.model, 42, nullptr, kFree).error().code == 1401);
  const RunSpec small = MakeRunSpec(Small(), Inputs()).value();
  CHECK(MakeInitialModel(Small(), small.model, 42, nullptr, kFree).has_value());
}

TEST_CASE("a model that answers at more places than the data have labels is refused", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"embedding 2", "dense 3"};
  RunInputs inputs = Inputs();
  inputs.labels_per_row = 1;
  const auto spec = MakeRunSpec(experiment, inputs);
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().code == 1301);
  CHECK(spec.error().message ==
        "the model answers at 4 places of an example, the data have 1 label");
}

TEST_CASE("batch norm with a batch size of one is refused", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"norm batch", "dense 3"};
  CHECK(MakeRunSpec(experiment, Inputs()).has_value());
  experiment.client.batch_size = 1;
  const auto spec = MakeRunSpec(experiment, Inputs());
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().code == 1303);
}

TEST_CASE("fedbn keeps norm layers on the devices, and evaluates no model without them", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"dense 3", "norm batch", "dense 3"};
  const RunSpec shared = MakeRunSpec(experiment, Inputs()).value();
  CHECK(IsWhole(shared.model));
  CHECK(shared.evaluation.has_test_data);
  CHECK(PersonalNotes(shared).empty());
  experiment.personalization.method = "fedbn";
  const RunSpec own = MakeRunSpec(experiment, Inputs()).value();
  CHECK_FALSE(IsWhole(own.model));
  CHECK_FALSE(own.evaluation.has_test_data);
  CHECK(PersonalNotes(own).size() == 2);
  std::size_t kept = 0;
  for (const wire::TensorSpec& tensor : own.plan.layout) {
    const bool is_private = tensor.role == wire::TensorRole::kPrivate;
    CHECK(is_private == (tensor.name.find("norm1.") == 0));
    kept += is_private ? 1U : 0U;
  }
  CHECK(kept == 4);
  const auto read = client::ReadTrainingPlan(own.plan);
  REQUIRE(read.has_value());
  CHECK(read->model.layout()->hash() == own.model.layout()->hash());
  experiment.training.patience = 2;
  CHECK(MakeRunSpec(experiment, Inputs()).error().code == 1103);
  experiment.training.patience = 0;
  experiment.model.layers = {"dense 3"};
  CHECK(MakeRunSpec(experiment, Inputs()).error().code == 1103);
}

TEST_CASE("one output is for two classes and another loss than a softmax's", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"dense 1"};
  RunInputs inputs = Inputs();
  inputs.data.classes = {"no", "yes"};
  CHECK(MakeRunSpec(experiment, inputs).error().code == 1301);
  experiment.model.loss = "binary_cross_entropy";
  CHECK(MakeRunSpec(experiment, inputs).has_value());
  inputs.data.classes = {"a", "b", "c"};
  CHECK(MakeRunSpec(experiment, inputs).error().code == 1301);
}

TEST_CASE("a plan that is too large is refused when the run is made", "[unit]") {
  RunInputs inputs = Inputs();
  inputs.data.classes.clear();
  for (int i = 0; i < 2000; ++i) {
    inputs.data.classes.push_back("a class with a rather long name " + std::to_string(i));
  }
  const auto spec = MakeRunSpec(Small(), inputs);
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().code == 5307);
}

TEST_CASE("a schedule gives each round its own learning rate", "[unit]") {
  config::Experiment experiment = Small();
  experiment.client.schedule = config::Schedule::kStep;
  experiment.client.learning_rate_decay = 0.5;
  experiment.client.decay_every = 3;
  const RunSpec step = MakeRunSpec(experiment, Inputs()).value();
  const auto rate = [](const RunSpec& spec, std::uint32_t round) {
    return Find(PlanForRound(spec, round), "client.learning_rate")->number;
  };
  CHECK(rate(step, 1) == 0.1);
  CHECK(rate(step, 3) == 0.1);
  CHECK(rate(step, 4) == 0.05);
  CHECK(rate(step, 7) == 0.025);
  experiment.client.schedule = config::Schedule::kExponential;
  const RunSpec exponential = MakeRunSpec(experiment, Inputs()).value();
  CHECK(rate(exponential, 4) == 0.05);
  CHECK(rate(exponential, 2) == Approx(0.1 * std::pow(0.5, 1.0 / 3)));
  experiment.client.schedule = config::Schedule::kCosine;
  const RunSpec cosine = MakeRunSpec(experiment, Inputs()).value();
  CHECK(rate(cosine, 1) == 0.1);
  CHECK(rate(cosine, 6) == Approx(0.05));
}

TEST_CASE("clients evaluate only if rows are held out on them", "[unit]") {
  config::Experiment experiment = Small();
  CHECK(MakeRunSpec(experiment, Inputs()).value().evaluation.client_eval_every == 0);
  experiment.data.client_test_fraction = 0.1;
  CHECK(MakeRunSpec(experiment, Inputs()).value().evaluation.client_eval_every == 10);
}

data::Dataset TestData() {
  data::Dataset test;
  test.input_shape = {4};
  test.rows = 1000;
  test.values = 4;
  for (std::size_t i = 0; i < test.rows * test.values; ++i) {
    test.floats.push_back(std::sin(static_cast<float>(i)));
  }
  for (std::size_t i = 0; i < test.rows; ++i) {
    test.labels.push_back(static_cast<std::int32_t>(i % 3));
  }
  return test;
}

TEST_CASE("an untrained softmax of three classes has the loss ln 3", "[unit]") {
  const RunSpec spec = MakeRunSpec(Small(), Inputs()).value();
  const model::Params zeros = MakeInitialModel(Small(), spec.model, 42).value();
  const auto evaluator = MakeEvaluator(std::make_shared<const data::Dataset>(TestData()),
                                       kernels::Isa::kPortable, nullptr);
  const Evaluated evaluated = evaluator->Evaluate(spec, zeros).value();
  REQUIRE(evaluated.metrics.size() == 2);
  CHECK(evaluated.examples == 1000);
  CHECK(evaluated.metrics[0].name == "accuracy");
  CHECK(evaluated.metrics[0].value == 0.334);  // class 0 wins a draw
  CHECK(evaluated.metrics[1].name == "loss");
  CHECK(evaluated.metrics[1].value == Approx(std::log(3.0)).epsilon(1e-7));
}

TEST_CASE("the number of workers does not change a bit of an evaluation", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.init = "fan-in";
  const RunSpec spec = MakeRunSpec(experiment, Inputs()).value();
  const model::Params params = MakeInitialModel(experiment, spec.model, 42).value();
  const auto test = std::make_shared<const data::Dataset>(TestData());
  const auto alone = MakeEvaluator(test, kernels::Isa::kPortable, nullptr);
  const Evaluated expected = alone->Evaluate(spec, params).value();
  for (const std::size_t workers : {1U, 2U, 4U}) {
    ThreadPool pool(workers);
    const auto evaluator = MakeEvaluator(test, kernels::Isa::kPortable, &pool);
    const Evaluated evaluated = evaluator->Evaluate(spec, params).value();
    CHECK(evaluated.metrics[0].value == expected.metrics[0].value);
    CHECK(evaluated.metrics[1].value == expected.metrics[1].value);
  }
}

// Symbols 0, 1, 2 in turn, each with the next one as its label.
data::Dataset TextData(std::size_t rows) {
  data::Dataset text;
  text.input_shape = {4};
  text.rows = rows;
  text.values = 4;
  text.labels_per_row = 4;
  for (std::size_t i = 0; i < rows * 4; ++i) {
    text.floats.push_back(static_cast<float>(i % 3));
    text.labels.push_back(static_cast<std::int32_t>((i + 1) % 3));
  }
  return text;
}

TEST_CASE("only labels that count are evaluated, at every place", "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"embedding 2", "dense 3"};
  experiment.model.init = "zeros";
  const RunSpec spec = MakeRunSpec(experiment, Inputs()).value();
  const model::Params zeros = MakeInitialModel(experiment, spec.model, 42).value();
  const auto evaluate = [&](const data::Dataset& text) {
    return MakeEvaluator(std::make_shared<const data::Dataset>(text), kernels::Isa::kPortable,
                         nullptr)
        ->Evaluate(spec, zeros);
  };
  data::Dataset text = TextData(300);
  // Class 0 wins a draw: only places with another label are left.
  for (std::int32_t& label : text.labels) label = label == 0 ? -1 : label;
  const Evaluated evaluated = evaluate(text).value();
  CHECK(evaluated.examples == 300);
  CHECK(evaluated.metrics[0].value == 0);
  CHECK(evaluated.metrics[1].value == Approx(std::log(3.0)).epsilon(1e-7));
  text.floats[5] = 3;
  CHECK(evaluate(text).error().code == 1301);
  text.floats[5] = 0.5F;
  CHECK(evaluate(text).error().message == "the test data hold a symbol beyond the model's");
  CHECK(evaluate(TestData()).error().code == 1301);  // one label a row
  for (std::int32_t& label : text.labels) label = -1;
  text.floats[5] = 0;
  CHECK(evaluate(text).value().metrics.empty());
}

TEST_CASE("a symbol of the test part alone does not count, also where an example has one place",
          "[unit]") {
  config::Experiment experiment = Small();
  experiment.model.architecture = "layers";
  experiment.model.layers = {"embedding 2", "dense 3"};
  RunInputs inputs = Inputs();
  inputs.data.task = data::Task::kNextToken;
  inputs.input_shape = {1};
  inputs.labels_per_row = 1;
  const RunSpec spec = MakeRunSpec(experiment, inputs).value();
  const model::Params zeros = MakeInitialModel(experiment, spec.model, 42).value();
  data::Dataset text;
  text.input_shape = {1};
  text.rows = 4;
  text.values = 1;
  text.floats = {0, 1, 2, 0};
  text.labels = {0, -1, 0, 1};
  const auto evaluated =
      MakeEvaluator(std::make_shared<const data::Dataset>(text), kernels::Isa::kPortable, nullptr)
          ->Evaluate(spec, zeros);
  REQUIRE(evaluated.has_value());
  CHECK(evaluated->metrics[0].value == Approx(2.0 / 3));  // class 0 wins a draw, of three places
}

// A driver without models and bodies.
class Nothing final : public ModelSource, public BodySource {
 public:
  Result<model::ParamsPtr> Model(const Hash32&) override { return Error{4008, "missing", ""}; }
  Status Keep(model::ParamsPtr, const Hash32&) override { return Error{4001, "full", ""}; }
  std::shared_ptr<const Bytes> Body(UploadNumber) override { return nullptr; }
};

TEST_CASE("jobs without what they need fail by number", "[unit]") {
  const auto spec = test::SmallRun({});
  Nothing nothing;
  JobRunner runner(nothing, nothing);
  const AttemptKey key{.run = spec->id, .round = 1, .kind = TaskKind::kTrain, .attempt = 1};
  const auto code = [&](const Job& job) { return std::get<Error>(runner.Run(job)).code; };
  CHECK(code(FoldJob{key, {}}) == 9001);  // a run that was not added
  runner.AddRun(spec, nullptr);
  UpdateRow row;
  row.upload = 1;
  CHECK(code(FoldJob{key, {row}}) == 4007);
  CHECK(code(FinishJob{key, spec->initial_model}) == 4008);
  CHECK(std::holds_alternative<JobOk>(runner.Run(ReleaseJob{key})));
  CHECK(code(FinishJob{key, spec->initial_model}) == 2202);  // nothing was added
  CHECK(code(EvaluateJob{spec->id, 1, spec->initial_model}) == 9001);
}

TEST_CASE("test data that do not fit the model are 1301", "[unit]") {
  const RunSpec spec = MakeRunSpec(Small(), Inputs()).value();
  const model::Params params = MakeInitialModel(Small(), spec.model, 42).value();
  data::Dataset other = TestData();
  other.labels[999] = 3;
  const auto evaluator =
      MakeEvaluator(std::make_shared<const data::Dataset>(other), kernels::Isa::kPortable, nullptr);
  const auto evaluated = evaluator->Evaluate(spec, params);
  REQUIRE_FALSE(evaluated.has_value());
  CHECK(evaluated.error().code == 1301);
}

}  // namespace
}  // namespace skep::aggregator
