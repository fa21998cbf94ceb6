// Console: the options that every command has, how results and errors are printed, exit codes.
//
// Results go to standard output, messages to standard error; with --json exactly one object goes to
// standard output and nothing else does. One thread. Source: docs/operations.md (commands).
#pragma once

#include <boost/json/value.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/config/problem.h"

namespace skep::aggregator {

struct GlobalOptions {
  std::string config = "/etc/skep/server.toml";
  bool is_config_given = false;
  std::string socket;  // empty: the configuration's
  bool is_json = false;
  bool is_quiet = false;
  std::string color = "auto";  // auto, always, never
  Milliseconds timeout{10'000};
  bool allows_root = false;
  std::string version;
};

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kTimedOut = 3,
  kUnreachable = 4,
  kDamaged = 5,
  kSyncFailed = 70,
  kInterrupted = 130,
  kTerminated = 143
};
[[nodiscard]] int ExitCodeOf(int error_number);

// The result of a command: `text` for people (nothing with --quiet), `data` with --json.
int Succeed(const GlobalOptions& options, const boost::json::value& data, const std::string& text);
// What a command is for, such as join strings: printed with --quiet too.
int Deliver(const GlobalOptions& options, const boost::json::value& data, const std::string& text);
int Fail(const GlobalOptions& options, const Error& error);
int Fail(const GlobalOptions& options, const std::vector<Error>& errors);  // not empty
int Fail(const GlobalOptions& options, const std::vector<config::Problem>& problems);

// A text with commands of this program in it, such that each can be run as it stands: with the
// --config and --socket that were given now, and --allow-root where it is needed.
[[nodiscard]] std::string Runnable(const GlobalOptions& options, const std::string& text);

// "error[SKEP-5401]: daemon not reachable", the hint beneath.
[[nodiscard]] std::string ErrorText(const GlobalOptions& options, const Error& error);
// A line for people, on standard error; nothing with --json or --quiet.
void Tell(const GlobalOptions& options, const std::string& text);
void Tell(const GlobalOptions& options, const std::vector<config::Note>& notes);
void PrintOut(std::string_view text);
void PrintError(std::string_view text);

// Whether standard error is a terminal on which a line can be redrawn.
[[nodiscard]] bool IsLive(const GlobalOptions& options);
// Columns of that terminal; 80 if it does not say.
[[nodiscard]] std::size_t TerminalWidth();
// By LC_ALL, LC_CTYPE, LANG. `Shown` puts "-" for the middle dot where it is not.
[[nodiscard]] bool IsUtf8Locale();
[[nodiscard]] std::string Shown(std::string text);

// SKEP-5210 for root without --allow-root: of the commands that write files.
[[nodiscard]] Status CheckUser(const GlobalOptions& options);

}  // namespace skep::aggregator
