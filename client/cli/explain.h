// The command `explain`: an error number, a section or key of client.toml.
#pragma once

#include <string>

#include "client/cli/console.h"

namespace skep::cli {

[[nodiscard]] int RunExplain(const GlobalOptions& options, const std::string& topic);

}  // namespace skep::cli
