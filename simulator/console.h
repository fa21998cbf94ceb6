// Console: how the commands talk: results on standard output, notes and errors on standard error,
// one JSON object with `--json`.
//
// One per process; one thread. Source: docs/reference (output of a run; exit codes).
#pragma once

#include <string>
#include <vector>

#include "shared/config/problem.h"
#include "simulator/terminal.h"

namespace skep::simulator {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitTerminated = 143;

struct ConsoleOptions {
  bool is_json = false;
  bool is_quiet = false;
  bool is_verbose = false;
  ColorChoice color = ColorChoice::kAuto;
};

class Console {
 public:
  explicit Console(const ConsoleOptions& options);

  [[nodiscard]] const ConsoleOptions& options() const { return options_; }
  [[nodiscard]] const TextStyle& output_style() const { return output_style_; }
  [[nodiscard]] const TextStyle& error_style() const { return error_style_; }

  // A line of metrics.jsonl, as `run --json` prints them; with --json alone.
  void PrintLine(const std::string& line) const;
  // A result for people; not with --json nor --quiet.
  void Print(const std::string& text) const;
  // The result of a command with --json: `data` is a JSON value.
  void PrintJson(const std::string& data) const;
  // On standard error; not with --quiet.
  void Say(const config::Note& note) const;
  void SayDetail(const std::string& text) const;  // only with --verbose

  // Shows what is wrong and returns the exit code: 2 for configuration, data and usage, else 1.
  [[nodiscard]] int Fail(const std::vector<config::Problem>& problems) const;
  [[nodiscard]] int Fail(const Error& error) const;

  // The exit code of a command that ended with `exit_code`: a result that did not reach standard
  // output (disk full) is none.
  [[nodiscard]] int Finish(int exit_code) const;

 private:
  ConsoleOptions options_;
  TextStyle output_style_;
  TextStyle error_style_;
};

}  // namespace skep::simulator
