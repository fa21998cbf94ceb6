// What a plan says to the trainer, and the plans that are declined.
#include "client/trainer.h"
#include "tests/client/scripted_server.h"

namespace skep::client::test {
namespace {

void Set(wire::Plan& plan, const std::string& key, double number, const std::string& text = "") {
  for (wire::Param& param : plan.params) {
    if (param.key != key) continue;
    param.number = number;
    param.text = text;
    return;
  }
  plan.params.push_back({.key = key, .number = number, .text = text});
}

// The number of the error; 0 if the plan is accepted.
int CodeOf(const wire::Plan& plan) {
  const auto read = ReadTrainingPlan(plan);
  return read ? 0 : read.error().code;
}
int CodeWith(const std::string& key, double number, const std::string& text = "") {
  wire::Plan plan = MakePlan();
  Set(plan, key, number, text);
  return CodeOf(plan);
}

TEST_CASE("a plan's parameters are read", "[unit]") {
  wire::Plan plan = MakePlan();
  Set(plan, "client.momentum", 0.9);
  Set(plan, "client.nesterov", 1);
  Set(plan, "client.weight_decay", 0.01);
  Set(plan, "client.gradient_clip", 5);
  Set(plan, "client.batch_tail", 0, "merge");
  Set(plan, "training.weighting", 0, "uniform");
  const TrainingPlan read = ReadTrainingPlan(plan).value();
  CHECK(read.learning_rate == 0.5);
  CHECK(read.batch_size == 4);
  CHECK(read.local_epochs == 1);
  CHECK(read.local_steps == 0);
  CHECK(read.momentum == 0.9);
  CHECK(read.nesterov);
  CHECK(read.weight_decay == 0.01);
  CHECK(read.gradient_clip == 5);
  CHECK(read.merge_tail);
  CHECK(read.uniform_weighting);
  CHECK(read.model.outputs() == 3);
}

TEST_CASE("the optimiser and the loss are read", "[unit]") {
  const auto read = [](const std::string& key, const std::string& text) {
    wire::Plan plan = MakePlan();
    Set(plan, key, 0, text);
    return ReadTrainingPlan(plan).value();
  };
  CHECK(read("client.optimizer", "sgd").rule == kernels::Rule::kSgd);
  CHECK(read("client.optimizer", "adam").rule == kernels::Rule::kAdam);
  CHECK(read("client.optimizer", "adamw").rule == kernels::Rule::kAdamW);
  CHECK(read("model.loss", "auto").loss == kernels::LossKind::kSoftmaxCrossEntropy);
  CHECK(read("model.loss", "cross_entropy").loss == kernels::LossKind::kSoftmaxCrossEntropy);
  CHECK(read("model.loss", "mse").loss == kernels::LossKind::kMeanSquaredError);
  CHECK(read("model.loss", "binary_cross_entropy").loss == kernels::LossKind::kSigmoidCrossEntropy);
}

TEST_CASE("momentum with an adaptive optimiser is declined", "[unit]") {
  wire::Plan plan = MakePlan();
  Set(plan, "client.optimizer", 0, "adam");
  CHECK(CodeOf(plan) == 0);
  Set(plan, "client.momentum", 0.9);
  CHECK(CodeOf(plan) == 2219);
}

// A plan of these layers over four values, with their own layout.
wire::Plan PlanOf(const std::vector<std::string>& lines) {
  wire::Plan plan = MakePlan();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Set(plan, "model.layer.000" + std::to_string(i + 1), 0, lines[i]);
  }
  plan.layout.clear();
  const auto model = model::ModelSpec::Parse({4}, lines).value();
  for (const model::TensorSpec& tensor : model.layout()->tensors()) {
    plan.layout.push_back({.name = tensor.name, .shape = tensor.shape});
  }
  return plan;
}

TEST_CASE("batch norm with batches of one row is declined", "[unit]") {
  wire::Plan plan = PlanOf({"norm batch", "dense 3"});
  CHECK(CodeOf(plan) == 0);
  Set(plan, "client.batch_size", 1);
  CHECK(CodeOf(plan) == 2219);
}

TEST_CASE("one output tells two classes apart, but not by a softmax", "[unit]") {
  wire::Plan plan = PlanOf({"dense 1"});
  plan.data = wire::DataSpec{.classes = {"no", "yes"}};
  CHECK(CodeOf(plan) == 2219);
  Set(plan, "model.loss", 0, "binary_cross_entropy");
  CHECK(CodeOf(plan) == 0);
  CHECK(ReadTrainingPlan(plan).value().Classes() == 2);
}

TEST_CASE("next tokens are classes at every place", "[unit]") {
  wire::Plan plan = PlanOf({"embedding 2 symbols 3", "dense 3"});
  plan.data = wire::DataSpec{.task = wire::DataTask::kNextToken, .classes = {"a", "b", "c"}};
  Set(plan, "data.task", 0, "next_token");
  const TrainingPlan read = ReadTrainingPlan(plan).value();
  CHECK(read.model.positions() == 4);
  CHECK(read.Classes() == 3);
}

TEST_CASE("a batch of one row is found before it is met", "[unit]") {
  TrainingPlan plan = ReadTrainingPlan(MakePlan()).value();
  const auto has_one = [&](std::size_t rows) { return HasSingleRowBatch(plan, rows); };
  plan.batch_size = 10;
  CHECK(has_one(1));
  CHECK(has_one(21));
  CHECK_FALSE(has_one(20));
  CHECK_FALSE(has_one(22));
  plan.local_epochs = 0;
  plan.local_steps = 2;  // ends before the last batch
  CHECK_FALSE(has_one(21));
  plan.local_steps = 3;
  CHECK(has_one(21));
  plan.merge_tail = true;
  CHECK_FALSE(has_one(21));
  CHECK(has_one(1));
  plan.batch_size = 1;
  CHECK(has_one(2));
  plan.batch_size = 0;
  CHECK_FALSE(has_one(2));
}

TEST_CASE("layers are read in order, whatever else the plan says", "[unit]") {
  wire::Plan plan = MakePlan();
  Set(plan, "model.input", 0, "1,2,2");
  Set(plan, "model.layer.0001", 0, "flatten");
  Set(plan, "model.layer.0002", 0, "dense 3");
  Set(plan, "model.architecture", 0, "layers");
  Set(plan, "client.num_classes", 3);
  const auto read = ReadTrainingPlan(plan);
  REQUIRE(read.has_value());
  CHECK(read->model.lines() == std::vector<std::string>{"flatten", "dense 3"});
}

TEST_CASE("a plan that asks for more than this client has is declined", "[unit]") {
  CHECK(CodeWith("client.proximal_mu", 0) == 0);
  CHECK(CodeWith("client.proximal_mu", 0.1) == 2219);
  CHECK(CodeWith("training.feddyn_alpha", 0.1) == 2219);
  CHECK(CodeWith("training.algorithm", 0, "scaffold") == 2219);
  CHECK(CodeWith("client.optimizer", 0, "rmsprop") == 2219);
  CHECK(CodeWith("client.batch_tail", 0, "drop") == 2219);
  CHECK(CodeWith("training.weighting", 0, "losses") == 2219);
  CHECK(CodeWith("model.loss", 0, "hinge") == 2219);
  CHECK(CodeWith("data.task", 0, "regression") == 2219);
  CHECK(CodeWith("unknown.key", 0, "text") == 2219);
  CHECK(CodeWith("model.layer.0001", 0, "conv2d 3 5") == 2219);
  wire::Plan regression = MakePlan();
  regression.data = wire::DataSpec{.task = wire::DataTask::kRegression};
  CHECK(CodeOf(regression) == 2219);
  wire::Plan newer = MakePlan();
  newer.schema = 2;
  CHECK(CodeOf(newer) == 2219);
}

TEST_CASE("numbers outside their limits are declined", "[unit]") {
  CHECK(CodeWith("client.learning_rate", 0) == 2219);
  CHECK(CodeWith("client.learning_rate", -1) == 2219);
  CHECK(CodeWith("client.learning_rate", 1001) == 2219);
  CHECK(CodeWith("client.batch_size", 2.5) == 2219);
  CHECK(CodeWith("client.batch_size", 0) == 0);
  CHECK(CodeWith("client.batch_size", 1e7) == 2219);
  CHECK(CodeWith("client.local_epochs", 0) == 2219);
  CHECK(CodeWith("client.local_epochs", 1001) == 2219);
  CHECK(CodeWith("client.local_steps", 5) == 2219);  // beside local_epochs
  CHECK(CodeWith("client.momentum", 1) == 2219);
  CHECK(CodeWith("client.nesterov", 1) == 2219);  // without momentum
  CHECK(CodeWith("client.weight_decay", 2) == 2219);
  CHECK(CodeWith("client.gradient_clip", -1) == 2219);
}

TEST_CASE("a layout that is not that of the layers is declined", "[unit]") {
  wire::Plan renamed = MakePlan();
  renamed.layout[0].name = "other";
  CHECK(CodeOf(renamed) == 2219);
  wire::Plan reshaped = MakePlan();
  reshaped.layout[0].shape = {4, 3};
  CHECK(CodeOf(reshaped) == 2219);
  wire::Plan one_way = MakePlan();
  one_way.layout[0].role = wire::TensorRole::kToClient;
  CHECK(CodeOf(one_way) == 2219);
  wire::Plan missing = MakePlan();
  missing.layout.pop_back();
  CHECK(CodeOf(missing) == 2219);
}

TEST_CASE("an input that cannot be read is declined", "[unit]") {
  for (const char* input : {"", "0", "4,", ",4", "four", "4x1", "99999999999"}) {
    INFO(input);
    CHECK(CodeWith("model.input", 0, input) == 2219);
  }
}

TEST_CASE("outputs and classes must agree", "[unit]") {
  wire::Plan plan = MakePlan();
  plan.data = wire::DataSpec{.classes = {"a", "b", "c"}};
  CHECK(CodeOf(plan) == 0);
  plan.data->classes.push_back("d");
  CHECK(CodeOf(plan) == 2219);
}

}  // namespace
}  // namespace skep::client::test
