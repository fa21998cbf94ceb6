#include "client/cli/check.h"

#include <cstdio>
#include <optional>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "client/conform/conformance.h"
#include "shared/base/try.h"
#include "shared/config/value.h"

namespace skep::cli {
namespace {

namespace json = boost::json;

Result<std::uint64_t> SizeOf(const char* option, const std::string& text, std::uint64_t otherwise) {
  if (text.empty()) return otherwise;
  const std::optional<std::uint64_t> size = config::ParseSize(text);
  if (size) return *size;
  return Error{1101, std::string(option) + " takes a size such as \"64MiB\", not \"" + text + "\"",
               ""};
}

Result<conform::Request> RequestOf(const CheckOptions& check) {
  if (check.words.empty()) {
    return Error{1103, "check what? Give the program and its arguments",
                 "skep-client check ./build/app --join-file {join_file} --storage {storage}"};
  }
  conform::Request request;
  request.program = check.words.front();
  request.words.assign(check.words.begin() + 1, check.words.end());
  if (!conform::Mentions(request.words, "storage")) {
    return Error{1103,
                 "no argument of the program holds {storage}: where would it keep what is its own?",
                 "skep-client check PROGRAM --storage {storage} --join-file {join_file}"};
  }
  if (!check.only.empty()) {
    SKEP_ASSIGN(request.only, conform::ParseOnly(check.only, conform::KnownNumbers()));
  }
  request.forget_words = conform::SplitWords(check.forget_args);
  request.experiment = check.experiment;
  SKEP_ASSIGN(request.caps.memory, SizeOf("--max-memory", check.memory, request.caps.memory));
  SKEP_ASSIGN(request.caps.bytes_per_day, SizeOf("--max-bytes-per-day", check.bytes_per_day, 0));
  request.caps.cpu = check.cpu;
  request.caps.threads = check.threads;
  request.is_nondeterministic = check.is_nondeterministic;
  request.trains_on_battery = check.trains_on_battery;
  request.allows_root = check.allows_root;
  return request;
}

json::object ObjectOf(const conform::Line& line) {
  json::object object{{"number", line.number},
                      {"name", line.name},
                      {"verdict", conform::VerdictName(line.finding.verdict)}};
  if (!line.finding.measured.empty()) object["measured"] = line.finding.measured;
  if (!line.finding.allowed.empty()) object["allowed"] = line.finding.allowed;
  return object;
}

}  // namespace

int RunCheck(const GlobalOptions& options, const CheckOptions& check) {
  const Result<conform::Request> request = RequestOf(check);
  if (!request.has_value()) return Fail(options, request.error());
  const auto tell = [&](const conform::Line& line) {
    if (options.is_json) return;
    PrintOut(conform::TextOf(line) + "\n");
    (void)std::fflush(stdout);  // a check takes a while: its line is read when it is there
  };
  const auto lines = conform::RunChecks(*request, tell);
  if (!lines.has_value()) return Fail(options, lines.error());
  const int code = conform::ExitCodeOf(*lines);
  if (options.is_json) {
    json::array checks;
    for (const conform::Line& line : *lines) checks.push_back(ObjectOf(line));
    const json::object object{{"schema", 1},
                              {"status", code == 0 ? "ok" : "error"},
                              {"exit_code", code},
                              {"data", {{"checks", std::move(checks)}}}};
    PrintOut(json::serialize(object) + "\n");
  } else {
    PrintOut(conform::SummaryOf(*lines) + "\n");
  }
  return std::fflush(stdout) == 0 ? code : static_cast<int>(kFailed);
}

}  // namespace skep::cli
