// The command `forget`: this folder is a device no more.
#pragma once

#include "client/agent/commands/console.h"

namespace skep::agent {

// Asks on the terminal unless `is_sure`.
[[nodiscard]] int RunForget(const GlobalOptions& options, bool is_sure);

}  // namespace skep::agent
