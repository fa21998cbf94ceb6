#include "shared/config/client_config.h"

#include "shared/config/experiment_values.h"
#include "shared/config/reader.h"

namespace skep::config {
namespace {

std::string TextOrNone(const Effective& e, std::string_view path) {
  return e.Has(path) ? e.Text(path) : std::string();
}

void CheckClient(Reading& reading) {
  const Effective& e = reading.effective;
  for (const std::string_view path : {"data.dataset", "data.path"}) {
    if (e.IsGiven("data.experiment") && e.IsGiven(path))
      AddContradiction(reading, "data.experiment", path, "give one");
  }
  if (e.IsGiven("data.client_file") && !e.IsGiven("data.client_column")) {
    reading.AddAtKey(
        "data.client_file",
        {.code = 1103, .message = "\"data.client_file\" is set but \"data.client_column\" is not"});
  }
}

void FillLimits(const Effective& e, ClientConfig::Limits& limits) {
  limits.threads = static_cast<std::uint32_t>(e.Whole("limits.threads"));
  limits.cpu = e.Number("limits.cpu");
  limits.device = e.Text("limits.device");
  limits.memory = e.Size("limits.memory");
  limits.storage = e.Size("limits.storage");
  limits.bytes_per_day = e.Size("limits.bytes_per_day");
  limits.per_run = e.Duration("limits.per_run");
  limits.between_runs = e.Duration("limits.between_runs");
}

ClientConfig FillClient(const Effective& e, const std::string& folder) {
  ClientConfig client;
  client.endpoint = TextOrNone(e, "aggregator.endpoint");
  client.population = TextOrNone(e, "aggregator.population");
  client.storage_dir = PathBelow(folder, e.Text("storage.dir"));
  client.eligibility = {.charging = e.Boolean("eligibility.charging"),
                        .idle = e.Boolean("eligibility.idle"),
                        .unmetered = e.Boolean("eligibility.unmetered"),
                        .min_battery = e.Number("eligibility.min_battery")};
  FillLimits(e, client.limits);
  FillDataSource(e, folder, client.data);
  client.data.shuffle = e.Boolean("data.shuffle");
  client.data.partition_seed = e.Whole("data.partition_seed");
  client.experiment = PathBelow(folder, TextOrNone(e, "data.experiment"));
  if (e.Has("data.part")) client.part = static_cast<std::uint32_t>(e.Whole("data.part"));
  client.log_format = e.Text("log.format");
  client.log_level = e.Text("log.level");
  return client;
}

}  // namespace

Validated<Loaded<ClientConfig>> ParseClientConfig(const std::string& text, const std::string& path,
                                                  const ClientLoadOptions& options) {
  Reading reading = ReadConfiguration(ClientSchema(), text, path, options.sets);
  if (!reading.is_readable) return std::move(reading.problems);
  ApplyConditions(reading);
  CheckClient(reading);
  if (!reading.problems.empty()) {
    SortProblems(reading.problems);
    return std::move(reading.problems);
  }
  ClientConfig client = FillClient(reading.effective, FolderOf(path));
  return Loaded<ClientConfig>{std::move(client), std::move(reading.effective),
                              std::move(reading.notes)};
}

Validated<Loaded<ClientConfig>> LoadClientConfig(const std::string& path,
                                                 const ClientLoadOptions& options) {
  const auto text = ReadConfigurationFile(path);
  if (!text) return text.problems();
  return ParseClientConfig(*text, path, options);
}

}  // namespace skep::config
