#include "client/cli/local_data.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "shared/base/try.h"
#include "shared/config/experiment.h"
#include "shared/data/experiment_data.h"
#include "shared/data/partition.h"
#include "shared/data/reader.h"
#include "shared/model/model_spec.h"

namespace skep::cli {
namespace {

// Adds rows of `from` to `to`, which has the same columns.
void TakeRows(const data::Dataset& from, const std::vector<std::uint32_t>& rows,
              data::Dataset& to) {
  for (const std::uint32_t row : rows) {
    const auto first = static_cast<std::ptrdiff_t>(row * from.values);
    const auto last = first + static_cast<std::ptrdiff_t>(from.values);
    if (!from.bytes.empty()) {
      to.bytes.insert(to.bytes.end(), from.bytes.begin() + first, from.bytes.begin() + last);
    } else {
      to.floats.insert(to.floats.end(), from.floats.begin() + first, from.floats.begin() + last);
    }
    const auto labels = from.LabelsOf(row);
    to.labels.insert(to.labels.end(), labels.begin(), labels.end());
  }
  to.rows += rows.size();
}

std::vector<std::uint32_t> Numbered(std::size_t first, std::size_t count) {
  std::vector<std::uint32_t> rows(count);
  for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<std::uint32_t>(first + i);
  return rows;
}

// A data set of these rows alone, in this order: training with it gives the same bits, and the rest
// of the source need not stay in memory.
LocalRows Compact(const data::LoadedData& loaded, const data::ClientPart& part,
                  bool uses_test_part) {
  const data::Dataset& source = *loaded.train;
  auto own = std::make_shared<data::Dataset>();
  own->input_shape = source.input_shape;
  own->values = source.values;
  own->labels_per_row = source.labels_per_row;
  own->byte_offset = source.byte_offset;
  own->byte_scale = source.byte_scale;
  TakeRows(source, part.train, *own);
  const std::size_t trained_on = own->rows;
  if (uses_test_part) {
    TakeRows(*loaded.test, Numbered(0, loaded.test->rows), *own);
  } else {
    TakeRows(source, part.test, *own);
  }
  LocalRows local;
  local.train = Numbered(0, trained_on);
  local.test = Numbered(trained_on, own->rows - trained_on);
  local.dataset = std::move(own);
  return local;
}

Error NoData() {
  return Error{7402, "no data are configured",
               "set data.path, data.dataset or data.experiment in client.toml, or with --set"};
}

std::uint32_t ClassesOf(const data::LoadedData& loaded) {
  return static_cast<std::uint32_t>(loaded.spec.classes.size());
}

Result<LocalData> LoadOwn(const config::ClientConfig& config,
                          const std::optional<data::DataSpec>& plan, std::uint32_t text_length) {
  data::DataOptions options = data::DataOptionsOf(config.data, 0);
  options.clients.reset();
  options.plan = plan;
  if (text_length > 0) options.text_length = text_length;
  SKEP_ASSIGN(const data::LoadedData loaded, data::Load(options));
  data::PartitionOptions split;
  split.rule = "iid";
  split.num_clients = 1;
  split.partition_seed = config.data.partition_seed;
  split.shuffle = config.data.shuffle;
  split.client_test_fraction = config.data.client_test_fraction;
  SKEP_ASSIGN(const data::Partition partition,
              data::Split(*loaded.train, ClassesOf(loaded), split));
  const data::ClientPart& part = partition.clients.front();
  const bool uses_test_part = part.test.empty() && loaded.test != nullptr;
  return LocalData{Compact(loaded, part, uses_test_part), part.name, loaded.notes};
}

config::DataFacts FactsOf(const data::LoadedData& loaded) {
  config::DataFacts facts;
  facts.rows = loaded.train->rows;
  if (!loaded.train->owner.empty()) {
    facts.owners = static_cast<std::uint32_t>(loaded.train->owner_names.size());
  }
  facts.classes = ClassesOf(loaded);
  facts.input = loaded.train->input_shape;
  return facts;
}

// The plan decides in the end; this is what the experiment would make of it.
std::optional<ExpectedWork> ExpectedOf(const config::Experiment& experiment) {
  const config::ModelConfig& wanted = experiment.model;
  Result<std::vector<std::string>> lines = wanted.layers;
  if (wanted.architecture != "layers") {
    lines = model::PresetLines(wanted.architecture, {.input = wanted.input,
                                                     .classes = wanted.classes,
                                                     .hidden = wanted.hidden,
                                                     .activation = wanted.activation,
                                                     .normalization = wanted.normalization});
  }
  if (!lines.has_value()) return std::nullopt;
  const auto model = model::ModelSpec::Parse(wanted.input, std::move(lines).value());
  if (!model.has_value()) return std::nullopt;
  const config::TrainingConfig& training = experiment.training;
  return ExpectedWork{.model_bytes = model->layout()->values() * sizeof(float),
                      .tasks = static_cast<double>(training.rounds) * training.clients_per_round /
                               std::max<std::uint32_t>(experiment.data.num_clients, 1)};
}

// The steps of a simulation's preparation, so that part k here holds the rows of client k there.
Result<LocalData> LoadPart(const config::ClientConfig& config, ClientNumber number,
                           const std::optional<data::DataSpec>& plan, std::uint32_t text_length) {
  auto loaded = config::LoadExperiment(
      config.experiment, {.sets = {}, .program = config::Program::kSimulator, .folder = {}});
  if (!loaded.has_value()) return config::AsError(loaded.problems());
  config::Experiment& experiment = loaded->value;
  data::DataOptions options = data::DataOptionsOf(experiment.data, experiment.seed);
  options.plan = plan;
  if (text_length > 0) options.text_length = text_length;
  SKEP_ASSIGN(const data::LoadedData source, data::Load(options));
  const auto problems = config::FinishExperiment(*loaded, FactsOf(source));
  if (!problems.empty()) return config::AsError(problems);
  SKEP_ASSIGN(
      const data::Partition partition,
      data::Split(*source.train, ClassesOf(source),
                  data::PartitionOptionsOf(experiment.data, experiment.seed), source.test.get()));
  const std::uint32_t part = config.part.value_or(number);
  if (part >= partition.clients.size()) {
    return Error{1102,
                 fmt::format("{} has {} parts, from 0; there is no part {}", config.experiment,
                             partition.clients.size(), part),
                 "set data.part, or raise data.num_clients of the experiment"};
  }
  const data::ClientPart& own = partition.clients[part];
  return LocalData{Compact(source, own, false), own.name, source.notes, ExpectedOf(experiment)};
}

}  // namespace

bool HasDataSource(const config::ClientConfig& config) {
  return !config.experiment.empty() || !config.data.path.empty() || !config.data.dataset.empty();
}

Result<LocalData> LoadLocalData(const config::ClientConfig& config, ClientNumber client,
                                const std::optional<data::DataSpec>& plan,
                                std::uint32_t text_length) {
  if (!HasDataSource(config)) return NoData();
  Result<LocalData> local = config.experiment.empty() ? LoadOwn(config, plan, text_length)
                                                      : LoadPart(config, client, plan, text_length);
  // What was read and left out again goes back to the system: this process idles most of its life.
  ::malloc_trim(0);
  return local;
}

Status CheckDataSource(const config::ClientConfig& config) {
  if (!HasDataSource(config)) return NoData();
  std::string path = config.data.path;
  if (!config.experiment.empty()) {
    const auto loaded = config::LoadExperiment(
        config.experiment, {.sets = {}, .program = config::Program::kSimulator, .folder = {}});
    if (!loaded.has_value()) return config::AsError(loaded.problems());
    path = loaded->value.data.path;
  }
  std::error_code failure;
  if (path.empty() || std::filesystem::exists(path, failure)) return Ok();
  return Error{1201, "cannot read " + path + ": No such file or directory",
               "paths in a file are relative to it"};
}

Result<std::string> TrainingIsa(const config::ClientConfig& config) {
  if (config.experiment.empty()) return std::string("auto");
  const auto loaded = config::LoadExperiment(
      config.experiment, {.sets = {}, .program = config::Program::kSimulator, .folder = {}});
  if (!loaded.has_value()) return config::AsError(loaded.problems());
  return loaded->value.run.isa;
}

}  // namespace skep::cli
