#include "simulator/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "client/trainer.h"
#include "shared/base/try.h"
#include "shared/data/experiment_data.h"
#include "shared/model/free_memory.h"
#include "simulator/figures.h"
#include "simulator/names.h"

namespace skep::simulator {
namespace {

using config::Problem;

constexpr const char* kVersion = SKEP_VERSION;
// Training on inputs beyond it seldom stays finite.
constexpr double kLargeInput = 1e5;

using Keys = std::initializer_list<std::string_view>;
const Keys kModelKeys{"model.layers", "model.hidden", "model.architecture",
                      "data.format",  "data.path",    "data.dataset"};

// Shown at the key that it names, else at the first of `keys` that the file gives.
std::vector<Problem> Refuse(const Error& error, const Prepared& prepared, Keys keys) {
  return {config::ProblemOf(error, prepared.loaded.effective, keys)};
}

// What a key names and cannot be read is shown at that key, as a fault of the key itself is.
std::vector<Problem> RefuseData(const Error& error, const config::Loaded<config::Experiment>& of) {
  const bool is_of_keys = error.code < 1200 || error.code >= 1300;
  if (is_of_keys) return {config::ProblemOf(error, of.effective, {"data.format", "data.path"})};
  Problem problem = AsProblem(error);
  const config::DataConfig& data = of.value.data;
  const auto names = [&](const std::string& path) {
    return !path.empty() && error.message.find(path) != std::string::npos;
  };
  std::string_view key;
  if (error.code == 1203) key = "data.dataset";
  if (error.code == 1201) {
    key = names(data.test_path)     ? "data.test_path"
          : names(data.client_file) ? "data.client_file"
                                    : "data.path";
  }
  if (key.empty() || !of.effective.IsGiven(key)) return {problem};
  problem.place = of.effective.at(key).value_place;
  problem.topic = "data";
  return {problem};
}

// What the data say before the split, or after it.
config::DataFacts FactsOf(const Prepared& prepared, bool is_split) {
  const data::Dataset& train = *prepared.data.train;
  config::DataFacts facts;
  facts.rows = train.rows;
  if (!train.owner.empty()) facts.owners = static_cast<std::uint32_t>(train.owner_names.size());
  facts.classes = static_cast<std::uint32_t>(prepared.data.spec.classes.size());
  facts.input = train.input_shape;
  if (!is_split) return facts;
  for (ClientNumber i = 0; i < prepared.partition.clients.size(); ++i) {
    const data::ClientPart& client = prepared.partition.clients[i];
    if (facts.largest_client && client.train.size() <= *facts.largest_client) continue;
    facts.largest_client = client.train.size();
    facts.largest_client_name = ClientName(i, client.name);
  }
  return facts;
}

// Held at an eighth of 64 bits, which no machine has, so that sums of it do not overflow.
std::uint64_t Times(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kBeyond = std::numeric_limits<std::uint64_t>::max() / 8;
  return a != 0 && b > kBeyond / a ? kBeyond : a * b;
}

// Current and next model, what checkpoints copy, the exact sum, the updates in flight, and a worker
// for each job, which evaluates, too.
std::uint64_t MemoryOf(const client::TrainingPlan& plan, std::size_t jobs, std::size_t largest,
                       std::size_t lanes) {
  const std::uint64_t model = plan.model.layout()->values() * sizeof(float);
  constexpr std::uint64_t kModels = 5;
  constexpr std::uint64_t kSum = 2;  // 8 bytes a value
  // Of two groups of lanes: what is trained, and what came of it.
  const std::uint64_t updates = 2 * jobs + 2 + 4 * lanes;
  client::TrainingPlan evaluation = plan;
  evaluation.batch_size = 1;
  return Times(model, kModels + kSum + updates) +
         Times(jobs, client::WorkerBytes(plan, largest) + client::WorkerBytes(evaluation, 1));
}

// What clients keep for themselves: that of the latest published model and that since.
std::uint64_t PrivateMemoryOf(const client::TrainingPlan& plan, const data::Partition& partition) {
  constexpr std::uint64_t kStates = 2;
  return Times(kStates * partition.clients.size(),
               plan.model.layout()->private_values() * sizeof(float));
}

// Batch norm cannot train on one row: SKEP-1303 names the first client that would.
Status CheckBatches(const config::Experiment& experiment, const client::TrainingPlan& plan,
                    const data::Partition& partition) {
  if (!plan.model.has_batch_norm()) return Ok();
  client::TrainingPlan merging = plan;
  merging.merge_tail = true;
  const bool merging_helps = std::none_of(
      partition.clients.begin(), partition.clients.end(), [&](const data::ClientPart& client) {
        return client::HasSingleRowBatch(merging, client.train.size());
      });
  for (ClientNumber i = 0; i < partition.clients.size(); ++i) {
    const data::ClientPart& client = partition.clients[i];
    const std::size_t rows = client.train.size();
    if (!client::HasSingleRowBatch(plan, rows)) continue;
    const std::string batch =
        rows == 1 ? "its batch has" : fmt::format("in batches of {} one has", plan.batch_size);
    return Error{1303,
                 fmt::format("{} has {}: {} a single row, on which batch norm cannot train",
                             ClientName(i, client.name), Plural(rows, "training row"), batch),
                 merging_helps ? "client.batch_tail = \"merge\" joins it to the batch before"
                               : "group norm trains on one row: " +
                                     aggregator::GroupNormHint(experiment.model)};
  }
  return Ok();
}

// An embedding reads whole numbers below its symbols: SKEP-1301 names the first row that holds
// another.
Status CheckSymbols(const model::ModelSpec& model, const data::Dataset& dataset,
                    const char* which) {
  const std::uint32_t symbols = model.input_symbols();
  if (symbols == 0 || dataset.values != model.input_values()) return Ok();
  std::vector<float> x(dataset.values);
  std::vector<std::int32_t> y(dataset.labels_per_row);
  for (std::uint32_t row = 0; row < dataset.rows; ++row) {
    dataset.Gather({&row, 1}, x.data(), y.data());
    for (const float value : x) {
      const bool is_whole = value == std::floor(value);
      if (value >= 0 && value < static_cast<float>(symbols) && is_whole) continue;
      return Error{1301,
                   fmt::format("model.layers, line 1 \"{}\": row {} of the {} data holds {}; "
                               "symbols are the whole numbers from 0 to {}",
                               model.lines()[0], row + 1, which, value, symbols - 1),
                   is_whole && value >= 0 ? "raise \"symbols\""
                                          : "symbols are not scaled: data.normalize = \"none\""};
    }
  }
  return Ok();
}

Status CheckSymbols(const model::ModelSpec& model, const data::LoadedData& data) {
  SKEP_TRY(CheckSymbols(model, *data.train, "training"));
  return data.test == nullptr ? Ok() : CheckSymbols(model, *data.test, "test");
}

// Of the training part, without its sign. What is stored as bytes is small.
double LargestInput(const data::Dataset& train) {
  return std::accumulate(train.floats.begin(), train.floats.end(), 0.0,
                         [](double most, float value) {
                           return std::max(most, std::abs(static_cast<double>(value)));
                         });
}

std::size_t LargestClient(const data::Partition& partition) {
  std::size_t largest = 1;
  for (const data::ClientPart& client : partition.clients) {
    largest = std::max(largest, client.train.size());
  }
  return largest;
}

Result<PlannedDevice> PlanDevice(const Plan& plan, const client::TrainingPlan& training,
                                 std::uint32_t clients, const DeviceChooser& choose) {
  const config::RunConfig& run = plan.experiment().run;
  SKEP_ASSIGN(const kernels::DeviceChoice choice, kernels::ParseDevice(run.device));
  SKEP_ASSIGN(kernels::ChosenDevice chosen, choose(choice));
  PlannedDevice device;
  if (chosen.device == nullptr) {
    if (choice.kind == kernels::DeviceChoice::Kind::kAuto) device.why = std::move(chosen.said);
    return device;
  }
  device.api = std::move(chosen.device);
  device.name = std::move(chosen.said);
  device.budget_bytes = run.gpu_memory_limit.value_or(0);
  if (!run.gpu_memory_limit) {
    SKEP_ASSIGN(device.budget_bytes, client::DeviceBudget(*device.api));
  }
  SKEP_ASSIGN(device.lanes,
              client::PlanLanes(training, {.dataset = *plan.prepared.data.train,
                                           .most_rows = LargestClient(plan.prepared.partition),
                                           .clients = clients,
                                           .budget_bytes = device.budget_bytes}));
  return device;
}

simulator::DropOutPhase PhaseOf(config::DropoutPhase phase) {
  switch (phase) {
    case config::DropoutPhase::kBefore:
      return DropOutPhase::kBefore;
    case config::DropoutPhase::kTraining:
      return DropOutPhase::kTraining;
    case config::DropoutPhase::kUpload:
      return DropOutPhase::kUpload;
    case config::DropoutPhase::kAny:
      return DropOutPhase::kAny;
  }
  return DropOutPhase::kAny;
}

DeviceRules RulesOf(const config::DevicesConfig& devices) {
  DeviceRules rules;
  rules.examples_per_second = devices.examples_per_second.value_or(0);
  rules.speed_sigma = devices.speed_sigma;
  rules.speed_jitter = devices.speed_jitter;
  rules.down_mbps = devices.down_mbps.value_or(0);
  rules.up_mbps = devices.up_mbps.value_or(0);
  rules.network_sigma = devices.network_sigma;
  rules.latency = devices.latency;
  rules.dropout = devices.dropout;
  rules.dropout_phase = PhaseOf(devices.dropout_phase);
  return rules;
}

RoundLog::Rules LogRulesOf(const config::Experiment& experiment, bool has_test) {
  const config::TrainingConfig& training = experiment.training;
  RoundLog::Rules rules;
  rules.target_metric = "test/" + training.target_metric;
  rules.maximise = training.target_mode == config::TargetMode::kMaximum;
  rules.target = training.target;
  rules.min_test_examples = training.client_min_test_examples;
  if (has_test) {
    for (const std::string& metric : training.metrics)
      rules.central_metrics.push_back("test/" + metric);
  }
  rules.eval_every = training.eval_every;
  rules.rounds = training.rounds;
  return rules;
}

}  // namespace

Problem AsProblem(const Error& error) {
  Problem problem;
  problem.code = error.code;
  problem.message = error.message;
  problem.hint = error.hint;
  return problem;
}

config::Validated<Prepared> Prepare(const PlanSource& source) {
  const config::LoadOptions options{
      .sets = source.sets, .program = config::Program::kSimulator, .folder = source.folder};
  auto loaded = config::LoadExperiment(source.file, options);
  if (!loaded.has_value()) return loaded.problems();
  Prepared prepared{.loaded = std::move(loaded).value(), .data = {}, .partition = {}, .labels = {}};
  const config::Experiment& experiment = prepared.loaded.value;
  auto data = data::Load(data::DataOptionsOf(experiment.data, experiment.seed));
  if (!data.has_value()) return RefuseData(data.error(), prepared.loaded);
  prepared.data = std::move(data).value();
  std::vector<Problem> problems =
      config::FinishExperiment(prepared.loaded, FactsOf(prepared, false));
  if (!problems.empty()) return problems;
  const auto classes = static_cast<std::uint32_t>(prepared.data.spec.classes.size());
  auto partition = data::Split(*prepared.data.train, classes,
                               data::PartitionOptionsOf(experiment.data, experiment.seed),
                               prepared.data.test.get());
  if (!partition.has_value()) {
    return Refuse(partition.error(), prepared,
                  {"data.min_examples", "data.num_clients", "data.partition"});
  }
  prepared.partition = std::move(partition).value();
  problems = config::FinishExperiment(prepared.loaded, FactsOf(prepared, true));
  if (!problems.empty()) return problems;
  prepared.labels = data::TableOf(prepared.partition, *prepared.data.train, classes);
  return prepared;
}

namespace {

aggregator::RunInputs InputsOf(const Prepared& prepared, const RunId& run_id) {
  const config::Experiment& experiment = prepared.experiment();
  aggregator::RunInputs inputs;
  inputs.id = run_id;
  inputs.population = experiment.population.empty() ? "simulation" : experiment.population;
  inputs.seed = experiment.seed;
  inputs.data = prepared.data.spec;
  inputs.input_shape = prepared.data.train->input_shape;
  inputs.labels_per_row = prepared.data.train->labels_per_row;
  inputs.has_test_data = prepared.data.test != nullptr;
  return inputs;
}

// Before anything of the model's size is made.
Status CheckMemory(const Plan& plan, const client::TrainingPlan& training,
                   std::uint64_t free_memory) {
  const std::size_t largest = LargestClient(plan.prepared.partition);
  const std::uint64_t private_bytes = PrivateMemoryOf(training, plan.prepared.partition);
  const std::uint64_t alone =
      MemoryOf(training, 1, largest, plan.device.lanes.lanes) + private_bytes;
  const bool fits_alone = model::CheckFits(alone, free_memory, "", "").has_value();
  return model::CheckFits(plan.memory_bytes, free_memory, "the plan",
                          fits_alone && plan.jobs > 1
                              ? "lower run.jobs or use a smaller model"
                              : "take a smaller model; it has " +
                                    Grouped(training.model.layout()->values()) + " parameters");
}

void AddNotes(const aggregator::RunSpec& spec, Plan& plan) {
  std::vector<std::string>& notes = plan.prepared.data.notes;
  for (std::string& note : aggregator::PersonalNotes(spec)) notes.push_back(std::move(note));
  if (plan.largest_input < kLargeInput) return;
  notes.push_back(
      fmt::format("inputs reach {}: training on them may not stay finite; "
                  "data.normalize = \"standard\" scales them",
                  Significant(plan.largest_input)));
}

}  // namespace

config::Validated<Plan> MakePlan(Prepared prepared, const RunId& run_id,
                                 const DeviceChooser& choose, std::uint64_t free_memory) {
  Plan plan{.prepared = std::move(prepared), .spec = {}, .initial = {}, .config_sha256 = {}};
  const config::Experiment& experiment = plan.experiment();
  const auto refuse = [&](const Error& error, Keys keys) {
    return Refuse(error, plan.prepared, keys);
  };
  const auto isa = kernels::ParseIsa(experiment.run.isa);
  if (!isa.has_value()) return refuse(isa.error(), {"run.isa"});
  plan.isa = *isa;
  plan.jobs = experiment.run.jobs > 0 ? experiment.run.jobs
                                      : std::max(1U, std::thread::hardware_concurrency());
  plan.config_sha256 = plan.prepared.loaded.effective.ConfigHash();
  plan.largest_input = LargestInput(*plan.prepared.data.train);

  auto spec = aggregator::MakeRunSpec(experiment, InputsOf(plan.prepared, run_id));
  if (!spec.has_value() && spec.error().code == 5304) {
    return refuse(spec.error(), {"admission.max_norm", "admission.max_weight"});
  }
  if (!spec.has_value()) return refuse(spec.error(), kModelKeys);
  const auto training = client::ReadTrainingPlan(spec->plan);
  if (!training.has_value()) return refuse(training.error(), kModelKeys);
  if (const Status checked = CheckSymbols(spec->model, plan.prepared.data); !checked) {
    return refuse(checked.error(), kModelKeys);
  }
  if (const Status checked = CheckBatches(experiment, *training, plan.prepared.partition);
      !checked) {
    return refuse(checked.error(), {"client.batch_size", "model.normalization", "model.layers"});
  }
  auto device = PlanDevice(plan, *training, spec->training.invited, choose);
  if (!device.has_value() && device.error().code == 1401) {
    return refuse(device.error(), {"run.gpu_memory_limit", "run.device"});
  }
  if (!device.has_value()) return refuse(device.error(), {"run.device"});
  plan.device = std::move(device).value();
  plan.memory_bytes = MemoryOf(*training, plan.jobs, LargestClient(plan.prepared.partition),
                               plan.device.lanes.lanes) +
                      PrivateMemoryOf(*training, plan.prepared.partition);
  if (const Status fits = CheckMemory(plan, *training, free_memory); !fits) {
    return refuse(fits.error(), kModelKeys);
  }
  auto initial = aggregator::MakeInitialModel(experiment, spec->model, experiment.seed,
                                              &plan.prepared.data.notes, free_memory);
  if (!initial.has_value()) {
    return refuse(initial.error(), {"model.initial_model", "model.layers", "model.architecture"});
  }
  spec->initial_model = initial->ModelHash();
  AddNotes(*spec, plan);
  plan.initial = std::make_shared<const model::Params>(std::move(initial).value());
  plan.spec = std::make_shared<const aggregator::RunSpec>(std::move(spec).value());
  return plan;
}

SimulationSetup MakeSetup(const Plan& plan) {
  const config::Experiment& experiment = plan.experiment();
  SimulationSetup setup;
  setup.spec = plan.spec;
  setup.train = plan.prepared.data.train;
  if (aggregator::IsWhole(plan.spec->model)) setup.test = plan.prepared.data.test;
  setup.partition = plan.prepared.partition;
  setup.initial = plan.initial;
  setup.log_rules = LogRulesOf(experiment, setup.test != nullptr);
  setup.devices = RulesOf(experiment.devices);
  setup.isa = plan.isa;
  setup.jobs = plan.jobs;
  setup.lanes = {.device = {.device = plan.device.api,
                            .budget_bytes = plan.device.budget_bytes,
                            .clients = plan.device.lanes.lanes,
                            .most_rows = LargestClient(plan.prepared.partition),
                            .isa = plan.isa},
                 .count = plan.device.lanes.lanes};
  setup.config_sha256 = plan.config_sha256;
  setup.data_sha256 = plan.prepared.data.hash;
  setup.stop_after = experiment.training.stop_after;
  setup.stop_after_bytes = experiment.training.stop_after_bytes;
  return setup;
}

RunStart MakeRunStart(const Plan& plan) {
  const config::Experiment& experiment = plan.experiment();
  const Prepared& prepared = plan.prepared;
  RunStart start;
  start.name = experiment.name;
  start.run_id = plan.spec->id.Hex();
  start.version = kVersion;
  start.seed = experiment.seed;
  start.config_sha256 = plan.config_sha256;
  start.data_sha256 = prepared.data.hash;
  start.layout_sha256 = plan.spec->model.layout()->hash();
  start.config_toml = prepared.loaded.effective.AsToml();
  for (const config::Setting& setting : prepared.loaded.effective.settings()) {
    if (setting.value)
      start.settings.push_back(
          {setting.key->path, {config::ToToml(*setting.value), setting.SourceText()}});
  }
  start.algorithm = experiment.training.algorithm;
  start.architecture = experiment.model.architecture;
  start.partition = PartitionText(experiment.data);
  start.rounds = experiment.training.rounds;
  start.clients_per_round = experiment.training.clients_per_round;
  start.device = plan.device.name;
  start.isa = kernels::IsaName(plan.isa);
  start.jobs = plan.jobs;
  start.model_parameters = plan.spec->model.layout()->values();
  start.memory_plan_bytes = plan.memory_bytes;
  start.has_large_inputs = plan.largest_input >= kLargeInput;
  start.target_metric = "test/" + experiment.training.target_metric;
  start.is_target_maximised = experiment.training.target_mode == config::TargetMode::kMaximum;
  start.target = experiment.training.target;
  start.classes = prepared.data.spec.classes;
  const std::uint32_t classes = prepared.labels.classes;
  for (ClientNumber i = 0; i < prepared.partition.clients.size(); ++i) {
    const data::ClientPart& part = prepared.partition.clients[i];
    ClientInfo info;
    info.number = i;
    info.name = part.name;
    info.examples = static_cast<std::uint32_t>(part.train.size());
    info.test_examples = static_cast<std::uint32_t>(part.test.size());
    info.labels.resize(classes);
    for (const std::uint32_t row : part.train) {
      for (const std::int32_t label : prepared.data.train->LabelsOf(row)) {
        if (label >= 0) ++info.labels[static_cast<std::size_t>(label)];
      }
    }
    start.clients.push_back(std::move(info));
  }
  return start;
}

std::string DeviceText(const PlannedDevice& device) {
  if (device.api == nullptr) return device.why.empty() ? device.name : device.why;
  return fmt::format("{}: {} at once, {} of its memory", device.name,
                     Plural(device.lanes.lanes, "client"), BinaryByteText(device.lanes.bytes));
}

std::string PartitionText(const config::DataConfig& data) {
  if (data.partition == "dirichlet")
    return fmt::format("dirichlet \xCE\xB1 = {}", data.dirichlet_alpha);
  if (data.partition == "shards")
    return fmt::format("shards, {} per client", data.shards_per_client);
  return data.partition;
}

}  // namespace skep::simulator
