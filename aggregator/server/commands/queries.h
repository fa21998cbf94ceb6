// The short commands: status, populations, tokens, devices, lists of runs, explanations, version.
//
// Each asks the daemon once and prints a screen or a table. Source: docs/operations.md (commands).
#pragma once

#include <cstdint>
#include <string>

#include "aggregator/server/commands/console.h"

namespace skep::aggregator {

int RunStatusCommand(const GlobalOptions& options);

int CreatePopulation(const GlobalOptions& options, const std::string& name);
int ListPopulations(const GlobalOptions& options);

// One join string a line, in the order of their client numbers.
int CreateTokens(const GlobalOptions& options, const std::string& population, std::uint32_t count,
                 const std::string& expires);
int ListTokens(const GlobalOptions& options, const std::string& population);

struct DeviceFilter {
  std::string population;
  std::string state;
  std::uint32_t limit = 1000;
};
int ListDevices(const GlobalOptions& options, const DeviceFilter& filter);

int ListRuns(const GlobalOptions& options, bool all);

// A number (SKEP-nnnn), a key or a section of server.toml or of experiment.toml.
int RunExplain(const GlobalOptions& options, const std::string& topic);
int RunConfigExplain(const GlobalOptions& options, const std::string& key);
// `libraries`: "OpenSSL 3.0.17, SQLite 3.40.1", known to the build.
int RunVersion(const GlobalOptions& options, const std::string& libraries);

}  // namespace skep::aggregator
