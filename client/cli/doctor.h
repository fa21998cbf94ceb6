// The command `doctor`: a line for each step of a check-in, up to the one that fails.
#pragma once

#include "client/cli/console.h"

namespace skep::cli {

[[nodiscard]] int RunDoctor(const GlobalOptions& options);

}  // namespace skep::cli
