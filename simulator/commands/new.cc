#include "simulator/commands/new.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/suggest.h"
#include "shared/config/utf8.h"
#include "shared/config/value.h"
#include "simulator/command_line.h"
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

constexpr const char* kHeaderHint =
    "no column holds numbers, so the first line counts as data; if it names the columns: --header";

// A header is told from data by the numbers below it.
bool IsAllText(const data::SourceFacts& facts) {
  return std::none_of(facts.columns.begin(), facts.columns.end(),
                      [](const data::ColumnFacts& column) { return column.is_numeric; });
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
  if (problem.hint.empty() && IsAllText(facts) && !options.has_header) problem.hint = kHeaderHint;
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

// Rows by what they are for.
struct RowCounts {
  std::size_t train = 0;
  std::size_t held_out = 0;  // on the client
  std::size_t test = 0;      // in the test part of all

  [[nodiscard]] std::size_t total() const { return train + held_out + test; }
};

std::string TableLine(const std::string& name, std::size_t width, const RowCounts& rows,
                      const std::string& labels) {
  std::string line = "  " + name + std::string(width - Columns(name), ' ');
  line += fmt::format("  {:>9}  {:>9}  {:>9}  {:>9}", Grouped(rows.train), Grouped(rows.held_out),
                      Grouped(rows.test), Grouped(rows.total()));
  return line + (labels.empty() ? "" : "  " + labels) + "\n";
}

// How many rows of each class a client has, whatever they are for.
std::vector<std::size_t> LabelsOf(const Prepared& prepared, std::size_t client) {
  const std::uint32_t classes = prepared.labels.classes;
  std::vector<std::size_t> counts(classes);
  for (std::uint32_t k = 0; k < classes; ++k)
    counts[k] = prepared.labels.counts[client * classes + k];
  for (const std::uint32_t row : prepared.partition.clients[client].test_part)
    ++counts[static_cast<std::size_t>(prepared.data.test->labels[row])];
  return counts;
}

std::string LabelsText(const Prepared& prepared, const std::vector<std::size_t>& counts) {
  std::string labels;
  std::size_t distinct = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0 || ++distinct > kShownLabels) continue;
    labels += fmt::format("{}{} \xC3\x97 {}", labels.empty() ? "" : ", ", Grouped(counts[k]),
                          config::Printable(prepared.data.spec.classes[k]));
  }
  if (distinct > kShownLabels)
    labels += fmt::format(", \xE2\x80\xA6 and {} more", distinct - kShownLabels);
  return labels;
}

std::string OwnerJson(const Prepared& prepared, const std::string& name, const RowCounts& rows,
                      const std::vector<std::size_t>& counts) {
  JsonObject labels;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] > 0) labels.Add(prepared.data.spec.classes[k], counts[k]);
  }
  JsonObject entry;
  entry.Add("client", name).Add("rows", rows.total()).Add("train", rows.train);
  entry.Add("held_out", rows.held_out).Add("test", rows.test).Raw("labels", labels.Text());
  return entry.Text();
}

// Owners with rows and labels, as the experiment will see them. Every row of the table is in it:
// a test part that belongs to nobody has a line of its own.
OwnersText DescribeOwners(const Prepared& prepared) {
  OwnersText text;
  std::vector<std::string> entries;
  std::size_t width = 9;
  const auto& clients = prepared.partition.clients;
  const auto name_of = [&](std::size_t i) {
    return clients[i].name.empty() ? std::to_string(i) : config::Printable(clients[i].name);
  };
  for (std::size_t i = 0; i < std::min(clients.size(), kShownOwners); ++i)
    width = std::max(width, Columns(name_of(i)));
  text.table = fmt::format("  {:<{}}  {:>9}  {:>9}  {:>9}  {:>9}  labels\n", "client", width,
                           "train", "held out", "test", "total");
  RowCounts all;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const RowCounts rows{.train = clients[i].train.size(),
                         .held_out = clients[i].test.size(),
                         .test = clients[i].test_part.size()};
    const std::vector<std::size_t> counts = LabelsOf(prepared, i);
    entries.push_back(OwnerJson(prepared, name_of(i), rows, counts));
    all.train += rows.train;
    all.held_out += rows.held_out;
    all.test += rows.test;
    if (i < kShownOwners)
      text.table += TableLine(name_of(i), width, rows, LabelsText(prepared, counts));
  }
  if (clients.size() > kShownOwners)
    text.table += fmt::format("  \xE2\x80\xA6 and {} more\n", clients.size() - kShownOwners);
  const std::size_t test = prepared.data.test == nullptr ? 0 : prepared.data.test->rows;
  const RowCounts nobodys{.train = 0, .held_out = 0, .test = test - std::min(test, all.test)};
  if (nobodys.test > 0) text.table += TableLine("test part", width, nobodys, "");
  all.test = test;
  text.table += TableLine("all", width, all, "");
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
  std::string note;  // or empty
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
  if (options.has_header) source.header = true;
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
  if (IsAllText(*facts) && !options.has_header) draft.note = kHeaderHint;
  draft.toml = TableTemplate({.name = RunNameOf(options.name),
                              .path = Quoted(PathOf(options)),
                              .label = Quoted(label),
                              .client = options.client.empty() ? "" : Quoted(options.client),
                              .has_header = options.has_header,
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
                                .has_header = false,
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
        4001,
        fmt::format("cannot make the folder {}: {}", options.name, SystemReason(failed.value())),
        ""});
  Status written = Ok();
  if (!draft.data.empty()) written = WriteText(folder / draft.data_name, draft.data);
  if (written.has_value()) written = WriteText(file, draft.toml);
  if (!written.has_value()) return console.Fail(written.error());
  const bool has_table = !options.data.empty() || !draft.data.empty();
  std::string text = fmt::format("made     {}\n", file);
  JsonObject object;
  object.Add("file", file);
  if (!draft.note.empty()) console.Say({.code = 0, .text = draft.note, .hint = ""});
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
  if (options.name.empty())
    return RefuseCommandLine(console, "NAME is empty", "give the name of the folder to make",
                             "new");
  const std::string file = (fs::path(options.name) / "experiment.toml").string();
  if (Exists(file))
    return console.Fail(Error{1102, file + " exists already; nothing was written",
                              "give another name, or remove it"});
  const std::string data = DataNameOf(options);
  if (!data.empty() && Exists((fs::path(options.name) / data).string()))
    return console.Fail(
        Error{1102, fmt::format("{}/{} exists already; nothing was written", options.name, data),
              "give another name, or name it with --data"});
  if (!options.data.empty() && (options.template_ == "fashion" || options.template_ == "sensors"))
    return console.Fail(
        Error{1103, "--data contradicts --template " + options.template_, "give one of them"});
  const bool names_columns = !options.client.empty() || !options.label.empty() ||
                             !options.missing.empty() || !options.decimal.empty() ||
                             options.has_header;
  if (options.template_ == "shakespeare" && names_columns)
    return console.Fail(Error{1103, "plays have no columns",
                              "leave --client, --label, --header, --missing and --decimal out"});
  if (options.data.empty() && (!options.client.empty() || !options.label.empty()))
    return console.Fail(
        Error{1103, "--client and --label name columns of --data", "give --data FILE"});
  const bool says_how = options.has_header || !options.missing.empty() || !options.decimal.empty();
  if (options.data.empty() && says_how)
    return console.Fail(
        Error{1103, "--header, --missing and --decimal are about --data", "give --data FILE"});
  const auto draft = MakeDraft(options);
  if (!draft.has_value()) return console.Fail(draft.problems());
  return Write(options, *draft, console);
}

}  // namespace skep::simulator
