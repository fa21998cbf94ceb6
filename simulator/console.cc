#include "simulator/console.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "simulator/plan.h"

namespace skep::simulator {
namespace {

constexpr int kFirstUpdateCode = 2000;  // 10xx to 14xx: configuration, data, model, resources

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
  const bool is_usage = std::all_of(problems.begin(), problems.end(), [](const auto& problem) {
    return problem.code < kFirstUpdateCode;
  });
  if (options_.is_json) {
    Put(stdout, config::ProblemsAsJson(problems) + "\n");
  } else {
    const config::ProblemStyle style{.program = "skep-simulator", .is_utf8 = error_style_.is_utf8};
    Put(stderr, Shown(config::FormatProblems(problems, style), error_style_));
  }
  return is_usage ? kExitUsage : kExitFailed;
}

int Console::Fail(const Error& error) const {
  return Fail(std::vector{AsProblem(error)});
}

}  // namespace skep::simulator
