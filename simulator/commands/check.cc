#include "simulator/commands/check.h"

#include <algorithm>

#include <fmt/format.h>

#include "shared/config/utf8.h"
#include "simulator/commands/determinism.h"
#include "simulator/figures.h"
#include "simulator/json.h"
#include "simulator/plan.h"

namespace skep::simulator {
namespace {

std::vector<std::size_t> Sizes(const data::Partition& partition) {
  std::vector<std::size_t> sizes;
  for (const data::ClientPart& client : partition.clients) sizes.push_back(client.train.size());
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

std::uint64_t DataBytes(const data::Dataset& dataset) {
  return dataset.bytes.size() + dataset.floats.size() * sizeof(float) +
         dataset.labels.size() * sizeof(std::int32_t);
}

struct PlanFigures {
  std::uint64_t parameters = 0;
  std::uint64_t model_bytes = 0;
  std::uint64_t round_bytes = 0;  // each way, if all of the invited report
  std::uint64_t data_bytes = 0;
  std::vector<std::size_t> sizes;
};

PlanFigures FiguresOf(const Plan& plan) {
  PlanFigures figures;
  figures.parameters = plan.spec->model.layout()->values();
  figures.model_bytes = plan.spec->model.layout()->model_values() * sizeof(float);
  figures.round_bytes = figures.model_bytes * plan.spec->training.invited;
  figures.data_bytes = DataBytes(*plan.prepared.data.train);
  if (plan.prepared.data.test) figures.data_bytes += DataBytes(*plan.prepared.data.test);
  figures.sizes = Sizes(plan.prepared.partition);
  return figures;
}

std::string InputText(const std::vector<std::uint32_t>& shape) {
  std::string text;
  for (const std::uint32_t size : shape)
    text += (text.empty() ? "" : " \xC3\x97 ") + std::to_string(size);
  return text;
}

std::string PlanText(const Plan& plan, const std::string& file) {
  const config::Experiment& experiment = plan.experiment();
  const config::TrainingConfig& training = experiment.training;
  const PlanFigures figures = FiguresOf(plan);
  const data::LoadedData& data = plan.prepared.data;
  std::string text = fmt::format("{} is valid\n", config::Printable(file));
  text += fmt::format("  data       {} training and {} test examples, {} classes, input {}\n",
                      Grouped(data.train->rows), Grouped(data.test ? data.test->rows : 0),
                      data.spec.classes.size(), InputText(data.train->input_shape));
  text += fmt::format("  clients    {}, {}; {} to {} training examples each, median {}\n",
                      Grouped(figures.sizes.size()), PartitionText(experiment.data),
                      Grouped(figures.sizes.front()), Grouped(figures.sizes.back()),
                      Grouped(figures.sizes[figures.sizes.size() / 2]));
  text += fmt::format("  model      {}, {} parameters, {}\n", experiment.model.architecture,
                      Grouped(figures.parameters), ByteText(figures.model_bytes));
  text += fmt::format("  training   {}, {}, {} clients each ({} invited, at least {} reports)\n",
                      training.algorithm, Plural(training.rounds, "round"),
                      training.clients_per_round, training.invited, training.min_reports);
  text +=
      fmt::format("  bytes      {} up and as many down a round, {} each way in all\n",
                  ByteText(figures.round_bytes), ByteText(figures.round_bytes * training.rounds));
  text += fmt::format("  memory     {} of data, {} for training with {}\n",
                      BinaryByteText(figures.data_bytes), BinaryByteText(plan.memory_bytes),
                      Plural(plan.jobs, "job"));
  text += fmt::format("  device     {}\n", DeviceText(plan.device));
  text += fmt::format(
      "  repeats    seed {}, cpu {}, configuration {}\xE2\x80\xA6, data {}\xE2\x80\xA6\n",
      experiment.seed, kernels::IsaName(plan.isa), plan.config_sha256.Hex().substr(0, 12),
      data.hash.Hex().substr(0, 12));
  return text;
}

std::string PlanJson(const Plan& plan, const std::string& determinism) {
  const config::TrainingConfig& training = plan.experiment().training;
  const PlanFigures figures = FiguresOf(plan);
  const data::LoadedData& data = plan.prepared.data;
  JsonObject object;
  object.Add("name", plan.experiment().name).Add("train_examples", data.train->rows);
  object.Add("test_examples", data.test ? data.test->rows : 0)
      .Add("classes", data.spec.classes.size());
  object.Add("clients", figures.sizes.size()).Add("smallest_client", figures.sizes.front());
  object.Add("largest_client", figures.sizes.back()).Add("model_parameters", figures.parameters);
  object.Add("rounds", training.rounds).Add("clients_per_round", training.clients_per_round);
  object.Add("bytes_up_per_round", figures.round_bytes);
  object.Add("bytes_down_per_round", figures.round_bytes).Add("data_bytes", figures.data_bytes);
  object.Add("memory_plan_bytes", plan.memory_bytes).Add("jobs", plan.jobs);
  object.Add("device", plan.device.name);
  if (!plan.device.why.empty()) object.Add("device_why", plan.device.why);
  if (plan.device.api != nullptr) {
    object.Add("lanes", plan.device.lanes.lanes);
    object.Add("device_memory_plan_bytes", plan.device.lanes.bytes);
  }
  object.Add("isa", kernels::IsaName(plan.isa)).Add("config_sha256", plan.config_sha256.Hex());
  object.Add("data_sha256", data.hash.Hex());
  if (!determinism.empty()) object.Add("determinism", determinism);
  return object.Text();
}

std::string EffectiveJson(const config::Effective& effective) {
  JsonObject object;
  for (const config::Setting& setting : effective.settings()) {
    if (!setting.value) continue;
    JsonObject entry;
    entry.Add("value", config::ToToml(*setting.value)).Add("source", setting.SourceText());
    object.Raw(setting.key->path, entry.Text());
  }
  return object.Text();
}

}  // namespace

int CheckCommand(const CheckOptions& options, const Console& console) {
  auto prepared = Prepare({.file = options.file, .sets = options.sets, .folder = ""});
  if (!prepared.has_value()) return console.Fail(prepared.problems());
  auto plan = MakePlan(std::move(prepared).value(), RunId{});
  if (!plan.has_value()) return console.Fail(plan.problems());
  for (const config::Note& note : plan->prepared.loaded.notes) console.Say(note);
  for (const std::string& text : plan->prepared.data.notes)
    console.Say({.code = 0, .text = text, .hint = ""});
  for (const std::string& text : plan->prepared.partition.notes)
    console.Say({.code = 0, .text = text, .hint = ""});
  if (options.shows_effective) {
    console.Print(plan->prepared.loaded.effective.AsTable());
    console.PrintJson(EffectiveJson(plan->prepared.loaded.effective));
    return kExitDone;
  }
  console.Print(PlanText(*plan, options.file));
  if (!options.is_determinism) {
    console.PrintJson(PlanJson(*plan, ""));
    return kExitDone;
  }
  const Result<DeterminismVerdict> verdict = CompareJobs(*plan, options.rounds);
  if (!verdict.has_value()) return console.Fail(verdict.error());
  console.Print(verdict->text + "\n");
  if (verdict->is_identical) console.PrintJson(PlanJson(*plan, verdict->text));
  if (verdict->is_identical) return kExitDone;
  return console.options().is_json ? console.Fail(Error{9001, verdict->text, ""}) : kExitFailed;
}

}  // namespace skep::simulator
