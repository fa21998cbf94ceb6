// The built program where something around it is broken: streams, disks, run directories.
#include <filesystem>
#include <fstream>

#include "simulator/json.h"
#include "simulator/metrics_log.h"
#include "simulator/run_db.h"
#include "tests/simulator/fixture.h"
#include "tests/simulator/program.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kRun = "skep-simulator run experiment.toml --output out";

TEST_CASE("with closed standard streams nothing of them lands in a file of the run", "[unit]") {
  const ExperimentFolder experiment;
  const std::string command = "( " + std::string(kRun) + " <&- >&- 2>&- )";
  REQUIRE(RunProgram(experiment.folder(), command).exit_code == 0);
  for (const auto& entry : fs::directory_iterator(experiment.path("out"))) {
    if (!entry.is_regular_file()) continue;
    const std::string text = ReadText(entry.path().string());
    INFO(entry.path());
    CHECK_FALSE(Contains(text, "skep-simulator report out DIR"));
    CHECK_FALSE(Contains(text, "round=1/"));
  }
  CHECK(ReadMetrics(experiment.path("out/metrics.jsonl"))->end_state == "finished");
}

TEST_CASE("a result that does not reach standard output is exit code 1", "[unit]") {
  if (!fs::exists("/dev/full")) SKEP_SKIP("no /dev/full");
  const ExperimentFolder experiment;
  for (const char* command : {"schema experiment.toml", "check experiment.toml", "version",
                              "check experiment.toml --json"}) {
    INFO(command);
    const ProgramResult result = RunProgram(
        experiment.folder(), "( skep-simulator " + std::string(command) + " >/dev/full )");
    CHECK(result.exit_code == 1);
    CHECK(Contains(result.error, "SKEP-4001"));
  }
}

TEST_CASE("a reader that had enough does not make a run fail", "[unit]") {
  const ExperimentFolder experiment;
  const ProgramResult run = RunProgram(
      experiment.folder(), "( ( " + std::string(kRun) + " --json; echo $? >code ) | head -c 1 )");
  CHECK(run.exit_code == 0);
  CHECK(ReadText(experiment.path("code")) == "0\n");
}

TEST_CASE("the exit code in the JSON of an error is that of the program", "[unit]") {
  const ExperimentFolder experiment;
  (void)experiment.folder().Write("file", "");
  for (const char* command : {"run --resume nothing", "run experiment.toml --output file/out",
                              "check experiment.toml --set admission.max_norm=1e300"}) {
    INFO(command);
    const ProgramResult result =
        RunProgram(experiment.folder(), "skep-simulator --json " + std::string(command));
    const auto object = ParseJson(result.output);
    REQUIRE(object.has_value());
    CHECK(result.exit_code != 0);
    CHECK(object->Whole("exit_code") == static_cast<std::uint64_t>(result.exit_code));
  }
}

TEST_CASE("a run that was killed while its files were being closed is completed", "[unit]") {
  const ExperimentFolder experiment;
  REQUIRE(RunProgram(experiment.folder(), std::string(kRun) + " --quiet").exit_code == 0);
  const auto hash = [&] {
    const std::string text = ReadText(experiment.path("out/metrics.jsonl"));
    return text.substr(text.rfind("\"result_sha256\":"), 82);
  };
  const std::string before = hash();
  fs::remove(experiment.path("out/model.safetensors"));
  fs::remove(experiment.path("out/report.html"));
  REQUIRE(RunProgram(experiment.folder(), "skep-simulator run --resume out").exit_code == 0);
  CHECK(fs::exists(experiment.path("out/model.safetensors")));
  CHECK(fs::exists(experiment.path("out/report.html")));
  CHECK(hash() == before);
}

// What a report would read of it.
std::string SummaryOf(const std::string& database) {
  const auto run = ReadRunDb(database);
  REQUIRE(run.has_value());
  std::string text = run->name + " " + run->state + " " + run->result_sha256;
  for (const RoundRecord& round : run->rounds) text += "\n" + round.model.Hex();
  for (const auto& [name, points] : run->metrics)
    text += "\n" + name + " " + std::to_string(points.size());
  for (const ClientHistory& client : run->clients) text += "\n" + std::to_string(client.examples);
  for (const HistorySetting& setting : run->settings) text += "\n" + setting.key;
  for (const CodeCount& code : run->codes) text += "\n" + std::to_string(code.count) + code.message;
  return text;
}

TEST_CASE("a run.db that is missing is made anew from metrics.jsonl, and the run says so",
          "[unit]") {
  const ExperimentFolder experiment;
  REQUIRE(RunProgram(experiment.folder(), std::string(kRun) + " --quiet").exit_code == 0);
  const std::string before = SummaryOf(experiment.path("out/run.db"));
  fs::remove(experiment.path("out/run.db"));
  const ProgramResult report = RunProgram(experiment.folder(), "skep-simulator report out");
  CHECK(report.exit_code == 1);
  CHECK(Contains(report.error, "skep-simulator run --resume out makes it anew"));
  const ProgramResult resumed = RunProgram(experiment.folder(), "skep-simulator run --resume out");
  INFO(resumed.error);
  REQUIRE(resumed.exit_code == 0);
  CHECK(Contains(resumed.error, "note: out/run.db is missing: made anew from metrics.jsonl"));
  CHECK(SummaryOf(experiment.path("out/run.db")) == before);
  CHECK(RunProgram(experiment.folder(), "skep-simulator report out").exit_code == 0);
}

TEST_CASE("a run.db that is damaged is made anew and kept under another name", "[unit]") {
  const ExperimentFolder experiment;
  REQUIRE(RunProgram(experiment.folder(), std::string(kRun) + " --quiet").exit_code == 0);
  const std::string before = SummaryOf(experiment.path("out/run.db"));
  const std::string whole = ReadText(experiment.path("out/run.db"));
  const bool is_cut = GENERATE(true, false);
  const std::string damaged = is_cut ? whole.substr(0, whole.size() / 2) : std::string(5000, 'x');
  std::ofstream(experiment.path("out/run.db"), std::ios::binary) << damaged;
  const ProgramResult resumed = RunProgram(experiment.folder(), "skep-simulator run --resume out");
  INFO(resumed.error);
  CHECK(resumed.exit_code == 0);
  CHECK(Contains(resumed.error, "note: out/run.db is damaged ("));
  CHECK(Contains(resumed.error, "the old one is out/run.db.damaged"));
  CHECK(ReadText(experiment.path("out/run.db.damaged")) == damaged);
  CHECK(SummaryOf(experiment.path("out/run.db")) == before);
}

TEST_CASE("what cannot be resumed says so with its number and changes nothing", "[unit]") {
  const ExperimentFolder experiment;
  REQUIRE(RunProgram(experiment.folder(), std::string(kRun) + " --quiet").exit_code == 0);
  const ProgramResult none = RunProgram(experiment.folder(), "skep-simulator run --resume nothing");
  CHECK(none.exit_code == 2);
  CHECK(Contains(none.error, "SKEP-1201"));
  const ProgramResult elsewhere =
      RunProgram(experiment.folder(), "skep-simulator run --resume out --output other");
  CHECK(elsewhere.exit_code == 2);
  CHECK(Contains(elsewhere.error, "SKEP-1103"));
  CHECK_FALSE(fs::exists(experiment.path("other")));
  std::ofstream(experiment.path("out/metrics.jsonl")).close();
  const ProgramResult unborn = RunProgram(experiment.folder(), "skep-simulator run --resume out");
  CHECK(unborn.exit_code == 1);
  CHECK(Contains(unborn.error, "start it anew"));
}

}  // namespace
}  // namespace skep::simulator
