// The command `explain`: an error number, a section or key of client.toml.
#pragma once

#include <string>

#include "client/agent/commands/console.h"

namespace skep::agent {

[[nodiscard]] int RunExplain(const GlobalOptions& options, const std::string& topic);

}  // namespace skep::agent
