// The comparison of several runs: those that differ in their seed alone are one group.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "simulator/figures.h"
#include "simulator/html.h"
#include "simulator/report.h"
#include "simulator/report_facts.h"

namespace skep::simulator {
namespace {

constexpr const char* kPlusMinus = " \xC2\xB1 ";

// Keys in which runs of one group may differ, and which say nothing about what was compared.
bool IsBesideThePoint(const std::string& key) {
  static constexpr std::array<std::string_view, 5> kKeys{"name", "schema", "seed", "population",
                                                         "data.partition_seed"};
  return key.starts_with("run.") || std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

struct Group {
  std::string name;
  std::vector<const ComparedRun*> runs;
  std::vector<ReportFacts> facts;
};

std::map<std::string, std::string> ComparedSettings(const RunHistory& run) {
  std::map<std::string, std::string> settings;
  for (const HistorySetting& setting : run.settings) {
    if (!IsBesideThePoint(setting.key)) settings[setting.key] = setting.value;
  }
  return settings;
}

// Keys that do not have one value in all runs.
std::set<std::string> DifferingKeys(const std::vector<ComparedRun>& runs) {
  std::map<std::string, std::set<std::string>> values;
  for (const ComparedRun& compared : runs) {
    for (const auto& [key, value] : ComparedSettings(compared.run)) values[key].insert(value);
  }
  std::set<std::string> keys;
  for (const auto& [key, found] : values) {
    std::size_t with = 0;
    for (const ComparedRun& compared : runs) with += compared.run.Setting(key).empty() ? 0U : 1U;
    if (found.size() > 1 || with < runs.size()) keys.insert(key);
  }
  return keys;
}

std::string GroupName(const RunHistory& run, const std::set<std::string>& differing) {
  std::string name;
  for (const std::string& key : differing) {
    const auto setting = std::find_if(run.settings.begin(), run.settings.end(),
                                      [&](const auto& entry) { return entry.key == key; });
    // Derived values follow from others, which are named themselves.
    if (setting == run.settings.end() || !IsChanged(*setting)) continue;
    if (!name.empty()) name += ", ";
    name += key.substr(key.find('.') + 1) + " = " + PlainValue(setting->value);
  }
  return name.empty() ? run.name : name;
}

std::vector<Group> GroupsOf(const std::vector<ComparedRun>& runs) {
  const std::set<std::string> differing = DifferingKeys(runs);
  std::vector<Group> groups;
  std::vector<std::map<std::string, std::string>> known;
  for (const ComparedRun& compared : runs) {
    const auto settings = ComparedSettings(compared.run);
    const auto found = std::find(known.begin(), known.end(), settings);
    const auto place = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(settings);
      groups.push_back({.name = GroupName(compared.run, differing), .runs = {}, .facts = {}});
    }
    groups[place].runs.push_back(&compared);
    groups[place].facts.push_back(FactsOf(compared.run));
  }
  return groups;
}

struct Summary {
  double mean = 0;
  double deviation = 0;  // of the sample; 0 for one value
  std::size_t count = 0;
};

template <class Value>
Summary Summarise(const Group& group, const Value& value) {
  std::vector<double> values;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const std::optional<double> one = value(group.runs[i]->run, group.facts[i]);
    if (one) values.push_back(*one);
  }
  Summary summary{.mean = 0, .deviation = 0, .count = values.size()};
  if (values.empty()) return summary;
  for (const double one : values) summary.mean += one;
  summary.mean /= static_cast<double>(values.size());
  if (values.size() < 2) return summary;
  for (const double one : values) summary.deviation += (one - summary.mean) * (one - summary.mean);
  summary.deviation = std::sqrt(summary.deviation / static_cast<double>(values.size() - 1));
  return summary;
}

std::string SummaryText(const Summary& summary) {
  if (summary.count == 0) return kMissing;
  if (summary.count == 1) return Significant(summary.mean);
  return Significant(summary.mean) + kPlusMinus + Significant(summary.deviation, 2);
}

Summary MetricOf(const Group& group) {
  return Summarise(group, [](const RunHistory&, const ReportFacts& facts) { return facts.last; });
}

// The median, but only if every run reached its target.
std::string RoundsText(const Group& group) {
  std::vector<double> rounds;
  for (const ReportFacts& facts : group.facts) {
    if (!facts.rounds_to_target) return kMissing;
    rounds.push_back(*facts.rounds_to_target);
  }
  std::sort(rounds.begin(), rounds.end());
  const std::size_t half = rounds.size() / 2;
  const double median =
      rounds.size() % 2 == 1 ? rounds[half] : (rounds[half - 1] + rounds[half]) / 2;
  return fmt::format("{:.1f}", median);
}

std::string ResultTable(const std::vector<Group>& groups, std::size_t baseline) {
  const Summary base = MetricOf(groups[baseline]);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    const Summary metric = MetricOf(group);
    const Summary p10 = Summarise(group, [](const RunHistory& run, const ReportFacts&) {
      const std::vector<Point> points = SeriesOf(run, "client/accuracy_p10");
      return points.empty() ? std::nullopt : std::optional(points.back().y);
    });
    const Summary time =
        Summarise(group, [](const RunHistory& run, const ReportFacts&) { return run.wall_s; });
    const Summary bytes = Summarise(group, [](const RunHistory&, const ReportFacts& facts) {
      return std::optional(static_cast<double>(facts.bytes_up + facts.bytes_down));
    });
    std::string difference = "baseline";
    if (i != baseline)
      difference = metric.count == 0 || base.count == 0
                       ? kMissing
                       : fmt::format("{:+.4f}", metric.mean - base.mean);
    rows.push_back({group.name, std::to_string(group.runs.size()), SummaryText(metric),
                    RoundsText(group), ByteText(static_cast<std::uint64_t>(bytes.mean)),
                    SummaryText(p10), time.count == 0 ? kMissing : DurationText(time.mean),
                    difference});
  }
  const std::string& name = groups[baseline].facts.front().metric_name;
  return Table("Final figures, mean and sample standard deviation over the runs of a row",
               {{.title = "configuration", .is_number = false},
                {.title = "runs"},
                {.title = name},
                {.title = "rounds to target"},
                {.title = "bytes"},
                {.title = "client p10"},
                {.title = "time"},
                {.title = "difference"}},
               rows);
}

// The mean over the runs of a group where all have a value; the band is their smallest and largest.
void AddSeries(const Group& group, const std::string& metric, LineChart& chart) {
  std::map<double, std::vector<double>> values;
  for (const ComparedRun* compared : group.runs) {
    for (const Point& point : SeriesOf(compared->run, metric)) values[point.x].push_back(point.y);
  }
  Line line{.name = group.name, .points = {}};
  Band band{.name = "smallest to largest", .x = {}, .low = {}, .high = {}};
  for (const auto& [round, found] : values) {
    if (found.size() < group.runs.size()) continue;
    double sum = 0;
    for (const double value : found) sum += value;
    line.points.push_back({.x = round, .y = sum / static_cast<double>(found.size())});
    band.x.push_back(round);
    band.low.push_back(*std::min_element(found.begin(), found.end()));
    band.high.push_back(*std::max_element(found.begin(), found.end()));
  }
  chart.lines.push_back(std::move(line));
  chart.bands.push_back(std::move(band));
}

std::string CurveFigure(const std::vector<Group>& groups, const std::string& metric,
                        const std::string& title, bool is_share) {
  LineChart chart;
  bool has_bands = false;
  for (const Group& group : groups) {
    AddSeries(group, metric, chart);
    has_bands = has_bands || group.runs.size() > 1;
  }
  if (std::all_of(chart.lines.begin(), chart.lines.end(),
                  [](const Line& line) { return line.points.empty(); }))
    return "";
  if (!has_bands) chart.bands.clear();
  for (Band& band : chart.bands) band.name.clear();
  chart.text = {
      .title = title + " by round",
      .finding = fmt::format("{} of {} configurations against rounds{}", title, groups.size(),
                             has_bands ? "; bands from the smallest to the largest run" : ""),
      .x_title = "round",
      .y_title = title};
  if (is_share) chart.y_range = {0, 1};
  chart.may_be_logarithmic = !is_share;
  std::vector<std::vector<std::string>> rows;
  for (const Line& line : chart.lines) {
    if (line.points.empty()) continue;
    rows.push_back({line.name, fmt::format("{:.0f}", line.points.back().x),
                    Significant(line.points.back().y)});
  }
  const std::string table = Table(
      "Last value of each curve",
      {{.title = "configuration", .is_number = false}, {.title = "round"}, {.title = "value"}},
      rows);
  return "<div>\n<figure>\n" + Draw(chart) + "</figure>\n" + Folded("Numbers", table) + "</div>\n";
}

std::string DifferenceTable(const std::vector<ComparedRun>& runs) {
  const std::set<std::string> differing = DifferingKeys(runs);
  std::vector<TableColumn> columns{{.title = "run", .is_number = false}, {.title = "seed"}};
  for (const std::string& key : differing) columns.push_back({.title = key, .is_number = false});
  columns.push_back({.title = "result", .is_number = false});
  std::vector<std::vector<std::string>> rows;
  for (const ComparedRun& compared : runs) {
    std::vector<std::string> row{compared.folder, std::to_string(compared.run.seed)};
    for (const std::string& key : differing) {
      const std::string value = compared.run.Setting(key);
      row.push_back(value.empty() ? kMissing : PlainValue(value));
    }
    row.push_back(compared.run.result_sha256.empty() ? kMissing
                                                     : compared.run.result_sha256.substr(0, 12));
    rows.push_back(std::move(row));
  }
  return Table("Runs, and the keys that differ", columns, rows);
}

}  // namespace

std::string RenderComparison(const std::vector<ComparedRun>& runs, std::size_t baseline) {
  const std::vector<Group> groups = GroupsOf(runs);
  std::size_t base = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& members = groups[i].runs;
    if (std::find(members.begin(), members.end(), &runs[baseline]) != members.end()) base = i;
  }
  const ReportFacts& facts = groups[base].facts.front();
  const std::string curves =
      CurveFigure(groups, facts.metric, "test " + facts.metric_name, facts.is_share) +
      CurveFigure(groups, "train/loss", "training loss", false);
  std::string body = SectionOf("Results", ResultTable(groups, base));
  if (!curves.empty()) body += SectionOf("Curves", "<div class=\"pair\">\n" + curves + "</div>\n");
  body += SectionOf("What differs", DifferenceTable(runs));
  const std::string title = fmt::format("{} runs compared", runs.size());
  return Page(title, fmt::format("<h1>{}</h1>\n", Escape(title)), body);
}

}  // namespace skep::simulator
