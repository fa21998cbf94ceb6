// The whole harness: a program in order passes, and each planted fault is caught by its check.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <map>

#include "tests/support/catch.h"
#include "tests/support/process.h"

namespace skep::test {
namespace {

namespace json = boost::json;

const std::string kClient = SKEP_BINARY_DIR "/bin/skep-client";

struct Verdicts {
  int code = -1;
  std::map<int, std::string> of;  // number: verdict
  std::string text;
};

Verdicts Check(const std::string& only, std::vector<std::string> program,
               std::vector<std::string> options = {}) {
  std::vector<std::string> words{kClient, "check", "--json", "--allow-root", "--only", only};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), program.begin(), program.end());
  const Outcome outcome = RunToEnd({.words = words}, Milliseconds(900'000));
  Verdicts verdicts{.code = outcome.code, .of = {}, .text = outcome.out + outcome.err};
  INFO(verdicts.text);
  const json::value answer = json::parse(outcome.out);
  for (const json::value& check : answer.at("data").at("checks").as_array()) {
    verdicts.of[check.at("number").to_number<int>()] = std::string(check.at("verdict").as_string());
  }
  return verdicts;
}

Verdicts CheckApp(const std::string& only, const std::string& name) {
  return Check(only,
               {std::string(SKEP_CONFORM_PROGRAMS) + "/conform_" + name, "--join-file",
                "{join_file}", "--storage", "{storage}"},
               {"--on-battery"});
}

std::vector<std::string> StockClient() {
  return {kClient,       "run",
          "--join-file", "{join_file}",
          "--storage",   "{storage}",
          "--set",       "data.path={data}",
          "--set",       "data.label=state",
          "--set",       "limits.device=cpu",
          "--set",       "eligibility.charging=true"};
}

TEST_CASE("the stock client passes", "[slow]") {
  const Verdicts verdicts = Check("1,2,3,4,5,7,8,9,10,11,12,13,15,16,19,20,21,22", StockClient(),
                                  {"--forget-args", "--storage {storage} forget --yes"});
  INFO(verdicts.text);
  CHECK(verdicts.code == 0);
  for (const auto& [number, verdict] : verdicts.of) CHECK(verdict != "FAIL");
  // Those that need nothing but the aggregator cannot be skipped.
  for (const int number : {1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 13, 19, 21, 22}) {
    INFO(number);
    CHECK(verdicts.of.at(number) == "ok");
  }
}

TEST_CASE("the stock client keeps to its bytes per day", "[slow]") {
  std::vector<std::string> program = StockClient();
  program.insert(program.end(), {"--set", "limits.bytes_per_day=3MiB"});
  const Verdicts verdicts = Check("14", program, {"--max-bytes-per-day", "3MiB"});
  INFO(verdicts.text);
  CHECK(verdicts.of.at(14) == "ok");
  // The same program against a smaller cap than its own.
  const Verdicts smaller = Check("14", program, {"--max-bytes-per-day", "1MiB"});
  INFO(smaller.text);
  CHECK(smaller.of.at(14) == "FAIL");
  CHECK(smaller.code == 1);
}

TEST_CASE("an application in order passes what faulty ones fail", "[slow]") {
  const Verdicts verdicts = CheckApp("3,11,20", "faultless");
  INFO(verdicts.text);
  CHECK(verdicts.code == 0);
  CHECK(verdicts.of.at(3) == "ok");
  CHECK(verdicts.of.at(11) == "ok");
  CHECK(verdicts.of.at(20) != "FAIL");
}

TEST_CASE("planted faults are caught by their checks", "[slow]") {
  const std::vector<std::pair<std::string, int>> faults{{"faulty_nan", 3},
                                                        {"faulty_blocking", 11},
                                                        {"faulty_deaf", 11},
                                                        {"faulty_listener", 20},
                                                        {"faulty_writer", 20}};
  for (const auto& [name, number] : faults) {
    const Verdicts verdicts = CheckApp(std::to_string(number), name);
    INFO(name << "\n" << verdicts.text);
    // Without namespaces nobody sees where else a program writes.
    if (name == "faulty_writer" && verdicts.of.at(number) == "skip") continue;
    CHECK(verdicts.of.at(number) == "FAIL");
    CHECK(verdicts.code == 1);
  }
}

TEST_CASE("what cannot be checked is a usage error", "[slow]") {
  CHECK(RunToEnd({.words = {kClient, "check"}}).code == 2);
  CHECK(RunToEnd({.words = {kClient, "check", "/bin/true"}}).code == 2);
  CHECK(RunToEnd({.words = {kClient, "check", "./missing", "{storage}"}}).code == 2);
  const Outcome unknown =
      RunToEnd({.words = {kClient, "check", "--only", "99", "/bin/true", "{storage}"}});
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("no check 99") != std::string::npos);
}

}  // namespace
}  // namespace skep::test
