// client.toml.
#include <array>

#include "shared/config/experiment_schema.h"

namespace skep::config {
namespace {

constexpr std::array kTopRows = std::to_array<Row>({
    {.key = "schema",
     .types = kInteger,
     .fallback = "1",
     .text = "Version of the file.",
     .range = "1..1"},
});
constexpr std::array kAggregatorRows = std::to_array<Row>({
    {.key = "endpoint",
     .types = kText,
     .fallback = "",
     .text = "Where the aggregator is; if given, it must agree with the enrolment.",
     .depends = "the enrolment",
     .form = Form::kHostPort},
    {.key = "population",
     .types = kText,
     .fallback = "",
     .text = "Population to train for; needed if the device has several.",
     .depends = "the enrolment",
     .form = Form::kName},
    {.key = "proxy",
     .types = kText,
     .fallback = "\"\"",
     .text = "HTTP proxy, as http://HOST:PORT; variables of the environment are never used.",
     .is_absent = true},
});
constexpr std::array kStorageRows = std::to_array<Row>({
    {.key = "dir",
     .types = kText,
     .fallback = "\"/var/lib/skep-client\"",
     .text = "Folder of keys, work and history, mode 0700.",
     .form = Form::kNotEmpty},
});
constexpr std::array kEligibilityRows = std::to_array<Row>({
    {.key = "charging", .types = kBool, .fallback = "false", .text = "Train only while charging."},
    {.key = "idle",
     .types = kBool,
     .fallback = "false",
     .text = "Train only while the device is idle."},
    {.key = "unmetered",
     .types = kBool,
     .fallback = "false",
     .text = "Train only on an unmetered network."},
    {.key = "min_battery",
     .types = kNumber,
     .fallback = "0.3",
     .text = "Least charge of the battery; ignored while charging.",
     .range = "0..1"},
});
constexpr std::array kLimitRows = std::to_array<Row>({
    {.key = "threads",
     .types = kInteger,
     .fallback = "1",
     .text = "Threads of training.",
     .range = "1..64",
     .is_absent = true},
    {.key = "cpu",
     .types = kNumber,
     .fallback = "0.7",
     .text = "Share of the CPU that training takes.",
     .range = "0.05..1"},
    {.key = "device",
     .types = kText,
     .fallback = "\"auto\"",
     .text = "What training runs on.",
     .words = "auto | cpu | cuda:N"},
    {.key = "memory",
     .types = kSize,
     .fallback = "\"256MiB\"",
     .text = "Most memory of a task.",
     .range = "16MiB.."},
    {.key = "storage",
     .types = kSize,
     .fallback = "\"512MiB\"",
     .text = "Most bytes kept on disk.",
     .range = "16MiB.."},
    {.key = "bytes_per_day",
     .types = kSize,
     .fallback = "\"64MiB\"",
     .text = "Most bytes sent and received in a day.",
     .range = "1MiB.."},
    {.key = "per_run",
     .types = kDuration,
     .fallback = "\"10m\"",
     .text = "Longest work on one task.",
     .range = "10s..6h"},
    {.key = "between_runs",
     .types = kDuration,
     .fallback = "\"0s\"",
     .text = "Rest between two tasks.",
     .range = "0s..30d"},
});
constexpr std::array kPartRows = std::to_array<Row>({
    {.key = "shuffle",
     .types = kBool,
     .fallback = "true",
     .text = "Whether the examples are put in random order."},
    {.key = "partition_seed",
     .types = kInteger,
     .fallback = "42",
     .text = "Seed of that order and of the test part.",
     .range = "0..9223372036854775807"},
    {.key = "experiment",
     .types = kText,
     .fallback = "",
     .text = "An experiment.toml: train on one part of its data, split as the simulator does.",
     .form = Form::kNotEmpty},
    {.key = "part",
     .types = kInteger,
     .fallback = "",
     .text = "Which part, from 0.",
     .range = "0..9999999",
     .depends = "the client number",
     .only_with = "data.experiment"},
});
constexpr std::array kPrivacyRows = std::to_array<Row>({
    {.key = "mechanism",
     .types = kText,
     .fallback = "\"none\"",
     .text = "Least privacy that this device insists on.",
     .words = "none | central_gaussian | central_tree | local_gaussian | distributed_gaussian | "
              "distributed_skellam | dp_sgd",
     .present = "none"},
    {.key = "max_epsilon",
     .types = kNumber,
     .fallback = "",
     .text = "Largest budget that it accepts.",
     .range = "0<..",
     .is_absent = true},
    {.key = "clip_norm",
     .types = kNumber,
     .fallback = "",
     .text = "Largest clip that it accepts.",
     .range = "0<..",
     .is_absent = true},
});
constexpr std::array kSecureRows = std::to_array<Row>({
    {.key = "required",
     .types = kBool,
     .fallback = "false",
     .text = "Whether the device takes part only in sums that nobody can open.",
     .is_absent = true},
    {.key = "mode",
     .types = kText,
     .fallback = "\"malicious\"",
     .text = "Aggregator against which it wants protection.",
     .words = "curious | malicious",
     .is_absent = true},
    {.key = "min_clients",
     .types = kInteger,
     .fallback = "8",
     .text = "Least clients of a sum.",
     .range = "3..10000",
     .is_absent = true},
    {.key = "min_honest",
     .types = kInteger,
     .fallback = "4",
     .text = "Least honest clients of a sum.",
     .range = "2..10000",
     .is_absent = true},
    {.key = "corrupt_rate",
     .types = kInteger,
     .fallback = "500",
     .text = "Share of corrupt clients to withstand, in 1/10,000.",
     .range = "0..9000",
     .is_absent = true},
    {.key = "security_bits",
     .types = kInteger,
     .fallback = "40",
     .text = "Least statistical security.",
     .range = "40..128",
     .is_absent = true},
    {.key = "grinding_bits",
     .types = kInteger,
     .fallback = "64",
     .text = "Least work to choose neighbours.",
     .range = "0..128",
     .is_absent = true},
    {.key = "roster_trust",
     .types = kText,
     .fallback = "\"ca\"",
     .text = "Why it believes in the others' keys.",
     .words = "ca | pinned | aggregator",
     .is_absent = true},
    {.key = "max_weight",
     .types = kInteger,
     .fallback = "1048576",
     .text = "Largest weight that it accepts.",
     .range = "1..1048576",
     .is_absent = true},
    {.key = "roster_pins",
     .types = kTexts,
     .fallback = "[]",
     .text = "SHA-256 of the keys that it believes in.",
     .is_absent = true,
     .form = Form::kHash},
    {.key = "roster_ca",
     .types = kText,
     .fallback = "",
     .text = "PEM file of the authority that it believes in.",
     .is_absent = true},
});
constexpr std::array kLogRows = std::to_array<Row>({
    {.key = "format",
     .types = kText,
     .fallback = "\"text\"",
     .text = "Form of a log line.",
     .words = "text | json"},
    {.key = "level",
     .types = kText,
     .fallback = "\"info\"",
     .text = "Least level that is written.",
     .words = "error | warning | info | debug"},
});

// The data source of an experiment, without what the plan decides: columns, classes, categories and
// scaling.
std::vector<Row> DataRows() {
  std::vector<Row> rows;
  for (Row row : DataSourceRows()) {
    const bool is_of_plan = row.key == "features" || row.key == "classes" ||
                            row.key == "categories" || row.key == "scaling";
    if (is_of_plan) continue;
    if (row.key == "dataset") {
      row.fallback = {};
      row.depends = {};
    }
    if (!row.only_with.empty()) row.only_with = "data.path";
    rows.push_back(row);
  }
  rows.insert(rows.end(), kPartRows.begin(), kPartRows.end());
  return rows;
}

}  // namespace

const Schema& ClientSchema() {
  static const std::vector<Row> data_rows = DataRows();
  static const Schema schema(
      "client.toml", "The reference client on a device.", false,
      {{"", "The file.", kTopRows},
       {"aggregator", "Whom to train for.", kAggregatorRows},
       {"storage", "What the client keeps.", kStorageRows},
       {"eligibility", "When it trains.", kEligibilityRows},
       {"limits", "What it may use.", kLimitRows},
       {"data", "What it trains on.", data_rows},
       {"privacy", "The least privacy it insists on.", kPrivacyRows},
       {"secure_aggregation", "The least secrecy it insists on.", kSecureRows},
       {"log", "What is written to standard error.", kLogRows}});
  return schema;
}

}  // namespace skep::config
