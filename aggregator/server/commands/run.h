// The commands of runs: start, show, follow, pause, resume, stop, export.
//
// A run belongs to the daemon: following one watches it, and ending the follower leaves it alone.
// Source: docs/operations.md (commands); docs/reference (output of a run).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/server/commands/console.h"
#include "aggregator/server/commands/daemon.h"

namespace skep::aggregator {

struct StartOptions {
  std::string file;
  std::vector<std::string> sets;
  std::string population;
  std::string request_key;
  bool is_dry_run = false;
  bool follows = false;
};
int StartRunCommand(const GlobalOptions& options, const StartOptions& start);

struct ShowOptions {
  std::string run;
  std::uint32_t rounds = 0;  // attempts to list
  bool follows = false;
};
int ShowRunCommand(const GlobalOptions& options, const ShowOptions& show);

// Until the run is over: 0 if it has finished, 1 if it was stopped, halted or paused itself. 130
// and 143 when a signal ended the follower, 4 when the daemon was away for --timeout.
int FollowRun(const GlobalOptions& options, const Daemon& daemon, const std::string& run);

enum class Change { kPause, kResume, kStop, kStopNow };
int ChangeRunCommand(const GlobalOptions& options, const std::string& run, Change change);

struct ExportOptions {
  std::string run;
  std::optional<std::uint32_t> round;  // absent: the current model
  std::string output;
};
int ExportModel(const GlobalOptions& options, const ExportOptions& wanted);

}  // namespace skep::aggregator
