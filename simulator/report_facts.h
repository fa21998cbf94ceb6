// What reports say about a run in figures, and the drawings that they share.
//
// Pure functions of a RunHistory; any thread. Only the report*.cc files use this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/chart.h"
#include "simulator/run_history.h"

namespace skep::simulator {

struct ReportFacts {
  std::string metric;       // "test/accuracy", the target metric
  std::string metric_name;  // "accuracy"
  bool maximise = true;
  bool is_share = true;  // lies between 0 and 1
  std::optional<double> target;
  std::optional<double> last;
  std::optional<double> best;
  std::uint32_t best_round = 0;
  std::optional<double> rounds_to_target;
  std::uint32_t rounds = 0;  // published
  aggregator::AttemptCounts totals;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
};

[[nodiscard]] ReportFacts FactsOf(const RunHistory& run);
// The defined values of a metric by round.
[[nodiscard]] std::vector<Point> SeriesOf(const RunHistory& run, const std::string& metric);
// Names of the classes in the data's order: numbers by value, else bytewise.
[[nodiscard]] std::vector<std::string> ClassesOf(const RunHistory& run);
// The text of a TOML string, or the value as it is.
[[nodiscard]] std::string PlainValue(const std::string& toml);
[[nodiscard]] bool IsChanged(const HistorySetting& setting);  // by the file or by --set

// The sections of a single run, as HTML; empty where there is nothing to show.
[[nodiscard]] std::string MetricSection(const RunHistory& run, const ReportFacts& facts);
[[nodiscard]] std::string LabelSection(const RunHistory& run);
[[nodiscard]] std::string ClientSection(const RunHistory& run);
[[nodiscard]] std::string TimeSection(const RunHistory& run);
[[nodiscard]] std::string ByteSection(const RunHistory& run);
[[nodiscard]] std::string ParticipationSection(const RunHistory& run);
[[nodiscard]] std::string NormSection(const RunHistory& run);
[[nodiscard]] std::string SettingSection(const RunHistory& run);
[[nodiscard]] std::string NoteSection(const RunHistory& run);

}  // namespace skep::simulator
