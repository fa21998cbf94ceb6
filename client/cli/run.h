// The command `run`: check-ins until a signal, or one.
#pragma once

#include <string>

#include "client/cli/console.h"

namespace skep::cli {

struct RunOptions {
  bool once = false;
  std::string budget;     // "5m", or empty
  std::string join_file;  // to enrol by, or empty
};

[[nodiscard]] int RunRun(const GlobalOptions& options, const RunOptions& run);

}  // namespace skep::cli
