// From a plan's parameters to a TrainingPlan, and what this client declines.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "client/trainer.h"
#include "shared/base/try.h"

namespace skep::client {
namespace {

constexpr double kLargestBatch = 1'000'000;
constexpr double kMostSteps = 1'000'000;
constexpr double kMostEpochs = 1'000;

Error NotSupported(std::string message) {
  return Error{2219, std::move(message), ""};
}

const wire::Param* Find(const wire::Plan& plan, std::string_view key) {
  for (const wire::Param& param : plan.params) {
    if (param.key == key) return &param;
  }
  return nullptr;
}

double Number(const wire::Plan& plan, std::string_view key) {
  const wire::Param* param = Find(plan, key);
  return param == nullptr ? 0 : param->number;
}

std::string_view Text(const wire::Plan& plan, std::string_view key) {
  const wire::Param* param = Find(plan, key);
  return param == nullptr ? std::string_view() : std::string_view(param->text);
}

// A whole number in [0, largest].
Result<std::uint32_t> Count(const wire::Plan& plan, std::string_view key, double largest) {
  const double number = Number(plan, key);
  if (!(number >= 0 && number <= largest) || std::floor(number) != number) {
    return NotSupported(std::string(key) + " is not a whole number within its limits");
  }
  return static_cast<std::uint32_t>(number);
}

Result<double> InRange(const wire::Plan& plan, std::string_view key, double least, double most) {
  const double number = Number(plan, key);
  if (!(number >= least && number <= most)) {
    return NotSupported(std::string(key) + " is outside its limits");
  }
  return number;
}

// A text must be one of those this client knows; absent is the first.
Status OneOf(const wire::Plan& plan, std::string_view key,
             std::initializer_list<std::string_view> known) {
  const std::string_view text = Text(plan, key);
  if (text.empty() || std::find(known.begin(), known.end(), text) != known.end()) return Ok();
  return NotSupported(std::string(key) + " \"" + std::string(text) + "\" is not in this client");
}

// Parameters that ask for nothing beyond what ReadTrainingPlan looks at.
bool IsKnown(std::string_view key) {
  constexpr std::array<std::string_view, 19> kKnown{"client.learning_rate",
                                                    "client.batch_size",
                                                    "client.local_epochs",
                                                    "client.local_steps",
                                                    "client.momentum",
                                                    "client.nesterov",
                                                    "client.weight_decay",
                                                    "client.gradient_clip",
                                                    "client.batch_tail",
                                                    "client.optimizer",
                                                    "client.num_classes",
                                                    "client.number",
                                                    "training.algorithm",
                                                    "training.weighting",
                                                    "model.loss",
                                                    "model.architecture",
                                                    "model.input",
                                                    "data.task",
                                                    "data.spec"};
  return std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end() ||
         key.starts_with("model.layer.") || key.starts_with("model.init.");
}

Status CheckTexts(const wire::Plan& plan) {
  for (const wire::Param& param : plan.params) {
    if (!IsKnown(param.key) && (param.number != 0 || !param.text.empty())) {
      return NotSupported(param.key + " is not in this client");
    }
  }
  SKEP_TRY(OneOf(plan, "training.algorithm", {"fedavg"}));
  SKEP_TRY(OneOf(plan, "training.weighting", {"examples", "uniform"}));
  SKEP_TRY(OneOf(plan, "client.optimizer", {"sgd", "adam", "adamw"}));
  SKEP_TRY(OneOf(plan, "client.batch_tail", {"keep", "merge"}));
  SKEP_TRY(OneOf(plan, "model.loss", {"auto", "cross_entropy", "mse", "binary_cross_entropy"}));
  return OneOf(plan, "data.task", {"classification", "next_token"});
}

// "1,28,28"
Result<std::vector<std::uint32_t>> ReadShape(std::string_view text) {
  std::vector<std::uint32_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::uint32_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size == 0) return NotSupported("model.input cannot be read");
    shape.push_back(size);
    if (next == end) return shape;
    if (*next != ',') return NotSupported("model.input cannot be read");
    at = next + 1;
  }
}

Result<model::ModelSpec> ReadModel(const wire::Plan& plan) {
  SKEP_ASSIGN(std::vector<std::uint32_t> input, ReadShape(Text(plan, "model.input")));
  std::vector<std::string> lines;
  for (std::size_t i = 1;; ++i) {
    const std::string digits = std::to_string(i);
    const std::string key =
        "model.layer." + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
    const wire::Param* line = Find(plan, key);
    if (line == nullptr) break;
    lines.push_back(line->text);
  }
  Result<model::ModelSpec> model = model::ModelSpec::Parse(std::move(input), std::move(lines));
  if (!model) return NotSupported(model.error().message);
  const bool keeps_norms = std::any_of(
      plan.layout.begin(), plan.layout.end(),
      [](const wire::TensorSpec& tensor) { return tensor.role == wire::TensorRole::kPrivate; });
  if (!keeps_norms) return model;
  // Whether these are the only ones is seen when the layouts are compared.
  model = model->WithPrivateNorms();
  if (!model) return NotSupported(model.error().message);
  return model;
}

bool IsSameTensor(const wire::TensorSpec& ours, const model::TensorSpec& theirs) {
  return ours.name == theirs.name && ours.shape == theirs.shape &&
         static_cast<std::uint32_t>(ours.dtype) == static_cast<std::uint32_t>(theirs.dtype) &&
         static_cast<std::uint32_t>(ours.role) == static_cast<std::uint32_t>(theirs.role);
}

Status CheckLayout(const wire::Plan& plan, const TrainingPlan& read) {
  const std::vector<model::TensorSpec>& tensors = read.model.layout()->tensors();
  if (!std::equal(plan.layout.begin(), plan.layout.end(), tensors.begin(), tensors.end(),
                  IsSameTensor)) {
    return NotSupported("the plan's layout is not that of its layers");
  }
  if (!plan.data) return Ok();
  if (plan.data->task == wire::DataTask::kRegression) {
    return NotSupported("this client trains classifiers only");
  }
  if (!plan.data->classes.empty() &&
      plan.data->classes.size() != static_cast<std::size_t>(read.Classes())) {
    return NotSupported("the model has " + std::to_string(read.model.outputs()) + " outputs for " +
                        std::to_string(plan.data->classes.size()) + " classes");
  }
  return Ok();
}

kernels::LossKind LossOf(std::string_view text) {
  if (text == "mse") return kernels::LossKind::kMeanSquaredError;
  if (text == "binary_cross_entropy") return kernels::LossKind::kSigmoidCrossEntropy;
  return kernels::LossKind::kSoftmaxCrossEntropy;
}

Status ReadOptimiser(const wire::Plan& plan, TrainingPlan& read) {
  const std::string_view name = Text(plan, "client.optimizer");
  if (name == "adam") read.rule = kernels::Rule::kAdam;
  if (name == "adamw") read.rule = kernels::Rule::kAdamW;
  SKEP_ASSIGN(read.learning_rate, InRange(plan, "client.learning_rate", 0, 1000));
  SKEP_ASSIGN(read.momentum, InRange(plan, "client.momentum", 0, 1));
  SKEP_ASSIGN(read.weight_decay, InRange(plan, "client.weight_decay", 0, 1));
  SKEP_ASSIGN(read.gradient_clip, InRange(plan, "client.gradient_clip", 0, 1e308));
  read.nesterov = Number(plan, "client.nesterov") != 0;
  if (read.learning_rate == 0) return NotSupported("client.learning_rate is missing");
  if (read.momentum == 1) return NotSupported("client.momentum is outside its limits");
  if (read.nesterov && read.momentum == 0) return NotSupported("nesterov needs momentum");
  if (read.rule != kernels::Rule::kSgd && read.momentum != 0) {
    return NotSupported("client.momentum is only for sgd");
  }
  return Ok();
}

}  // namespace

Result<TrainingPlan> ReadTrainingPlan(const wire::Plan& plan) {
  if (plan.schema != 1) return NotSupported("the plan's schema is newer than this client");
  SKEP_TRY(CheckTexts(plan));
  SKEP_ASSIGN(model::ModelSpec model, ReadModel(plan));
  TrainingPlan read{.model = std::move(model), .loss = LossOf(Text(plan, "model.loss"))};
  SKEP_TRY(CheckLayout(plan, read));
  SKEP_TRY(ReadOptimiser(plan, read));
  SKEP_ASSIGN(read.batch_size, Count(plan, "client.batch_size", kLargestBatch));
  SKEP_ASSIGN(read.local_epochs, Count(plan, "client.local_epochs", kMostEpochs));
  SKEP_ASSIGN(read.local_steps, Count(plan, "client.local_steps", kMostSteps));
  read.merge_tail = Text(plan, "client.batch_tail") == "merge";
  read.uniform_weighting = Text(plan, "training.weighting") == "uniform";
  if ((read.local_epochs > 0) == (read.local_steps > 0)) {
    return NotSupported("exactly one of local_epochs and local_steps must be set");
  }
  if (read.model.has_batch_norm() && read.batch_size == 1) {
    return NotSupported("batch norm needs several rows in every batch");
  }
  return read;
}

}  // namespace skep::client
