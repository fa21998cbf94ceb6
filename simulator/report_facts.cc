#include "simulator/report_facts.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "simulator/names.h"
#include "simulator/round_log.h"

namespace skep::simulator {
namespace {

std::optional<double> AsNumber(const std::string& text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> AsInteger(const std::string& text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || std::to_string(value) != text) return std::nullopt;
  return value;
}

}  // namespace

std::string PlainValue(const std::string& toml) {
  const bool is_plain = toml.size() >= 2 && toml.front() == '"' && toml.back() == '"' &&
                        toml.find('\\') == std::string::npos;
  return is_plain ? toml.substr(1, toml.size() - 2) : toml;
}

bool IsChanged(const HistorySetting& setting) {
  return setting.source != "default" && setting.source != "derived";
}

std::vector<Point> SeriesOf(const RunHistory& run, const std::string& metric) {
  std::vector<Point> points;
  const auto found = run.metrics.find(metric);
  if (found == run.metrics.end()) return points;
  for (const MetricPoint& point : found->second) {
    if (point.value) points.push_back({.x = static_cast<double>(point.round), .y = *point.value});
  }
  return points;
}

std::vector<std::string> ClassesOf(const RunHistory& run) {
  std::set<std::string> names;
  for (const ClientHistory& client : run.clients) {
    for (const auto& [label, examples] : client.labels) names.insert(label);
  }
  std::vector<std::string> classes(names.begin(), names.end());
  const bool are_numbers = std::all_of(
      classes.begin(), classes.end(), [](const auto& name) { return AsInteger(name).has_value(); });
  if (are_numbers) {
    std::sort(classes.begin(), classes.end(),
              [](const auto& a, const auto& b) { return *AsInteger(a) < *AsInteger(b); });
  }
  return classes;
}

ReportFacts FactsOf(const RunHistory& run) {
  ReportFacts facts;
  const std::string name = PlainValue(run.Setting("training.target_metric"));
  facts.metric_name = name.empty() ? "accuracy" : name;
  facts.metric = "test/" + facts.metric_name;
  const std::string mode = PlainValue(run.Setting("training.target_mode"));
  facts.maximise = mode.empty() ? facts.metric_name != "loss" : mode == "max";
  facts.is_share = facts.metric_name == "accuracy";
  facts.target = AsNumber(run.Setting("training.target"));
  std::vector<EvaluatedRound> values;
  for (const Point& point : SeriesOf(run, facts.metric)) {
    values.push_back({.round = static_cast<std::uint32_t>(point.x), .value = point.y});
    facts.last = point.y;
    if (!facts.best || (facts.maximise ? point.y > *facts.best : point.y < *facts.best)) {
      facts.best = point.y;
      facts.best_round = values.back().round;
    }
  }
  if (facts.target) facts.rounds_to_target = RoundsToTarget(values, *facts.target, facts.maximise);
  for (const RoundRecord& round : run.rounds) {
    if (round.published) facts.rounds = round.round;
    facts.totals.started += round.counts.started;
    facts.totals.ok += round.counts.ok;
    facts.totals.rejected += round.counts.rejected;
    facts.totals.failed += round.counts.failed;
    facts.totals.dropped += round.counts.dropped;
    facts.totals.late += round.counts.late;
    facts.bytes_up += round.bytes_up;
    facts.bytes_down += round.bytes_down;
  }
  return facts;
}

}  // namespace skep::simulator
