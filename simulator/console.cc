#include "simulator/console.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "simulator/plan.h"

namespace skep::simulator {
namespace {

// 10xx to 14xx: configuration, data, model, resources; 53xx: what they add up to; a device that is
// asked for and not there.
bool IsUsage(int code) {
  constexpr int kNoDevice = 7201;
  return code < 2000 || (code >= 5300 && code < 5400) || code == kNoDevice;
}

void Put(std::FILE* file, const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), file);
  (void)std::fflush(file);
}

}  // namespace

Console::Console(const ConsoleOptions& options)
    : options_(options),
      output_style_(StyleFor(STDOUT_FILENO, options.color)),
      error_style_(StyleFor(STDERR_FILENO, options.color)) {}

void Console::Print(const std::string& text) const {
  if (!options_.is_json && !options_.is_quiet) Put(stdout, Shown(text, output_style_));
}

void Console::PrintLine(const std::string& line) const {
  if (options_.is_json) Put(stdout, line + "\n");
}

void Console::PrintJson(const std::string& data) const {
  if (options_.is_json)
    Put(stdout,
        fmt::format("{{\"schema\":1,\"status\":\"ok\",\"exit_code\":0,\"data\":{}}}\n", data));
}

void Console::Say(const config::Note& note) const {
  if (!options_.is_quiet) Put(stderr, Shown(config::FormatNote(note), error_style_));
}

void Console::SayDetail(const std::string& text) const {
  if (options_.is_verbose && !options_.is_quiet) Put(stderr, Shown(text, error_style_) + "\n");
}

int Console::Fail(const std::vector<config::Problem>& problems) const {
  const bool is_usage =
      std::all_of(problems.begin(), problems.end(),
                  [](const config::Problem& problem) { return IsUsage(problem.code); });
  const int exit_code = is_usage ? kExitUsage : kExitFailed;
  if (options_.is_json) {
    Put(stdout, config::ProblemsAsJson(problems, exit_code) + "\n");
  } else {
    const config::ProblemStyle style{.program = "skep-simulator", .is_utf8 = error_style_.is_utf8};
    Put(stderr, Shown(config::FormatProblems(problems, style), error_style_));
  }
  return exit_code;
}

int Console::Fail(const Error& error) const {
  return Fail(std::vector{AsProblem(error)});
}

int Console::Finish(int exit_code) const {
  if (std::ferror(stdout) == 0 || exit_code != kExitDone) return exit_code;
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  const bool has_no_reader =
      ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
  if (has_no_reader) return exit_code;  // who reads had enough
  Put(stderr,
      "error[SKEP-4001]: cannot write standard output\n"
      "   look at the free space where it goes\n");
  return kExitFailed;
}

}  // namespace skep::simulator
