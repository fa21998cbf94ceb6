#include "client/agent/commands/doctor.h"

#include <utility>

#include <fmt/format.h>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "client/agent/doctor.h"

namespace skep::agent {
namespace {

namespace json = boost::json;

json::object JsonOf(const Step& step) {
  json::object object{{"step", step.name}, {"ok", !step.problem}};
  if (!step.problem) {
    object["text"] = step.text;
    return object;
  }
  object["code"] = step.problem->code;
  object["text"] = step.problem->message;
  if (!step.problem->hint.empty()) object["hint"] = step.problem->hint;
  return object;
}

std::string TextOf(const Step& step) {
  if (!step.problem) return fmt::format("{:<14} ok         {}\n", step.name, step.text);
  const Error& problem = *step.problem;
  std::string line =
      fmt::format("{:<14} SKEP-{:<5} {}\n", step.name, problem.code, problem.message);
  if (!problem.hint.empty()) line += fmt::format("{:<25} {}\n", "", problem.hint);
  return line;
}

}  // namespace

int RunDoctor(const GlobalOptions& options) {
  auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  const DoctorSettings settings{
      .config = std::move(config).value(), .software = options.Software(), .limits = {}};
  json::array steps;
  Loop loop;
  const Status healthy = Examine(settings, loop, [&](const Step& step) {
    if (options.is_json) {
      steps.emplace_back(JsonOf(step));
    } else if (!options.is_quiet || step.problem) {
      PrintOut(TextOf(step));
    }
  });
  const int code = healthy.has_value() ? kDone : ExitCodeOf(healthy.error().code);
  if (!options.is_json) return code;
  const json::object object{{"schema", 1},
                            {"status", code == kDone ? "ok" : "error"},
                            {"exit_code", code},
                            {"data", {{"steps", std::move(steps)}}}};
  PrintOut(json::serialize(object) + "\n");
  return code;
}

}  // namespace skep::agent
