#include "client/cli/console.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include <boost/json/serialize.hpp>

#include "shared/base/file.h"

namespace skep::cli {
namespace {

constexpr const char* kProgram = "skep-client";

void PrintError(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

// A result that nobody got is no result: a full disk, a reader that left.
int Finish(int code) {
  return std::fflush(stdout) == 0 ? code : static_cast<int>(kFailed);
}

}  // namespace

int ExitCodeOf(int error_number) {
  switch (error_number) {
    case 0:
      return kDone;
    case 3103:
    case 3116:
    case 4002:
    case 4003:
    case 4004:
    case 4012:
    case 5101:
    case 5102:
    case 5210:
    case 7001:
    case 7402:
    case 7403:
    case 7413:
    case 7414:
      return kUsage;
    default:
      break;
  }
  if (error_number < 2000) return kUsage;
  return error_number >= 3000 && error_number < 3200 ? kUnreachable : kFailed;
}

int Succeed(const GlobalOptions& options, const boost::json::object& data,
            const std::string& text) {
  if (options.is_json) {
    const boost::json::object object{
        {"schema", 1}, {"status", "ok"}, {"exit_code", 0}, {"data", data}};
    PrintOut(boost::json::serialize(object) + "\n");
  } else if (!options.is_quiet) {
    PrintOut(text);
  }
  return Finish(kDone);
}

int Fail(const GlobalOptions& options, const Error& error) {
  const int code = ExitCodeOf(error.code);
  if (options.is_json) {
    boost::json::object failure{{"code", error.code}, {"message", error.message}};
    if (!error.hint.empty()) failure["hint"] = error.hint;
    const boost::json::object object{
        {"schema", 1}, {"status", "error"}, {"exit_code", code}, {"error", std::move(failure)}};
    PrintOut(boost::json::serialize(object) + "\n");
    return Finish(code);
  }
  std::string text = "error[SKEP-" + std::to_string(error.code) + "]: " + error.message + "\n";
  if (!error.hint.empty()) text += "   " + error.hint + "\n";
  PrintError(text);
  return code;
}

int Fail(const GlobalOptions& options, const std::vector<config::Problem>& problems) {
  if (options.is_json) {
    PrintOut(config::ProblemsAsJson(problems) + "\n");
  } else {
    PrintError(config::FormatProblems(problems, {.program = kProgram, .is_utf8 = false}));
  }
  return Finish(kUsage);
}

void Tell(const GlobalOptions& options, const std::string& text) {
  if (!options.is_json && !options.is_quiet) PrintError(text);
}

void PrintOut(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

config::Validated<config::ClientConfig> LoadConfig(const GlobalOptions& options) {
  const config::ClientLoadOptions load{.sets = options.sets};
  const bool is_there = options.is_config_given || Exists(options.config);
  auto loaded = is_there ? config::LoadClientConfig(options.config, load)
                         : config::ParseClientConfig("", "client.toml", load);
  if (!loaded.has_value()) return loaded.problems();
  for (const config::Note& note : loaded->notes) Tell(options, config::FormatNote(note));
  config::ClientConfig config = std::move(loaded->value);
  if (!options.storage.empty()) config.storage_dir = options.storage;
  if (!options.data_experiment.empty()) {
    config.data.path.clear();
    config.data.dataset.clear();
    config.experiment = options.data_experiment;
  }
  if (options.part) config.part = options.part;
  // Without a slash at its end, which would hide in the names of files.
  while (config.storage_dir.size() > 1 && config.storage_dir.back() == '/') {
    config.storage_dir.pop_back();
  }
  return config;
}

}  // namespace skep::cli
