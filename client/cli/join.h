// The command `join`: a join string makes this machine a device.
#pragma once

#include <string>

#include "client/cli/console.h"

namespace skep::cli {

struct JoinOptions {
  std::string text;  // "-" for standard input, the join string itself, or empty
  std::string file;  // that holds it, or empty
  std::string name;  // what the operator sees beside the device, or empty
};

// What to call after having joined: a command that works as it stands, or that says what is to be
// filled in.
[[nodiscard]] std::string NextStep(const GlobalOptions& options,
                                   const config::ClientConfig& config);

// Returns the exit code, as all commands do.
[[nodiscard]] int RunJoin(const GlobalOptions& options, const JoinOptions& join);

}  // namespace skep::cli
