// The built program: exit codes, texts, files.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "simulator/commands/templates.h"
#include "simulator/json.h"
#include "tests/simulator/fixture.h"
#include "tests/simulator/program.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("help of every command fits 80 columns", "[unit]") {
  const test::TemporaryFolder folder;
  for (const std::string command : {"", "new", "check", "partition", "run", "report", "schema",
                                    "list", "runs", "explain", "version"}) {
    const ProgramResult help = RunProgram(folder, "skep-simulator " + command + " --help");
    INFO(command);
    CHECK(help.exit_code == 0);
    CHECK(help.error.empty());
    std::istringstream lines(help.output);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
}

TEST_CASE("a wrong command or option gets a suggestion and exit code 2", "[unit]") {
  const test::TemporaryFolder folder;
  const ProgramResult command = RunProgram(folder, "skep-simulator rnu x.toml");
  CHECK(command.exit_code == 2);
  CHECK(command.error ==
        "error: unknown command \"rnu\"\n   did you mean \"run\"?\n"
        "   skep-simulator --help\n");
  const ProgramResult option = RunProgram(folder, "skep-simulator run x.toml --ouput y");
  CHECK(option.exit_code == 2);
  CHECK(Contains(option.error, "unknown option --ouput"));
  CHECK(Contains(option.error, "did you mean \"--output\"?"));
  CHECK(RunProgram(folder, "skep-simulator").exit_code == 2);
  CHECK(RunProgram(folder, "skep-simulator run").exit_code == 2);
}

TEST_CASE("a typo in the experiment names file, line, column and the key meant", "[unit]") {
  const ExperimentFolder experiment;
  (void)experiment.folder().Write("typo.toml", "schema = 1\n[training]\nround = 50\n");
  const ProgramResult run = RunProgram(experiment.folder(), "skep-simulator run typo.toml");
  CHECK(run.exit_code == 2);
  CHECK(Contains(run.error, "error[SKEP-1012]: typo.toml:3:1: unknown key \"training.round\""));
  CHECK(Contains(run.error, "did you mean \"rounds\"?"));
  CHECK_FALSE(fs::exists(experiment.path("runs")));
}

TEST_CASE("a wrong data path is told in at most twelve lines with exit code 2", "[unit]") {
  const ExperimentFolder experiment;
  const ProgramResult run = RunProgram(
      experiment.folder(), "skep-simulator run experiment.toml --set data.path=missing.csv");
  CHECK(run.exit_code == 2);
  CHECK(run.error_lines() <= 12);
  CHECK(Contains(run.error, "SKEP-1201"));
  CHECK(Contains(run.error, "missing.csv"));
  CHECK_FALSE(fs::exists(experiment.path("runs")));
}

TEST_CASE("a run writes its directory, and its summary to standard output", "[unit]") {
  const ExperimentFolder experiment;
  const ProgramResult run =
      RunProgram(experiment.folder(), "skep-simulator run experiment.toml --output out");
  INFO(run.error);
  REQUIRE(run.exit_code == 0);
  CHECK(Contains(run.output, "small finished: 6 rounds in "));
  CHECK(Contains(run.output, "report   out/report.html"));
  CHECK(Contains(run.error, "round=6/6 attempt=1 state=published "));
  for (const char* file :
       {"experiment.toml", "metrics.jsonl", "run.db", "model.safetensors", "best.safetensors",
        "checkpoints", "partition.csv", "report.html", "log.txt"}) {
    INFO(file);
    CHECK(fs::exists(experiment.folder().path() / "out" / file));
  }
  for (const char* file : {"experiment.toml", "metrics.jsonl", "report.html", "partition.csv"}) {
    INFO(file);
    CHECK_FALSE(Contains(ReadText(experiment.path(std::string("out/") + file)),
                         experiment.folder().path().string()));
  }
  // The same name again gets a number.
  CHECK(RunProgram(experiment.folder(),
                   "skep-simulator run experiment.toml --output out --quiet --no-report")
            .exit_code == 0);
  CHECK(fs::exists(experiment.path("out-2/run.db")));
  CHECK_FALSE(fs::exists(experiment.path("out-2/report.html")));
  const ProgramResult runs = RunProgram(experiment.folder(), "skep-simulator runs .");
  CHECK(Contains(runs.output, "finished"));
  CHECK(Contains(runs.output, "6/6"));
}

TEST_CASE("with --json the lines of metrics.jsonl are all there is on standard output", "[unit]") {
  const ExperimentFolder experiment;
  const ProgramResult run =
      RunProgram(experiment.folder(), "skep-simulator --json run experiment.toml --output out");
  REQUIRE(run.exit_code == 0);
  CHECK(run.output == ReadText(experiment.path("out/metrics.jsonl")));
  const ProgramResult refused =
      RunProgram(experiment.folder(), "skep-simulator check nothing.toml --json");
  CHECK(refused.exit_code == 2);
  const auto object = ParseJson(refused.output);
  REQUIRE(object.has_value());
  CHECK(object->Text("status") == "error");
  CHECK(object->Find("error")->Whole("code") == 1010U);
}

TEST_CASE("a run in which all clients fail ends with exit code 1 in at most twelve lines",
          "[unit]") {
  const ExperimentFolder experiment;
  const ProgramResult run =
      RunProgram(experiment.folder(),
                 "skep-simulator run experiment.toml --output out --set admission.max_norm=1e-6");
  CHECK(run.exit_code == 1);
  CHECK(Contains(run.output, "small failed"));
  CHECK(Contains(run.error, "SKEP-2203"));
  CHECK(Contains(run.error, "SKEP-2105"));
  CHECK(run.error_lines() <= 12);
}

TEST_CASE("the same seed gives the same bytes in another folder, locale and time zone", "[unit]") {
  const ExperimentFolder here;
  const ExperimentFolder there;
  fs::create_directories(there.folder().path() / "deep" / "er");
  fs::rename(there.path("experiment.toml"), there.path("deep/er/experiment.toml"));
  fs::rename(there.path("table.csv"), there.path("deep/er/table.csv"));
  REQUIRE(RunProgram(here.folder(), "skep-simulator run experiment.toml --output out --jobs 1",
                     "LC_ALL=C TZ=UTC")
              .exit_code == 0);
  REQUIRE(RunProgram(there.folder(),
                     "skep-simulator run deep/er/experiment.toml --output out --jobs 2",
                     "LC_ALL=C.UTF-8 TZ=Asia/Tokyo")
              .exit_code == 0);
  const auto hash = [](const ExperimentFolder& folder) {
    const std::string text = ReadText(folder.path("out/metrics.jsonl"));
    const auto at = text.find("\"result_sha256\":");
    REQUIRE(at != std::string::npos);
    return text.substr(at, 82);
  };
  CHECK(hash(here) == hash(there));
  CHECK(ReadText(here.path("out/partition.csv")) == ReadText(there.path("out/partition.csv")));
  CHECK(ReadText(here.path("out/data_spec.toml")) == ReadText(there.path("out/data_spec.toml")));
}

TEST_CASE("a run cut after a checkpoint resumes to the hash of an undisturbed one", "[unit]") {
  const ExperimentFolder experiment;
  REQUIRE(
      RunProgram(experiment.folder(), "skep-simulator run experiment.toml --output whole --quiet")
          .exit_code == 0);
  // What a kill leaves: everything up to the checkpoint of round 3, and half a line.
  fs::copy(experiment.path("whole"), experiment.path("cut"), fs::copy_options::recursive);
  const std::string metrics = ReadText(experiment.path("whole/metrics.jsonl"));
  const auto later = metrics.find("{\"event\":\"round\",\"round\":6");
  REQUIRE(later != std::string::npos);
  std::ofstream(experiment.path("cut/metrics.jsonl")) << metrics.substr(0, later + 20);
  fs::remove(experiment.path("cut/checkpoints/round-000006.safetensors"));
  const ProgramResult resumed =
      RunProgram(experiment.folder(), "skep-simulator run --resume cut --jobs 1");
  INFO(resumed.error);
  REQUIRE(resumed.exit_code == 0);
  CHECK(Contains(resumed.error, "resumed after round 5"));
  const auto hash = [](const std::string& text) {
    return text.substr(text.rfind("\"result_sha256\":"), 82);
  };
  CHECK(hash(ReadText(experiment.path("cut/metrics.jsonl"))) == hash(metrics));
  // Another configuration is refused, and changes nothing.
  const std::string before = ReadText(experiment.path("cut/metrics.jsonl"));
  CHECK(RunProgram(experiment.folder(), "skep-simulator run --resume cut").exit_code == 0);
  const ProgramResult other = RunProgram(
      experiment.folder(), "skep-simulator run experiment.toml --resume whole --set seed=9");
  CHECK(other.exit_code == 2);
  CHECK(Contains(other.error, "SKEP-1103"));
  CHECK(ReadText(experiment.path("cut/metrics.jsonl")) == before);
}

TEST_CASE("a table of one's own with a site column runs without a line of code", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("mine.csv", ExampleTable());
  const ProgramResult made =
      RunProgram(folder, "skep-simulator new study --data mine.csv --client site --label outcome");
  INFO(made.error);
  REQUIRE(made.exit_code == 0);
  for (const char* site : {"north", "south", "west", "calm", "storm"})
    CHECK(Contains(made.output, site));
  const ProgramResult run =
      RunProgram(folder, "skep-simulator run study/experiment.toml --output out");
  INFO(run.error);
  REQUIRE(run.exit_code == 0);
  CHECK(Contains(ReadText((folder.path() / "out/report.html").string()), "client north"));
  // It does not overwrite.
  const ProgramResult again =
      RunProgram(folder, "skep-simulator new study --data mine.csv --client site --label outcome");
  CHECK(again.exit_code == 2);
  CHECK(Contains(again.error, "exists already"));
}

TEST_CASE("a table with missing numbers and decimal commas says which options read it", "[unit]") {
  const test::TemporaryFolder folder;
  std::string rows = "dose;site;state\n";
  for (int i = 0; i < 40; ++i)
    rows += (i == 7 ? std::string("?") : std::to_string(i) + ",5") +
            (i % 2 == 0 ? ";north;sick\n" : ";south;well\n");
  (void)folder.Write("mine.csv", rows);
  const std::string command = "skep-simulator new study --data mine.csv --client site";
  const ProgramResult commas = RunProgram(folder, command);
  CHECK(commas.exit_code == 2);
  CHECK(Contains(commas.error, "--decimal ,"));
  const ProgramResult missing = RunProgram(folder, command + " --decimal ,");
  CHECK(missing.exit_code == 2);
  CHECK(Contains(missing.error, "--missing drop"));
  CHECK_FALSE(fs::exists(folder.path() / "study"));
  const ProgramResult made = RunProgram(folder, command + " --decimal , --missing mean");
  INFO(made.error);
  REQUIRE(made.exit_code == 0);
  CHECK(RunProgram(folder, "skep-simulator check study/experiment.toml").exit_code == 0);
}

TEST_CASE("an unknown column is refused with those that exist", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("mine.csv", ExampleTable());
  const ProgramResult made =
      RunProgram(folder, "skep-simulator new study --data mine.csv --client sites --label outcome");
  CHECK(made.exit_code == 2);
  CHECK(Contains(made.error, "SKEP-1202"));
  CHECK(Contains(made.error, "temperature, pressure, humidity, outcome, site"));
  CHECK(Contains(made.error, "did you mean \"site\"?"));
  CHECK_FALSE(fs::exists(folder.path() / "study"));
}

TEST_CASE("columns that could name the owner are offered, and nothing is guessed", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("mine.csv", ExampleTable());
  const ProgramResult made =
      RunProgram(folder, "skep-simulator new study --data mine.csv --label outcome");
  REQUIRE(made.exit_code == 0);
  CHECK(Contains(made.output, "--client could name one of: site\n"));
  CHECK_FALSE(
      Contains(ReadText((folder.path() / "study/experiment.toml").string()), "client_column ="));
}

TEST_CASE("the csv template runs as it is", "[unit]") {
  const test::TemporaryFolder folder;
  REQUIRE(RunProgram(folder, "skep-simulator new demo --template csv").exit_code == 0);
  CHECK(
      RunProgram(folder, "skep-simulator run demo/experiment.toml --quiet --set training.rounds=2")
          .exit_code == 0);
}

TEST_CASE("check prints the plan, every key, and whether the run repeats", "[unit]") {
  const ExperimentFolder experiment;
  const ProgramResult plan =
      RunProgram(experiment.folder(), "skep-simulator check experiment.toml");
  CHECK(plan.exit_code == 0);
  CHECK(Contains(plan.output, "experiment.toml is valid"));
  CHECK(Contains(plan.output, "12, iid"));
  const ProgramResult keys =
      RunProgram(experiment.folder(),
                 "skep-simulator check experiment.toml --effective --set training.rounds=9");
  CHECK(Contains(keys.output, "experiment.toml:3"));
  CHECK(Contains(keys.output, "--set"));
  const ProgramResult twice = RunProgram(
      experiment.folder(), "skep-simulator check experiment.toml --determinism --rounds 3");
  CHECK(twice.exit_code == 0);
  CHECK(Contains(twice.output, "identical: 3 rounds, 1 and "));
}

TEST_CASE("partition shows who holds what and writes it", "[unit]") {
  const ExperimentFolder experiment;
  const ProgramResult shown =
      RunProgram(experiment.folder(),
                 "skep-simulator partition experiment.toml --clients 3 --csv p.csv --svg p.svg");
  REQUIRE(shown.exit_code == 0);
  CHECK(Contains(shown.output, "9 more (--clients 12)"));
  CHECK(ReadText(experiment.path("p.csv")).starts_with("example,client\n"));
  CHECK(ReadText(experiment.path("p.svg")).starts_with("<svg xmlns="));
}

TEST_CASE("schema, list, explain and version answer", "[unit]") {
  const ExperimentFolder experiment;
  CHECK(Contains(RunProgram(experiment.folder(), "skep-simulator schema experiment.toml").output,
                 "classes    = [\"calm\", \"storm\"]"));
  CHECK(
      Contains(RunProgram(experiment.folder(), "skep-simulator list partitions").output, "shards"));
  CHECK(Contains(RunProgram(experiment.folder(), "skep-simulator explain SKEP-2104").output,
                 "SKEP-2104  update is not finite"));
  CHECK(Contains(RunProgram(experiment.folder(), "skep-simulator explain rounds").output,
                 "training.rounds"));
  CHECK(Contains(RunProgram(experiment.folder(), "skep-simulator version").output,
                 "skep-simulator 0."));
  const ProgramResult unknown = RunProgram(experiment.folder(), "skep-simulator explain roundz");
  CHECK(unknown.exit_code == 2);
  CHECK(Contains(unknown.error, "did you mean \"round"));
  CHECK(RunProgram(experiment.folder(), "skep-simulator list modles").exit_code == 2);
}

TEST_CASE("reports are rebuilt and compared from the runs alone", "[unit]") {
  const ExperimentFolder experiment;
  for (const char* seed : {"1", "2"})
    REQUIRE(
        RunProgram(experiment.folder(), std::string("skep-simulator run experiment.toml --quiet "
                                                    "--output r") +
                                            seed + " --set seed=" + seed)
            .exit_code == 0);
  const std::string first = ReadText(experiment.path("r1/report.html"));
  fs::remove(experiment.path("r1/report.html"));
  CHECK(RunProgram(experiment.folder(), "skep-simulator report r1").exit_code == 0);
  CHECK(ReadText(experiment.path("r1/report.html")) == first);
  CHECK(RunProgram(experiment.folder(), "skep-simulator report r1 r2 -o both.html").exit_code == 0);
  CHECK(Contains(ReadText(experiment.path("both.html")), "2 runs compared"));
  CHECK(RunProgram(experiment.folder(), "skep-simulator report nothing").exit_code == 2);
}

}  // namespace
}  // namespace skep::simulator
