#include "aggregator/server/commands/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "aggregator/server/admin_json.h"

namespace skep::aggregator {
namespace {

namespace json = boost::json;

constexpr std::string_view kProgram = "skep-aggregator";

bool HasColor(const GlobalOptions& options) {
  if (options.color != "auto") return options.color == "always";
  const char* none = std::getenv("NO_COLOR");
  return (none == nullptr || *none == '\0') && ::isatty(STDERR_FILENO) == 1;
}

// As a shell reads one word.
std::string Quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

// What stands between the program's name and `command`, blanks included.
std::string OptionsFor(const GlobalOptions& options, std::string_view command) {
  constexpr std::array<std::string_view, 2> kOnFiles{"serve", "check"};
  constexpr std::array<std::string_view, 8> kOnDaemon{"status", "population", "token",  "devices",
                                                      "device", "run",        "export", "reload"};
  const auto is_one_of = [command](const auto& names) {
    return std::find(names.begin(), names.end(), command) != names.end();
  };
  const bool needs_files = is_one_of(kOnFiles);
  if (!needs_files && !is_one_of(kOnDaemon)) return " ";
  std::string text = " ";
  if (options.is_config_given) text += "--config " + Quoted(options.config) + " ";
  if (needs_files && options.allows_root) text += "--allow-root ";
  if (!needs_files && !options.socket.empty()) text += "--socket " + Quoted(options.socket) + " ";
  return text;
}

Error Runnable(const GlobalOptions& options, Error error) {
  error.hint = skep::aggregator::Runnable(options, error.hint);
  return error;
}
config::Problem Runnable(const GlobalOptions& options, config::Problem problem) {
  problem.hint = skep::aggregator::Runnable(options, problem.hint);
  return problem;
}

int Finish(int code) {
  // A result that nobody got is no result: a full disk, a reader that left.
  return std::fflush(stdout) == 0 ? code : kFailed;
}

template <class Failure>
void PrintFailures(int code, const std::vector<Failure>& failures) {
  json::object object{{"schema", 1}, {"status", "error"}, {"exit_code", code}};
  if (failures.size() == 1) {
    object["error"] = ToJson(failures.front());
  } else {
    object["errors"] = ToJsonArray(failures);
  }
  PrintOut(json::serialize(object) + "\n");
}

}  // namespace

int ExitCodeOf(int error_number) {
  switch (error_number) {
    case 4005:
      return kSyncFailed;
    case 4006:
    case 4007:
    case 4008:
      return kDamaged;
    case 4002:
    case 4003:
    case 4004:
    case 4012:
    case 4013:
    case 4018:
    case 5408:
      return kUsage;
    case 5401:
    case 5402:
      return kUnreachable;
    case 5407:
      return kTimedOut;
    default:
      break;
  }
  const bool is_configuration =
      error_number < 2000 || (error_number >= 5100 && error_number < 5400);
  return is_configuration ? kUsage : kFailed;
}

int Succeed(const GlobalOptions& options, const json::value& data, const std::string& text) {
  if (options.is_quiet && !options.is_json) return kDone;
  return Deliver(options, data, text);
}

int Deliver(const GlobalOptions& options, const json::value& data, const std::string& text) {
  if (options.is_json) {
    const json::object object{{"schema", 1}, {"status", "ok"}, {"exit_code", 0}, {"data", data}};
    PrintOut(json::serialize(object) + "\n");
  } else {
    PrintOut(text);
  }
  return Finish(kDone);
}

int Fail(const GlobalOptions& options, const Error& error) {
  return Fail(options, std::vector<Error>{error});
}

int Fail(const GlobalOptions& options, const std::vector<Error>& given) {
  const int code = ExitCodeOf(given.front().code);
  std::vector<Error> errors;
  for (const Error& error : given) errors.push_back(Runnable(options, error));
  if (options.is_json) {
    PrintFailures(code, errors);
  } else {
    for (const Error& error : errors) PrintError(ErrorText(options, error));
  }
  return Finish(code);
}

int Fail(const GlobalOptions& options, const std::vector<config::Problem>& given) {
  const int code = ExitCodeOf(given.front().code);
  std::vector<config::Problem> problems;
  for (const config::Problem& problem : given) problems.push_back(Runnable(options, problem));
  if (options.is_json) {
    PrintFailures(code, problems);
  } else {
    PrintError(config::FormatProblems(
        problems, {.program = std::string(kProgram), .is_utf8 = IsUtf8Locale()}));
  }
  return Finish(code);
}

std::string Runnable(const GlobalOptions& options, const std::string& text) {
  const std::string name = std::string(kProgram) + " ";
  std::string runnable;
  std::size_t from = 0;
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, from)) {
    const std::size_t command = at + name.size();
    const std::size_t end = std::min(text.find_first_of(" \n", command), text.size());
    runnable += text.substr(from, command - 1 - from);
    runnable += OptionsFor(options, std::string_view(text).substr(command, end - command));
    from = command;
  }
  return runnable + text.substr(from);
}

std::string ErrorText(const GlobalOptions& options, const Error& error) {
  const bool has_color = HasColor(options);
  std::string text = has_color ? "\x1b[31m" : "";
  text += "error[SKEP-" + std::to_string(error.code) + "]:";
  text += has_color ? "\x1b[0m " : " ";
  text += error.message + "\n";
  if (!error.hint.empty()) text += "   " + error.hint + "\n";
  return text;
}

void Tell(const GlobalOptions& options, const std::string& text) {
  if (!options.is_json && !options.is_quiet) PrintError(Shown(text));
}

void Tell(const GlobalOptions& options, const std::vector<config::Note>& notes) {
  for (const config::Note& note : notes) Tell(options, config::FormatNote(note));
}

void PrintOut(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

void PrintError(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

bool IsLive(const GlobalOptions& options) {
  const char* terminal = std::getenv("TERM");
  return !options.is_json && !options.is_quiet && terminal != nullptr &&
         std::string_view(terminal) != "dumb" && ::isatty(STDERR_FILENO) == 1;
}

std::size_t TerminalWidth() {
  constexpr std::size_t kUsual = 80;
  constexpr std::size_t kLeast = 20;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < kLeast) return kUsual;
  return size.ws_col;
}

bool IsUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    for (const std::string_view form : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (text.find(form) != std::string_view::npos) return true;
    }
    return false;
  }
  return false;
}

std::string Shown(std::string text) {
  constexpr std::string_view kDot = "\u00b7";
  if (IsUtf8Locale()) return text;
  for (std::size_t at = text.find(kDot); at != std::string::npos; at = text.find(kDot, at)) {
    text.replace(at, kDot.size(), "-");
  }
  return text;
}

Status CheckUser(const GlobalOptions& options) {
  if (::geteuid() != 0 || options.allows_root) return Ok();
  return Error{5210, "running as root is refused",
               "use the service user, or --allow-root in a container"};
}

}  // namespace skep::aggregator
