#include "shared/config/experiment.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "shared/config/experiment_rules.h"
#include "shared/config/experiment_values.h"
#include "shared/config/reader.h"

namespace skep::config {
namespace {

void FinishClients(Reading& reading, const DataFacts& facts) {
  Effective& e = reading.effective;
  if (e.Text("data.partition") == "natural" && facts.owners) {
    e.Derive("data.num_clients", {static_cast<std::int64_t>(*facts.owners)});
    if (e.Whole("data.num_clients") > *facts.owners) {
      reading.AddAtValue(
          "data.num_clients",
          {.code = 1105,
           .message = fmt::format("\"data.num_clients\" is {}; the data have {} owners",
                                  e.Whole("data.num_clients"), *facts.owners)});
    }
  }
  if (!e.Has("data.num_clients")) return;
  DeriveCounts(e);
  CheckCounts(reading);
  const std::uint64_t needed = e.Whole("data.num_clients") * e.Whole("data.min_examples");
  if (!facts.rows || *facts.rows >= needed) return;
  reading.AddAtKey(
      e.IsGiven("data.min_examples") ? "data.min_examples" : "data.num_clients",
      {.code = 1104,
       .message =
           fmt::format("{} clients x \"data.min_examples\" ({}) need {} examples; the data have {}",
                       Grouped(e.Whole("data.num_clients")), Grouped(e.Whole("data.min_examples")),
                       Grouped(needed), Grouped(*facts.rows))});
}

// Held at what no example has: four sizes overflow 64 bits.
constexpr std::uint64_t kBeyond = std::uint64_t{1} << 32U;

std::uint64_t Product(const std::vector<std::uint32_t>& shape) {
  return std::accumulate(
      shape.begin(), shape.end(), std::uint64_t{1},
      [](std::uint64_t product, std::uint32_t size) { return std::min(kBeyond, product * size); });
}

std::string ValuesText(std::uint64_t values) {
  if (values >= kBeyond) return "more than 2^32 values";
  return fmt::format("{} {}", Grouped(values), values == 1 ? "value" : "values");
}

void FinishModel(Reading& reading, const DataFacts& facts) {
  Effective& e = reading.effective;
  if (!facts.input.empty()) {
    List input;
    for (const std::uint32_t size : facts.input) input.push_back({std::int64_t{size}});
    e.Derive("model.input", {std::move(input)});
    // The form may differ ([784] for [1, 28, 28]), the number of values may not.
    const std::uint64_t values = Product(e.Wholes("model.input"));
    if (values != Product(facts.input)) {
      reading.AddAtValue(
          "model.input",
          {.code = 1301,
           .message = fmt::format("\"model.input\" is {} ({}); an example of the data has {}",
                                  ToToml(*e.at("model.input").value), ValuesText(values),
                                  Grouped(Product(facts.input))),
           .hint = "leave it out: the data say it"});
    }
  }
  if (!facts.classes) return;
  e.Derive("model.classes", {std::int64_t{*facts.classes}});
  if (e.Whole("model.classes") == *facts.classes) return;
  reading.AddAtValue("model.classes",
                     {.code = 1301,
                      .message = fmt::format("\"model.classes\" is {}; the data have {} classes",
                                             e.Whole("model.classes"), *facts.classes),
                      .hint = "leave it out: the data say it"});
}

void FinishWeights(Reading& reading, const DataFacts& facts) {
  const Effective& e = reading.effective;
  const bool weighs_examples = e.Text("training.weighting") == "examples";
  if (!weighs_examples || !facts.largest_client ||
      *facts.largest_client <= e.Whole("admission.max_weight"))
    return;
  reading.AddAtValue(
      "admission.max_weight",
      {.code = 1102,
       .message = fmt::format("{} has {} examples; \"admission.max_weight\" is {}",
                              facts.largest_client_name, Grouped(*facts.largest_client),
                              Grouped(e.Whole("admission.max_weight"))),
       .hint = "raise it, or split that client's data"});
}

}  // namespace

Validated<Loaded<Experiment>> ParseExperiment(const std::string& text, const std::string& path,
                                              const LoadOptions& options) {
  Reading reading = ReadConfiguration(ExperimentSchema(), text, path, options.sets);
  if (!reading.is_readable) return std::move(reading.problems);
  DeriveBeforeConditions(reading, path, options.program);
  ApplyConditions(reading);
  DeriveAfterConditions(reading);
  CheckExperiment(reading);
  if (!reading.problems.empty()) {
    SortProblems(reading.problems);
    return std::move(reading.problems);
  }
  AddWarnings(reading, options.program);
  const std::string folder = options.folder.empty() ? FolderOf(path) : options.folder;
  Experiment experiment = FillExperiment(reading.effective, folder);
  return Loaded<Experiment>{std::move(experiment), std::move(reading.effective),
                            std::move(reading.notes)};
}

Validated<Loaded<Experiment>> LoadExperiment(const std::string& path, const LoadOptions& options) {
  const auto text = ReadConfigurationFile(path);
  if (!text) return text.problems();
  return ParseExperiment(*text, path, options);
}

std::vector<Problem> FinishExperiment(Loaded<Experiment>& loaded, const DataFacts& facts) {
  Reading reading(ExperimentSchema());
  reading.effective = std::move(loaded.effective);
  FinishClients(reading, facts);
  FinishModel(reading, facts);
  FinishWeights(reading, facts);
  loaded.effective = std::move(reading.effective);
  FillLate(loaded.effective, loaded.value);
  SortProblems(reading.problems);
  return std::move(reading.problems);
}

void SetDrawnSeed(Loaded<Experiment>& loaded, std::uint64_t seed) {
  loaded.effective.Derive("seed", {static_cast<std::int64_t>(seed)});
  FillLate(loaded.effective, loaded.value);
}

}  // namespace skep::config
