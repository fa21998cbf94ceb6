// The command `run`: one experiment from its file to its run directory.
#pragma once

#include <string>
#include <vector>

#include "simulator/console.h"

namespace skep::simulator {

struct RunOptions {
  std::string file;  // empty only with `resume`
  std::vector<std::string> sets;
  std::string resume;   // run directory to go on with, or empty
  std::string command;  // the command line that repeats the run
  bool has_report = true;
  bool keeps_going = false;
};

// Returns the exit code.
[[nodiscard]] int RunCommand(const RunOptions& options, const Console& console);

}  // namespace skep::simulator
