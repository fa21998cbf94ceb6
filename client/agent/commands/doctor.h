// The command `doctor`: a line for each step of a check-in, up to the one that fails.
#pragma once

#include "client/agent/commands/console.h"

namespace skep::agent {

[[nodiscard]] int RunDoctor(const GlobalOptions& options);

}  // namespace skep::agent
