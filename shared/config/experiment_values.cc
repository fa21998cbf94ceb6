#include "shared/config/experiment_values.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "shared/config/experiment_rules.h"

namespace skep::config {
namespace {

std::string TextOr(const Effective& e, std::string_view path, std::string_view fallback) {
  return e.Has(path) ? e.Text(path) : std::string(fallback);
}

std::uint32_t WholeOr(const Effective& e, std::string_view path, std::uint32_t fallback) {
  return e.Has(path) ? static_cast<std::uint32_t>(e.Whole(path)) : fallback;
}

double NumberOr(const Effective& e, std::string_view path, double fallback) {
  return e.Has(path) ? e.Number(path) : fallback;
}

bool BooleanOr(const Effective& e, std::string_view path, bool fallback) {
  return e.Has(path) ? e.Boolean(path) : fallback;
}

std::optional<double> OptionalNumber(const Effective& e, std::string_view path) {
  if (!e.Has(path)) return std::nullopt;
  return e.Number(path);
}

void FillSpecification(const Effective& e, DataConfig& data) {
  data.features = e.Texts("data.features");
  data.classes = e.Texts("data.classes");
  if (e.Has("data.categories")) {
    for (const auto& [column, values] : e.at("data.categories").value->table()) {
      for (const Value& value : values.list()) data.categories[column].push_back(value.text());
    }
  }
  if (e.Has("data.scaling")) {
    for (const auto& [column, pair] : e.at("data.scaling").value->table())
      data.scaling[column] = {pair.list()[0].number(), pair.list()[1].number()};
  }
}

void FillPartition(const Effective& e, DataConfig& data) {
  data.partition = e.Text("data.partition");
  data.dirichlet_alpha = NumberOr(e, "data.dirichlet_alpha", data.dirichlet_alpha);
  data.self_balancing = BooleanOr(e, "data.self_balancing", false);
  data.partition_attempts = WholeOr(e, "data.partition_attempts", data.partition_attempts);
  data.repairs_partition = TextOr(e, "data.partition_on_failure", "repair") == "repair";
  data.shards_per_client = WholeOr(e, "data.shards_per_client", data.shards_per_client);
  data.shard_size = WholeOr(e, "data.shard_size", 0);
  data.keep_incomplete_shard = BooleanOr(e, "data.keep_incomplete_shard", false);
  data.shuffle = e.Boolean("data.shuffle");
  data.partition_seed = e.Whole("data.partition_seed");
  data.min_examples = WholeOr(e, "data.min_examples", 1);
  data.max_examples = WholeOr(e, "data.max_examples", 0);
}

void FillModel(const Effective& e, const std::string& folder, ModelConfig& model) {
  model.architecture = e.Text("model.architecture");
  model.hidden = e.Wholes("model.hidden");
  model.layers = e.Texts("model.layers");
  model.activation = TextOr(e, "model.activation", model.activation);
  model.normalization = TextOr(e, "model.normalization", model.normalization);
  model.loss = e.Text("model.loss");
  model.init = TextOr(e, "model.init", "");
  model.initial_model = PathBelow(folder, TextOr(e, "model.initial_model", ""));
}

void FillRounds(const Effective& e, TrainingConfig& training) {
  training.algorithm = e.Text("training.algorithm");
  training.rounds = WholeOr(e, "training.rounds", training.rounds);
  training.over_selection = e.Number("training.over_selection");
  training.max_attempts = WholeOr(e, "training.max_attempts", training.max_attempts);
  training.selection_window = e.Duration("training.selection_window");
  training.report_deadline = e.Duration("training.report_deadline");
  training.min_separation = e.Duration("training.min_separation");
  training.weighting =
      e.Text("training.weighting") == "uniform" ? Weighting::kUniform : Weighting::kExamples;
}

void FillEvaluation(const Effective& e, TrainingConfig& training) {
  training.eval_every = WholeOr(e, "training.eval_every", training.eval_every);
  training.client_eval_every = WholeOr(e, "training.client_eval_every", training.client_eval_every);
  training.client_eval_clients =
      WholeOr(e, "training.client_eval_clients", training.client_eval_clients);
  training.client_min_test_examples =
      WholeOr(e, "training.client_min_test_examples", training.client_min_test_examples);
  training.metrics = e.Texts("training.metrics");
  training.target_metric = e.Text("training.target_metric");
  training.target_mode =
      e.Text("training.target_mode") == "min" ? TargetMode::kMinimum : TargetMode::kMaximum;
  training.target = OptionalNumber(e, "training.target");
  training.stop_at_target = e.Boolean("training.stop_at_target");
  training.patience = WholeOr(e, "training.patience", 0);
  if (e.Has("training.stop_after")) training.stop_after = e.Duration("training.stop_after");
  if (e.Has("training.stop_after_bytes"))
    training.stop_after_bytes = e.Size("training.stop_after_bytes");
}

void FillClient(const Effective& e, ClientTraining& client) {
  client.local_epochs = WholeOr(e, "client.local_epochs", 0);
  client.local_steps = WholeOr(e, "client.local_steps", 0);
  const Value& batch = *e.at("client.batch_size").value;
  client.batch_size = batch.is_text() ? 0 : static_cast<std::uint32_t>(batch.integer());
  client.merges_single_tail = e.Text("client.batch_tail") == "merge";
  client.optimizer = e.Text("client.optimizer");
  client.learning_rate = e.Number("client.learning_rate");
  client.schedule = ScheduleOf(e.Text("client.schedule"));
  client.learning_rate_decay = NumberOr(e, "client.learning_rate_decay", 1);
  client.decay_every = WholeOr(e, "client.decay_every", 1);
  client.momentum = NumberOr(e, "client.momentum", 0);
  client.nesterov = BooleanOr(e, "client.nesterov", false);
  client.weight_decay = e.Number("client.weight_decay");
  client.gradient_clip = OptionalNumber(e, "client.gradient_clip");
}

DropoutPhase DropoutPhaseOf(const std::string& text) {
  if (text == "before") return DropoutPhase::kBefore;
  if (text == "training") return DropoutPhase::kTraining;
  return text == "upload" ? DropoutPhase::kUpload : DropoutPhase::kAny;
}

void FillDevices(const Effective& e, DevicesConfig& devices) {
  devices.examples_per_second = OptionalNumber(e, "devices.examples_per_second");
  devices.speed_sigma = e.Number("devices.speed_sigma");
  devices.speed_jitter = e.Number("devices.speed_jitter");
  devices.down_mbps = OptionalNumber(e, "devices.down_mbps");
  devices.up_mbps = OptionalNumber(e, "devices.up_mbps");
  devices.network_sigma = e.Number("devices.network_sigma");
  devices.latency = e.Duration("devices.latency");
  devices.dropout = e.Number("devices.dropout");
  devices.dropout_phase = DropoutPhaseOf(e.Text("devices.dropout_phase"));
}

void FillRun(const Effective& e, RunConfig& run) {
  const Value& jobs = *e.at("run.jobs").value;
  run.jobs = jobs.is_text() ? 0 : static_cast<std::uint32_t>(jobs.integer());
  run.isa = e.Text("run.isa");
  run.device = e.Text("run.device");
  if (e.Text("run.gpu_memory_limit") != "auto") {
    run.gpu_memory_limit = e.Size("run.gpu_memory_limit");
  }
  run.output = e.Text("run.output");
  run.checkpoint_every = WholeOr(e, "run.checkpoint_every", 1);
  run.keep_checkpoints = WholeOr(e, "run.keep_checkpoints", 2);
  run.report = e.Boolean("run.report");
}

}  // namespace

std::string PathBelow(const std::string& folder, const std::string& text) {
  if (text.empty() || folder.empty()) return text;
  return (std::filesystem::path(folder) / text).string();
}

std::string FolderOf(const std::string& file) {
  return std::filesystem::path(file).parent_path().string();
}

void FillDataSource(const Effective& e, const std::string& folder, DataConfig& data) {
  data.dataset = TextOr(e, "data.dataset", "");
  data.path_text = TextOr(e, "data.path", "");
  data.path = PathBelow(folder, data.path_text);
  data.format = TextOr(e, "data.format", "auto");
  if (e.Has("data.label")) {
    const Value& label = *e.at("data.label").value;
    if (label.is_text()) {
      data.label = label.text();
    } else {
      data.label_index = static_cast<std::uint32_t>(label.integer());
    }
  }
  data.client_column = TextOr(e, "data.client_column", "");
  data.client_file = PathBelow(folder, TextOr(e, "data.client_file", ""));
  if (e.Has("data.header") && !e.at("data.header").value->is_text())
    data.header = e.Boolean("data.header");
  data.missing = TextOr(e, "data.missing", "error");
  data.decimal = TextOr(e, "data.decimal", ".")[0];
  data.task = e.Text("data.task");
  data.normalize = e.Text("data.normalize");
  data.test_path = PathBelow(folder, TextOr(e, "data.test_path", ""));
  data.test_fraction = NumberOr(e, "data.test_fraction", 0);
  data.client_test_fraction = e.Number("data.client_test_fraction");
}

void FillLate(const Effective& e, Experiment& experiment) {
  if (e.Has("seed")) experiment.seed = e.Whole("seed");
  experiment.data.num_clients = WholeOr(e, "data.num_clients", 0);
  experiment.model.input = e.Wholes("model.input");
  experiment.model.classes = WholeOr(e, "model.classes", 0);
  TrainingConfig& training = experiment.training;
  training.clients_per_round = WholeOr(e, "training.clients_per_round", 0);
  training.min_reports = WholeOr(e, "training.min_reports", 0);
  training.invited =
      training.clients_per_round == 0 ? 0 : static_cast<std::uint32_t>(InvitedClients(e));
}

Experiment FillExperiment(const Effective& e, const std::string& folder) {
  Experiment experiment;
  experiment.name = e.Text("name");
  experiment.population = TextOr(e, "population", "");
  experiment.seed = 0;
  experiment.is_seed_given = e.IsGiven("seed");
  FillDataSource(e, folder, experiment.data);
  FillSpecification(e, experiment.data);
  FillPartition(e, experiment.data);
  FillModel(e, folder, experiment.model);
  FillRounds(e, experiment.training);
  FillEvaluation(e, experiment.training);
  FillClient(e, experiment.client);
  experiment.server_learning_rate = e.Number("server_optimizer.learning_rate");
  experiment.admission.max_norm = e.Number("admission.max_norm");
  experiment.admission.max_weight = WholeOr(e, "admission.max_weight", 1);
  experiment.personalization.method = e.Text("personalization.method");
  FillDevices(e, experiment.devices);
  FillRun(e, experiment.run);
  FillLate(e, experiment);
  if (!experiment.model.input.empty()) {
    std::uint64_t length = 1;
    for (const std::uint32_t size : experiment.model.input)
      length = std::min<std::uint64_t>(length * size, std::numeric_limits<std::uint32_t>::max());
    experiment.data.text_length = static_cast<std::uint32_t>(length);
  }
  return experiment;
}

}  // namespace skep::config
