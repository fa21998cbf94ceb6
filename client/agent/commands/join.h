// The command `join`: a join string makes this machine a device.
#pragma once

#include <string>

#include "client/agent/commands/console.h"

namespace skep::agent {

struct JoinOptions {
  std::string text;  // "-" for standard input, the join string itself, or empty
  std::string file;  // that holds it, or empty
  std::string name;  // what the operator sees beside the device, or empty
};

// Returns the exit code, as all commands do.
// What to call after having joined: a command that works as it stands, or that says what is to be
// filled in.
[[nodiscard]] std::string NextStep(const GlobalOptions& options,
                                   const config::ClientConfig& config);

[[nodiscard]] int RunJoin(const GlobalOptions& options, const JoinOptions& join);

}  // namespace skep::agent
