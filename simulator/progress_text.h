// ProgressText: the words and pictures of a run's progress, made from its records.
//
// Knows no terminal: it is told the width and the time. One thread.
// Source: docs/reference (output of a run).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "simulator/records.h"
#include "simulator/terminal.h"

namespace skep::simulator {

// Cells of equal shares of `values`, as block characters between their least and largest mean.
[[nodiscard]] std::string Sparkline(const std::vector<double>& values, std::size_t cells);

class ProgressText {
 public:
  explicit ProgressText(const TextStyle& style) : style_(style) {}

  void On(const RunStart& start);
  void On(const RoundRecord& round, SteadyTime now);
  void On(const Activity& activity, SteadyTime now);

  // The lines of the display; only the second one if there are fewer than 60 columns.
  [[nodiscard]] std::vector<std::string> Display(std::size_t width, SteadyTime now) const;
  // One line per attempt: key=value in stable order, new keys only at the end.
  [[nodiscard]] std::string PlainLine(const RoundRecord& round) const;
  // What is left on the screen when the run is over. `folder`: the run directory as the user gave
  // it, or empty; `has_report` says whether it holds a report. Lines are broken at `width` columns;
  // 0: nowhere.
  [[nodiscard]] std::string Summary(const RunEnd& end, const std::string& folder, bool has_report,
                                    std::size_t width = 0) const;

 private:
  [[nodiscard]] std::string HeadLine() const;
  [[nodiscard]] std::string RoundLine(std::size_t width, SteadyTime now) const;
  [[nodiscard]] std::string MetricLine() const;
  [[nodiscard]] std::string LastLine(SteadyTime now) const;
  [[nodiscard]] std::string Bar(std::size_t width) const;
  [[nodiscard]] std::string EndPhrase(const RunEnd& end) const;
  [[nodiscard]] std::string MetricSummary(const RunEnd& end) const;

  TextStyle style_;
  RunStart start_;
  std::uint32_t rounds_ = 0;      // published
  double time_s_ = 0;             // of the last record
  std::deque<double> durations_;  // of the last 20 rounds
  std::vector<double> losses_;
  std::vector<double> targets_;  // values of the target metric
  std::optional<double> best_;
  std::uint32_t best_round_ = 0;
  bool is_falling_better_ = false;
  aggregator::AttemptCounts counts_;  // of the last attempt
  aggregator::AttemptCounts totals_;
  std::uint64_t bytes_up_ = 0;
  std::uint64_t bytes_down_ = 0;
  std::string waiting_for_;
  SteadyTime moved_{};
  SteadyTime record_at_{};
};

}  // namespace skep::simulator
