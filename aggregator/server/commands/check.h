// `check`, and what `serve` looks at before it listens: the configuration, certificates, keys, the
// store, addresses, limits of the process. Every problem at once.
//
// Nothing here changes a file; the store is opened for reading. Source: docs/operations.md
// (misconfiguration messages).
#pragma once

#include <string>
#include <vector>

#include "aggregator/server/commands/console.h"
#include "aggregator/store/sqlite_store.h"
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

// SKEP-5101 to 5109, 5114, 5116, 5205, and 1010 for a file that cannot be read.
[[nodiscard]] InstallationProblems InspectInstallation(const config::ServerConfig& server,
                                                       WallMs now);
// What is refused later in a start, store by store and address by address: SKEP-4003, 4004, 4006,
// 4012, 4013, 5115, 5201, 5202, 5209, 4001. What the running daemon itself holds is no problem.
// `kOutside` leaves the content of the store to recovery, which reads it anyway.
enum class StoreDepth { kOutside, kContent };
[[nodiscard]] std::vector<Error> InspectStart(const config::ServerConfig& server, StoreDepth depth);
// SKEP-5115: devices that have enrolled know one key, another one would sign tasks that nobody
// accepts.
[[nodiscard]] Status CheckSigningKey(SqliteStore& store, const wire::PublicKey& key);

// A path of the configuration as messages show it: relative to the store where it is below it.
[[nodiscard]] std::string NameOf(const config::ServerConfig& server, const std::string& path);

int RunCheck(const GlobalOptions& options);

// `config effective`: every key with its value and where it came from.
int RunConfigEffective(const GlobalOptions& options);

}  // namespace skep::aggregator
