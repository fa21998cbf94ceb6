#include "aggregator/engine/run_spec.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/fixed_point.h"
#include "shared/base/try.h"
#include "shared/model/initial_model.h"
#include "shared/model/line_words.h"
#include "shared/wire/codec.h"

namespace skep::aggregator {
namespace {

constexpr int kDoesNotFit = 1301;
constexpr int kSingleRow = 1303;

// Held at 2^32, which no example has.
std::uint64_t Product(const std::vector<std::uint32_t>& sizes) {
  std::uint64_t product = 1;
  for (const std::uint32_t size : sizes) {
    product = std::min(std::uint64_t{1} << 32U, product * size);
  }
  return product;
}

// "1 output", "2 outputs".
std::string Counted(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string LossOf(const config::ModelConfig& wanted) {
  return wanted.loss == "auto" ? "cross_entropy" : wanted.loss;
}

kernels::LossKind LossKindOf(const std::string& loss) {
  if (loss == "mse") return kernels::LossKind::kMeanSquaredError;
  if (loss == "binary_cross_entropy") return kernels::LossKind::kSigmoidCrossEntropy;
  return kernels::LossKind::kSoftmaxCrossEntropy;
}

// "embedding 8" is of as many symbols as there are classes: both are the same alphabet.
void AddSymbols(std::vector<std::string>& lines, std::uint32_t classes) {
  if (lines.empty() || classes == 0) return;
  model::LineWords words(lines[0]);
  const bool says_features = !words.AtEnd() && words.rest[0] != "symbols";
  if (words.kind != "embedding" || !says_features || words.TakeFlag("symbols")) return;
  lines[0] += fmt::format(" symbols {}", classes);
}

Result<std::vector<std::string>> LinesOf(const config::ModelConfig& wanted,
                                         const std::vector<std::uint32_t>& input,
                                         std::uint32_t classes) {
  if (wanted.architecture == "layers") {
    std::vector<std::string> lines = wanted.layers;
    AddSymbols(lines, classes);
    return lines;
  }
  return model::PresetLines(wanted.architecture, {.input = input,
                                                  .classes = classes,
                                                  .hidden = wanted.hidden,
                                                  .activation = wanted.activation,
                                                  .normalization = wanted.normalization});
}

// As many answers as labels.
Status CheckPlaces(const model::ModelSpec& model, const RunInputs& inputs) {
  if (inputs.labels_per_row == 0 || model.positions() == inputs.labels_per_row) return Ok();
  return Error{
      kDoesNotFit,
      fmt::format("the model answers at {} of an example, the data have {}",
                  Counted(model.positions(), "place"), Counted(inputs.labels_per_row, "label")),
      inputs.labels_per_row == 1 ? "globalpool or flatten before the last layer makes one place"
                                 : "nothing may pool or flatten: every place has a label"};
}

// As many symbols as the data's alphabet has, whatever of it this data set holds.
Status CheckSymbols(const model::ModelSpec& model, const RunInputs& inputs) {
  const std::size_t known = inputs.data.classes.size();
  const bool is_text = inputs.data.task == data::Task::kNextToken;
  if (!is_text || model.input_symbols() == 0 || model.input_symbols() >= known) return Ok();
  return Error{kDoesNotFit,
               fmt::format("model.layers, line 1 \"{}\": {} for data of {}", model.lines()[0],
                           Counted(model.input_symbols(), "symbol"), Counted(known, "symbol")),
               "leave \"symbols\" out: the data say it"};
}

Status CheckOutputs(const model::ModelSpec& model, std::uint32_t classes, const std::string& loss) {
  // One output tells two classes apart, but not by a softmax.
  const bool is_one_of_two = model.outputs() == 1 && classes == 2;
  if (classes == 0 || model.outputs() == classes) return Ok();
  if (is_one_of_two && loss != "cross_entropy") return Ok();
  return Error{kDoesNotFit,
               fmt::format("model.layers: the model has {} for {} classes",
                           Counted(model.outputs(), "output"), classes),
               fmt::format("end with \"dense {}\"{}", classes,
                           is_one_of_two ? ", or set model.loss = \"binary_cross_entropy\"" : "")};
}

Status CheckBatches(const model::ModelSpec& model, const config::Experiment& experiment) {
  if (!model.has_batch_norm() || experiment.client.batch_size != 1) return Ok();
  return Error{kSingleRow, "client.batch_size is 1: batch norm needs several rows in every batch",
               "raise it, or take group norm: " + GroupNormHint(experiment.model)};
}

Result<model::ModelSpec> MakeModel(const config::Experiment& experiment, const RunInputs& inputs) {
  const config::ModelConfig& wanted = experiment.model;
  const auto& input = wanted.input.empty() ? inputs.input_shape : wanted.input;
  if (Product(input) != Product(inputs.input_shape)) {
    return Error{kDoesNotFit,
                 fmt::format("model.input has {} values, an example has {}", Product(input),
                             Product(inputs.input_shape)),
                 "leave model.input out: the data say it"};
  }
  const auto known = static_cast<std::uint32_t>(inputs.data.classes.size());
  const std::uint32_t classes = wanted.classes != 0 ? wanted.classes : known;
  if (known != 0 && classes != known) {
    return Error{kDoesNotFit, fmt::format("model.classes is {}, the data have {}", classes, known),
                 "leave model.classes out: the data say it"};
  }
  SKEP_ASSIGN(std::vector<std::string> lines, LinesOf(wanted, input, classes));
  Result<model::ModelSpec> parsed = model::ModelSpec::Parse(input, std::move(lines));
  if (!parsed) {
    // The lines of a preset are not in the file.
    if (wanted.architecture == "layers") return std::move(parsed).error();
    return std::move(parsed).error().Within(
        fmt::format("model.architecture = \"{}\"", wanted.architecture));
  }
  model::ModelSpec model = std::move(parsed).value();
  SKEP_TRY(CheckOutputs(model, classes, LossOf(wanted)));
  SKEP_TRY(CheckPlaces(model, inputs));
  SKEP_TRY(CheckSymbols(model, inputs));
  SKEP_TRY(CheckBatches(model, experiment));
  if (experiment.personalization.method != "fedbn") return model;
  return model.WithPrivateNorms();
}

// What ends a run is the central evaluation, which needs a model that is whole.
Status CheckStops(const config::TrainingConfig& training, const model::ModelSpec& model) {
  if (IsWhole(model)) return Ok();
  if (!training.stop_at_target && training.patience == 0) return Ok();
  return Error{1103,
               fmt::format("\"training.{}\" judges the shared model, which fedbn leaves without "
                           "norm layers",
                           training.stop_at_target ? "stop_at_target" : "patience"),
               "leave it out, or personalization.method = \"none\""};
}

std::vector<wire::TensorSpec> WireLayout(const model::Layout& layout) {
  std::vector<wire::TensorSpec> tensors;
  for (const model::TensorSpec& tensor : layout.tensors()) {
    tensors.push_back({.name = tensor.name,
                       .dtype = static_cast<wire::TensorType>(tensor.dtype),
                       .shape = tensor.shape,
                       .role = static_cast<wire::TensorRole>(tensor.role)});
  }
  return tensors;
}

wire::DataSpec WireData(const data::DataSpec& spec) {
  wire::DataSpec data{.task = static_cast<wire::DataTask>(spec.task),
                      .features = {},
                      .classes = spec.classes,
                      .label = spec.label};
  for (const data::Feature& feature : spec.features) {
    data.features.push_back({.name = feature.name,
                             .kind = feature.is_categorical ? wire::FeatureKind::kCategorical
                                                            : wire::FeatureKind::kNumeric,
                             .offset = feature.offset,
                             .scale = feature.scale,
                             .categories = feature.categories});
  }
  return data;
}

// A number of 0 is what an absent parameter reads: it is left out.
std::vector<wire::Param> WireParams(const config::Experiment& experiment,
                                    const model::ModelSpec& model, data::Task task) {
  std::vector<wire::Param> params;
  const auto number = [&](const char* key, double value) {
    if (value != 0) params.push_back({.key = key, .number = value, .text = {}});
  };
  const auto text = [&](std::string key, std::string value) {
    params.push_back({.key = std::move(key), .number = 0, .text = std::move(value)});
  };
  const config::ClientTraining& client = experiment.client;
  number("client.learning_rate", client.learning_rate);
  number("client.batch_size", client.batch_size);
  number("client.local_epochs", client.local_epochs);
  number("client.local_steps", client.local_steps);
  number("client.momentum", client.momentum);
  number("client.nesterov", client.nesterov ? 1 : 0);
  number("client.weight_decay", client.weight_decay);
  number("client.gradient_clip", client.gradient_clip.value_or(0));
  number("client.num_classes", model.outputs());
  text("client.batch_tail", client.merges_single_tail ? "merge" : "keep");
  text("client.optimizer", client.optimizer);
  text("training.algorithm", experiment.training.algorithm);
  text("training.weighting",
       experiment.training.weighting == config::Weighting::kUniform ? "uniform" : "examples");
  text("model.loss", LossOf(experiment.model));
  text("model.architecture", experiment.model.architecture);
  text("model.input", fmt::format("{}", fmt::join(model.input(), ",")));
  for (std::size_t i = 0; i < model.lines().size(); ++i) {
    text(fmt::format("model.layer.{:04}", i + 1), model.lines()[i]);
  }
  text("data.task", task == data::Task::kNextToken ? "next_token" : "classification");
  return params;
}

// One list for both kinds of task: what training reports, then what evaluation does.
std::vector<std::string> MetricNames(const config::Experiment& experiment) {
  std::vector<std::string> names{"train_loss"};
  names.insert(names.end(), experiment.training.metrics.begin(), experiment.training.metrics.end());
  return names;
}

TrainingRules MakeTraining(const config::Experiment& experiment) {
  const config::TrainingConfig& training = experiment.training;
  return {.rounds = training.rounds,
          .clients_per_round = training.clients_per_round,
          .invited = training.invited,
          .min_reports = training.min_reports,
          .max_attempts = training.max_attempts,
          .selection_window = training.selection_window,
          .report_deadline = training.report_deadline,
          .min_separation = training.min_separation,
          .weighting = training.weighting == config::Weighting::kUniform ? Weighting::kUniform
                                                                         : Weighting::kExamples,
          .server_learning_rate = experiment.server_learning_rate};
}

EvaluationRules MakeEvaluation(const config::Experiment& experiment, const RunInputs& inputs,
                               const model::ModelSpec& model) {
  const config::TrainingConfig& training = experiment.training;
  // Without rows held out on the clients there is nothing that they could evaluate on.
  const bool has_client_rows =
      experiment.data.client_test_fraction > 0 || inputs.has_client_test_data;
  return {.eval_every = training.eval_every,
          .has_test_data = inputs.has_test_data && IsWhole(model),
          .client_eval_every = has_client_rows ? training.client_eval_every : 0,
          .client_eval_clients = training.client_eval_clients};
}

StopRules MakeStop(const config::TrainingConfig& training) {
  return {.metric = training.target_metric,
          .maximise = training.target_mode == config::TargetMode::kMaximum,
          .target = training.target,
          .stop_at_target = training.stop_at_target,
          .patience = training.patience};
}

}  // namespace

std::string GroupNormHint(const config::ModelConfig& wanted) {
  return wanted.architecture == "layers" ? "\"norm group 1\" in model.layers"
                                         : "model.normalization = \"group\"";
}

bool IsWhole(const model::ModelSpec& model) {
  return model.layout()->private_values() == 0;
}

std::vector<std::string> PersonalNotes(const RunSpec& spec) {
  if (IsWhole(spec.model)) return {};
  std::vector<std::string> notes{
      "fedbn: the norm layers are each client's own; the shared model lacks them, so there is no "
      "central evaluation"};
  if (spec.evaluation.client_eval_every == 0) {
    notes.emplace_back(
        "fedbn: nothing evaluates the clients' own models; data.client_test_fraction = 0.2 holds "
        "rows out for it");
  }
  return notes;
}

Result<RunSpec> MakeRunSpec(const config::Experiment& experiment, const RunInputs& inputs) {
  SKEP_ASSIGN(model::ModelSpec model, MakeModel(experiment, inputs));
  SKEP_TRY(CheckStops(experiment.training, model));
  const TrainingRules training = MakeTraining(experiment);
  const AdmissionLimits admission{.max_norm = experiment.admission.max_norm,
                                  .max_weight = training.weighting == Weighting::kUniform
                                                    ? 1
                                                    : experiment.admission.max_weight};
  SKEP_ASSIGN(const int scale, kernels::ScaleFor({.max_norm = admission.max_norm,
                                                  .max_weight = double(admission.max_weight),
                                                  .max_reports = training.invited}));
  wire::Plan plan{.schema = 1,
                  .layout = WireLayout(*model.layout()),
                  .params = WireParams(experiment, model, inputs.data.task),
                  .metrics = MetricNames(experiment),
                  .data = WireData(inputs.data)};
  RunSpec spec{.id = inputs.id,
               .name = experiment.name,
               .population = inputs.population,
               .seed = inputs.seed,
               .training = training,
               .evaluation = MakeEvaluation(experiment, inputs, model),
               .stop = MakeStop(experiment.training),
               .admission = admission,
               .scale = scale,
               .model = std::move(model),
               .loss = LossKindOf(LossOf(experiment.model)),
               .initial_model = inputs.initial_model,
               .plan = std::move(plan),
               .learning_rates = {}};
  if (experiment.client.schedule != config::Schedule::kConstant) {
    spec.learning_rates.reserve(training.rounds);
    for (std::uint32_t round = 1; round <= training.rounds; ++round) {
      spec.learning_rates.push_back(
          config::LearningRateOf(experiment.client, training.rounds, round));
    }
    spec.plan = PlanForRound(spec, 1);
  }
  SKEP_TRY(wire::EncodePlan(spec.plan));
  return spec;
}

wire::Plan PlanForRound(const RunSpec& spec, std::uint32_t round) {
  wire::Plan plan = spec.plan;
  if (round == 0 || round > spec.learning_rates.size()) return plan;
  for (wire::Param& param : plan.params) {
    if (param.key == "client.learning_rate") param.number = spec.learning_rates[round - 1];
  }
  return plan;
}

Result<model::Params> MakeInitialModel(const config::Experiment& experiment,
                                       const model::ModelSpec& spec, std::uint64_t seed,
                                       std::vector<std::string>* notes, std::uint64_t free_memory) {
  const config::ModelConfig& wanted = experiment.model;
  // This one, the current and the next, their copies on the way to disk and to devices, and the
  // exact sum of 8 bytes a value.
  constexpr std::uint64_t kModels = 7;
  SKEP_TRY(model::CheckFits(kModels * spec.layout()->values() * sizeof(float), free_memory,
                            fmt::format("a run of {} parameters", spec.layout()->values()),
                            "take a smaller model"));
  if (!wanted.initial_model.empty()) {
    return model::ReadInitialModel(wanted.initial_model, spec, notes);
  }
  model::Initialiser initialiser = model::Initialiser::kFanIn;
  if (wanted.init == "glorot") initialiser = model::Initialiser::kGlorot;
  if (wanted.init == "he") initialiser = model::Initialiser::kHe;
  if (wanted.init == "zeros") initialiser = model::Initialiser::kZeros;
  return model::InitialParams(spec, initialiser, seed);
}

}  // namespace skep::aggregator
