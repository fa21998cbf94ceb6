// The command `forget`: this folder is a device no more.
#pragma once

#include "client/cli/console.h"

namespace skep::cli {

// Asks on the terminal unless `is_sure`.
[[nodiscard]] int RunForget(const GlobalOptions& options, bool is_sure);

}  // namespace skep::cli
