#include "simulator/commands/new.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/suggest.h"
#include "shared/config/utf8.h"
#include "shared/config/value.h"
#include "simulator/commands/templates.h"
#include "simulator/figures.h"
#include "simulator/json.h"
#include "simulator/names.h"
#include "simulator/plan.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOwners = 1000;
constexpr std::size_t kShownOwners = 20;
constexpr std::size_t kShownLabels = 10;

std::string Quoted(const std::string& text) {
  return config::ToToml(config::Value(text));
}

std::string ColumnNames(const data::SourceFacts& facts) {
  std::string names;
  for (const data::ColumnFacts& column : facts.columns)
    names += (names.empty() ? "" : ", ") + config::Printable(column.name);
  return names;
}

// SKEP-1202 with the columns that exist, if `name` is none of them.
std::optional<config::Problem> UnknownColumn(const data::SourceFacts& facts,
                                             const NewOptions& options, const std::string& name,
                                             const std::string& option) {
  std::vector<std::string_view> known;
  for (const data::ColumnFacts& column : facts.columns) {
    if (column.name == name) return std::nullopt;
    known.push_back(column.name);
  }
  config::Problem problem;
  problem.code = 1202;
  problem.message = fmt::format("{} has no column \"{}\" ({}); there are {}", options.data, name,
                                option, ColumnNames(facts));
  if (const std::string nearest = Suggest(name, known); !nearest.empty())
    problem.hint = fmt::format("did you mean \"{}\"?", nearest);
  return problem;
}

// Text columns that could say who owns a row.
std::vector<std::string> OwnerCandidates(const data::SourceFacts& facts, const std::string& label) {
  std::vector<std::string> names;
  for (const data::ColumnFacts& column : facts.columns) {
    if (column.is_numeric || column.name == label) continue;
    if (column.values.size() >= 2 && column.values.size() <= kMostOwners)
      names.push_back(column.name);
  }
  return names;
}

struct OwnersText {
  std::string table;
  std::string json;
};

// Owners with rows and labels, as the experiment will see them.
OwnersText DescribeOwners(const Prepared& prepared) {
  OwnersText text;
  std::vector<std::string> entries;
  std::size_t width = 6;
  const auto& clients = prepared.partition.clients;
  const auto name_of = [&](std::size_t i) {
    return clients[i].name.empty() ? std::to_string(i) : config::Printable(clients[i].name);
  };
  for (std::size_t i = 0; i < std::min(clients.size(), kShownOwners); ++i)
    width = std::max(width, Columns(name_of(i)));
  text.table = fmt::format("  {:<{}}  {:>9}  labels\n", "client", width, "rows");
  const std::uint32_t classes = prepared.labels.classes;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    std::string labels;
    std::size_t distinct = 0;
    JsonObject counts;
    for (std::uint32_t k = 0; k < classes; ++k) {
      const std::uint32_t count = prepared.labels.counts[i * classes + k];
      if (count == 0) continue;
      const std::string& name = prepared.data.spec.classes[k];
      if (++distinct <= kShownLabels)
        labels += fmt::format("{}{} \xC3\x97 {}", labels.empty() ? "" : ", ", Grouped(count),
                              config::Printable(name));
      counts.Add(name, count);
    }
    if (distinct > kShownLabels)
      labels += fmt::format(", \xE2\x80\xA6 and {} more", distinct - kShownLabels);
    const std::size_t rows = clients[i].train.size() + clients[i].test.size();
    JsonObject entry;
    entry.Add("client", name_of(i)).Add("rows", rows).Raw("labels", counts.Text());
    entries.push_back(entry.Text());
    if (i >= kShownOwners) continue;
    const std::string name = name_of(i);
    text.table += "  " + name + std::string(width - Columns(name), ' ') +
                  fmt::format("  {:>9}  {}\n", Grouped(rows), labels);
  }
  if (clients.size() > kShownOwners)
    text.table += fmt::format("  \xE2\x80\xA6 and {} more\n", clients.size() - kShownOwners);
  text.json = JsonArray(entries);
  return text;
}

// The run's name must have a form that the folder's name may lack.
std::string RunNameOf(const std::string& folder) {
  std::string name;
  for (const char c : fs::path(folder).filename().string()) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_good = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') ||
                         lower == '_' || lower == '-';
    name += is_good ? lower : '-';
  }
  while (!name.empty() && (name.front() == '-' || name.front() == '_')) name.erase(0, 1);
  constexpr std::size_t kLongest = 64;
  return name.empty() ? "experiment" : name.substr(0, kLongest);
}

Status WriteText(const fs::path& path, const std::string& text) {
  return WriteFileAtomically(path.string(), AsBytes(text));
}

// The data that a template brings along; empty: none.
std::string DataNameOf(const NewOptions& options) {
  if (!options.data.empty()) return "";
  if (options.template_ == "csv") return "table.csv";
  if (options.template_ == "sensors") return "windows.csv";
  if (options.template_ == "shakespeare") return "plays.txt";
  return "";
}

struct Draft {
  std::string toml;
  std::string data;       // what is written beside it, or empty
  std::string data_name;  // under this name
  std::vector<std::string> candidates;
};

// `data` as the experiment's file names it.
std::string PathOf(const NewOptions& options) {
  if (fs::path(options.data).is_absolute()) return options.data;
  std::error_code failed;
  return fs::relative(fs::absolute(options.data), fs::absolute(options.name), failed).string();
}

Draft DraftForPlays(const NewOptions& options) {
  constexpr std::uint32_t kRounds = 200;
  constexpr std::uint32_t kExampleRounds = 20;
  Draft draft;
  if (options.data.empty()) {
    draft.data = ExamplePlay();
    draft.data_name = DataNameOf(options);
  }
  const std::string path = options.data.empty() ? draft.data_name : PathOf(options);
  draft.toml = PlaysTemplate(RunNameOf(options.name), Quoted(path),
                             options.data.empty() ? kExampleRounds : kRounds);
  return draft;
}

// The experiment for a table of the user's own.
config::Validated<Draft> DraftForData(const NewOptions& options) {
  data::DataOptions source;
  source.path = options.data;
  if (!options.decimal.empty()) source.decimal = options.decimal.front();
  const Result<data::SourceFacts> facts = data::Inspect(source);
  if (!facts.has_value()) return std::vector{AsProblem(facts.error())};
  std::vector<config::Problem> problems;
  const auto check = [&](const std::string& column, const std::string& option) {
    if (column.empty() || column == "@file") return;
    if (auto problem = UnknownColumn(*facts, options, column, option))
      problems.push_back(std::move(*problem));
  };
  check(options.label, "--label");
  check(options.client, "--client");
  if (!problems.empty()) return problems;
  const std::string label =
      options.label.empty() && !facts->columns.empty() ? facts->columns.back().name : options.label;
  Draft draft;
  if (options.client.empty()) draft.candidates = OwnerCandidates(*facts, label);
  draft.toml = TableTemplate({.name = RunNameOf(options.name),
                              .path = Quoted(PathOf(options)),
                              .label = Quoted(label),
                              .client = options.client.empty() ? "" : Quoted(options.client),
                              .missing = options.missing.empty() ? "" : Quoted(options.missing),
                              .decimal = options.decimal.empty() ? "" : Quoted(options.decimal)});
  return draft;
}

config::Validated<Draft> MakeDraft(const NewOptions& options) {
  if (options.template_ == "shakespeare") return DraftForPlays(options);
  if (!options.data.empty()) return DraftForData(options);
  Draft draft;
  draft.data_name = DataNameOf(options);
  if (options.template_ == "csv") {
    draft.toml = TableTemplate({.name = RunNameOf(options.name),
                                .path = "\"table.csv\"",
                                .label = "\"outcome\"",
                                .client = "\"site\"",
                                .missing = "",
                                .decimal = ""});
    draft.data = ExampleTable();
  } else if (options.template_ == "sensors") {
    draft.toml = SensorsTemplate(RunNameOf(options.name));
    draft.data = ExampleWindows();
  } else {
    draft.toml = FashionTemplate(RunNameOf(options.name));
  }
  return draft;
}

// There is no file yet whose keys a remedy could name: here they are options.
std::vector<config::Problem> WithOptions(std::vector<config::Problem> problems) {
  for (config::Problem& problem : problems) {
    if (problem.hint.starts_with("data.missing"))
      problem.hint = "--missing drop leaves such rows out, --missing mean fills in numbers";
    if (problem.message.ends_with("set decimal = \",\"")) problem.hint = "with --decimal ,";
  }
  return problems;
}

int Write(const NewOptions& options, const Draft& draft, const Console& console) {
  const fs::path folder = options.name;
  const std::string file = (folder / "experiment.toml").string();
  std::error_code failed;
  const bool is_new_folder = fs::create_directories(folder, failed);
  if (failed)
    return console.Fail(Error{
        4001, fmt::format("cannot make the folder {}: {}", options.name, failed.message()), ""});
  Status written = Ok();
  if (!draft.data.empty()) written = WriteText(folder / draft.data_name, draft.data);
  if (written.has_value()) written = WriteText(file, draft.toml);
  if (!written.has_value()) return console.Fail(written.error());
  const bool has_table = !options.data.empty() || !draft.data.empty();
  std::string text = fmt::format("made     {}\n", file);
  JsonObject object;
  object.Add("file", file);
  if (has_table) {
    const auto prepared = Prepare({.file = file, .sets = {}, .folder = ""});
    if (!prepared.has_value()) {
      fs::remove(file, failed);
      if (is_new_folder) fs::remove_all(folder, failed);
      return console.Fail(WithOptions(prepared.problems()));
    }
    const OwnersText owners = DescribeOwners(*prepared);
    text += owners.table;
    object.Raw("clients", owners.json);
    for (const std::string& note : prepared->data.notes)
      console.Say({.code = 0, .text = note, .hint = ""});
  }
  if (!draft.candidates.empty()) {
    std::string names;
    for (const std::string& name : draft.candidates)
      names += (names.empty() ? "" : ", ") + config::Printable(name);
    text += fmt::format("no owner column was given; --client could name one of: {}\n", names);
  }
  text += fmt::format("next     skep-simulator run {}\n", file);
  console.Print(text);
  console.PrintJson(object.Text());
  return kExitDone;
}

}  // namespace

int NewCommand(const NewOptions& options, const Console& console) {
  const std::string file = (fs::path(options.name) / "experiment.toml").string();
  if (fs::exists(file))
    return console.Fail(Error{1102, file + " exists already; nothing was written",
                              "give another name, or remove it"});
  const std::string data = DataNameOf(options);
  if (!data.empty() && fs::exists(fs::path(options.name) / data))
    return console.Fail(
        Error{1102, fmt::format("{}/{} exists already; nothing was written", options.name, data),
              "give another name, or name it with --data"});
  if (!options.data.empty() && (options.template_ == "fashion" || options.template_ == "sensors"))
    return console.Fail(
        Error{1103, "--data contradicts --template " + options.template_, "give one of them"});
  const bool names_columns = !options.client.empty() || !options.label.empty() ||
                             !options.missing.empty() || !options.decimal.empty();
  if (options.template_ == "shakespeare" && names_columns)
    return console.Fail(Error{1103, "plays have no columns",
                              "leave --client, --label, --missing and --decimal out"});
  if (options.data.empty() && (!options.client.empty() || !options.label.empty()))
    return console.Fail(
        Error{1103, "--client and --label name columns of --data", "give --data FILE"});
  if (options.data.empty() && (!options.missing.empty() || !options.decimal.empty()))
    return console.Fail(
        Error{1103, "--missing and --decimal are about --data", "give --data FILE"});
  const auto draft = MakeDraft(options);
  if (!draft.has_value()) return console.Fail(draft.problems());
  return Write(options, *draft, console);
}

}  // namespace skep::simulator
