// Progress: what a run prints while it runs, on standard error: a display that redraws itself, or
// one line per attempt; and with `--json` the lines of metrics.jsonl on standard output.
//
// The display uses cursor-up and erase-line only and never hides the cursor; between redraws the
// cursor stands on the empty line below it, so that every exit leaves the terminal as it was. One
// thread. Source: docs/reference (output of a run).
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "simulator/failure_lines.h"
#include "simulator/metrics_log.h"
#include "simulator/progress_text.h"
#include "simulator/records.h"
#include "simulator/terminal.h"

namespace skep::simulator {

enum class ProgressMode { kDisplay, kLines, kJson, kQuiet };

class Progress final : public Recorder {
 public:
  struct Options {
    ProgressMode mode = ProgressMode::kLines;
    TextStyle error_style;   // of standard error
    TextStyle output_style;  // of standard output
    std::FILE* output = stdout;
    std::FILE* error = stderr;
    std::size_t width = 0;  // of the display; 0: the terminal's, read at every redraw
  };
  explicit Progress(Options options);
  ~Progress() override;

  // Rounds from before a resume; after the RunStart.
  void Restore(const std::vector<RoundRecord>& rounds);

  void On(const RunStart& start) override;
  void On(const ClientRecord& client) override;
  void On(const RoundRecord& round) override;
  void On(const NoteRecord& note) override;
  void On(const CheckpointRecord& checkpoint) override;
  void On(const RunEnd& end) override;
  void On(const Activity& activity) override;
  using Recorder::On;

  // A line above the display, on standard error; not with kQuiet.
  void Say(const std::string& line);
  // Erases the display and prints what stays, on standard output.
  void Finish(const RunEnd& end, const std::string& folder, bool has_report);

 private:
  void Redraw(bool is_forced);
  void Erase();

  Options options_;
  ProgressText text_;
  ProgressText summary_;
  FailureLines failures_;
  MetricsLines json_;
  std::size_t drawn_ = 0;  // lines on the screen
  SteadyTime redrawn_{};
};

}  // namespace skep::simulator
