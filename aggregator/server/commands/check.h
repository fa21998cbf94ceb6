// `check`, and what `serve` looks at before it listens: the configuration, certificates, keys,
// limits of the process. Every problem at once.
//
// Nothing here changes a file or opens the store. Source: docs/operations.md (misconfiguration
// messages).
#pragma once

#include <string>
#include <vector>

#include "aggregator/server/commands/console.h"
#include "shared/config/server_config.h"

namespace skep::aggregator {

// Errors say why nothing starts; warnings are for `status` too.
struct InstallationProblems {
  std::vector<Error> errors;
  std::vector<Error> warnings;
};

// Puts the path of its file where "credential:NAME" stands. SKEP-5113 for each that the service
// manager has not given.
[[nodiscard]] std::vector<Error> ResolveCredentials(config::ServerConfig& server);

// SKEP-5101 to 5109, 5114, 5116, 5205, 4004 without a store, and 1010 for a file that cannot be
// read.
[[nodiscard]] InstallationProblems InspectInstallation(const config::ServerConfig& server,
                                                       WallMs now);

// A path of the configuration as messages show it: relative to the store where it is below it.
[[nodiscard]] std::string NameOf(const config::ServerConfig& server, const std::string& path);

int RunCheck(const GlobalOptions& options);

// `config effective`: every key with its value and where it came from.
int RunConfigEffective(const GlobalOptions& options);

}  // namespace skep::aggregator
