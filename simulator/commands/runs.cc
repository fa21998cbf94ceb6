#include "simulator/commands/runs.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/config/utf8.h"
#include "simulator/figures.h"
#include "simulator/json.h"
#include "simulator/metrics_log.h"
#include "simulator/report.h"
#include "simulator/report_facts.h"
#include "simulator/run_db.h"
#include "simulator/run_files.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 3;

struct FoundRun {
  std::string folder;
  RunHistory run;
  ReportFacts facts;
  double age_s = 0;
};

std::vector<std::string> FoldersWithRuns(const std::string& folder) {
  std::vector<std::string> folders;
  std::error_code failed;
  if (fs::exists(fs::path(folder) / "run.db", failed)) folders.push_back(folder);
  for (fs::recursive_directory_iterator
           entry(folder, fs::directory_options::skip_permission_denied, failed),
       end;
       !failed && entry != end; entry.increment(failed)) {
    if (entry.depth() >= kDeepest) entry.disable_recursion_pending();
    if (entry->is_directory(failed) && fs::exists(entry->path() / "run.db", failed))
      folders.push_back(entry->path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

double AgeOf(const std::string& folder) {
  std::error_code failed;
  const auto written = fs::last_write_time(fs::path(folder) / "metrics.jsonl", failed);
  if (failed) return 0;
  const auto since = written.time_since_epoch() -
                     fs::file_time_type::clock::from_sys(
                         std::chrono::sys_time<Milliseconds>(Milliseconds(ReadClock().wall)))
                         .time_since_epoch();
  return std::max(0.0, -std::chrono::duration<double>(since).count());
}

std::string AgeText(double seconds) {
  constexpr double kDay = 86'400;
  if (seconds >= 2 * kDay) return fmt::format("{:.0f} d", seconds / kDay);
  return DurationText(std::max(seconds, 1.0));
}

std::vector<std::string> RowOf(const FoundRun& found) {
  const ReportFacts& facts = found.facts;
  double compute = 0;
  for (const RoundRecord& round : found.run.rounds) compute += round.phases.train;
  return {config::Printable(found.folder),
          found.run.state,
          fmt::format("{}/{}", facts.rounds, found.run.rounds_planned),
          facts.last ? fmt::format("{} {}", facts.metric_name, Significant(*facts.last)) : kMissing,
          ByteText(facts.bytes_up + facts.bytes_down),
          DurationText(compute),
          AgeText(found.age_s)};
}

std::string TableText(const std::vector<FoundRun>& runs) {
  std::vector<std::vector<std::string>> rows{
      {"run", "state", "rounds", "metric", "bytes", "training", "age"}};
  for (const FoundRun& found : runs) rows.push_back(RowOf(found));
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Columns(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - Columns(row[i]) + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string RunsJson(const std::vector<FoundRun>& runs) {
  std::vector<std::string> entries;
  for (const FoundRun& found : runs) {
    JsonObject entry;
    entry.Add("folder", found.folder).Add("name", found.run.name).Add("state", found.run.state);
    entry.Add("rounds", found.facts.rounds).Add("rounds_planned", found.run.rounds_planned);
    entry.Add("metric", found.facts.metric).Add("value", found.facts.last);
    entry.Add("bytes_up", found.facts.bytes_up).Add("bytes_down", found.facts.bytes_down);
    entry.Raw("age_s", JsonSeconds(found.age_s));
    entry.Add("result_sha256", found.run.result_sha256);
    entries.push_back(entry.Text());
  }
  return JsonArray(entries);
}

}  // namespace

int RunsCommand(const std::string& folder, const Console& console) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed))
    return console.Fail(
        Error{1201,
              failed && failed.value() != ENOENT
                  ? fmt::format("cannot read {}: {}", folder, SystemReason(failed.value()))
                  : fmt::format("there is no folder {}", folder),
              "give the folder that holds your runs"});
  std::vector<FoundRun> runs;
  for (const std::string& path : FoldersWithRuns(folder)) {
    Result<RunHistory> run = ReadRunDb(path + "/run.db");
    if (!run.has_value()) {
      console.Say({.code = 0, .text = run.error().message, .hint = ""});
      continue;
    }
    // A run shown as running has a living process.
    if (run->state == "running" && !MetricsLog::IsBeingWritten(path + "/metrics.jsonl"))
      run->state = "interrupted";
    const ReportFacts facts = FactsOf(*run);
    runs.push_back(
        {.folder = path, .run = std::move(run).value(), .facts = facts, .age_s = AgeOf(path)});
  }
  console.Print(runs.empty() ? fmt::format("no runs below {}\n", folder) : TableText(runs));
  console.PrintJson(RunsJson(runs));
  return kExitDone;
}

int ReportCommand(const ReportOptions& options, const Console& console) {
  std::vector<std::string> folders;
  for (const std::string& folder : options.folders) {
    std::string name = folder;
    while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    if (!Exists(name + "/run.db")) {
      const bool is_resumable = Exists(name + "/metrics.jsonl");
      return console.Fail(is_resumable
                              ? Error{4001, name + "/run.db is missing",
                                      "skep-simulator run --resume " + name + " makes it anew"}
                              : NoRunIn(name, "run.db"));
    }
    folders.push_back(std::move(name));
  }
  std::string baseline = options.baseline;
  while (baseline.size() > 1 && baseline.ends_with('/')) baseline.pop_back();
  if (!baseline.empty() && std::find(folders.begin(), folders.end(), baseline) == folders.end())
    return console.Fail(Error{1102, fmt::format("--baseline {} is not one of the runs", baseline),
                              "name one of the folders given"});
  std::string output = options.output;
  if (output.empty())
    output = folders.size() == 1 ? folders.front() + "/report.html" : "comparison.html";
  const Status written = WriteReport(folders, output, baseline);
  if (!written.has_value()) return console.Fail(written.error());
  console.Print(fmt::format("report   {}\n", output));
  console.PrintJson(JsonObject().Add("report", output).Text());
  return kExitDone;
}

}  // namespace skep::simulator
