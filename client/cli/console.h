// Console: the options that every command has, how results and errors are printed, exit codes.
//
// Results go to standard output, messages to standard error; with --json exactly one object goes to
// standard output and nothing else does. One thread. Source: Skep interfaces, sections 2, 5 and 9.
#pragma once

#include <boost/json/object.hpp>

#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/config/client_config.h"
#include "shared/config/problem.h"

namespace skep::cli {

struct GlobalOptions {
  std::string version;
  std::string config = "/etc/skep/client.toml";
  bool is_config_given = false;
  std::string storage;            // in place of storage.dir, or empty
  std::vector<std::string> sets;  // "data.path=train.csv"
  std::string data_experiment;    // in place of the section [data], or empty
  std::optional<std::uint32_t> part;
  bool is_json = false;
  bool is_quiet = false;

  [[nodiscard]] std::string Software() const { return "skep-client " + version; }
};

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kTimedOut = 3,
  kUnreachable = 4,
  kInterrupted = 130,
  kTerminated = 143
};
[[nodiscard]] int ExitCodeOf(int error_number);

// The result of a command: `text` for people (nothing with --quiet), `data` with --json.
int Succeed(const GlobalOptions& options, const boost::json::object& data, const std::string& text);
int Fail(const GlobalOptions& options, const Error& error);
int Fail(const GlobalOptions& options, const std::vector<config::Problem>& problems);
// A line for people, on standard error; nothing with --json or --quiet.
void Tell(const GlobalOptions& options, const std::string& text);
void PrintOut(const std::string& text);

// client.toml with what the command line says. Without --config and without the usual file,
// defaults.
[[nodiscard]] config::Validated<config::ClientConfig> LoadConfig(const GlobalOptions& options);

}  // namespace skep::cli
