// The built program on sequences: the templates of text and of a sensor.
#include "tests/simulator/fixture.h"
#include "tests/simulator/program.h"

namespace skep::simulator {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the shakespeare template brings a play and runs as it is", "[unit]") {
  const test::TemporaryFolder folder;
  const ProgramResult made = RunProgram(folder, "skep-simulator new bard --template shakespeare");
  INFO(made.error);
  REQUIRE(made.exit_code == 0);
  for (const char* role : {"FORAGER", "GUARD", "Old Queen"}) CHECK(Contains(made.output, role));
  const ProgramResult run = RunProgram(
      folder,
      "skep-simulator run bard/experiment.toml --output out --set training.rounds=2 --set "
      "training.eval_every=1 --set model.architecture=\"layers\" --set "
      "'model.layers=[\"embedding 4\", \"lstm 8\", \"dense 34\"]'");
  INFO(run.error);
  CHECK(run.exit_code == 0);
}

TEST_CASE("partition counts the labels of text", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("p.txt", "A:\nab\nb\n\nB:\nba\na\nb\n");
  REQUIRE(
      RunProgram(folder, "skep-simulator new bard --template shakespeare --data p.txt").exit_code ==
      0);
  const ProgramResult shown =
      RunProgram(folder, "skep-simulator partition bard/experiment.toml --json --svg p.svg");
  INFO(shown.error);
  REQUIRE(shown.exit_code == 0);
  CHECK(Contains(shown.output, R"("name":"A","examples":1)"));
  CHECK(Contains(shown.output, R"("labels":{"U+000A":1,"a":1,"b":1})"));
  CHECK(Contains(ReadText((folder.path() / "p.svg").string()), "Labels per client and class"));
}

TEST_CASE("plays have no columns to name, and templates with data take none", "[unit]") {
  const test::TemporaryFolder folder;
  const ProgramResult columns =
      RunProgram(folder, "skep-simulator new bard --template shakespeare --data p.txt --label y");
  CHECK(columns.exit_code == 2);
  CHECK(Contains(columns.error, "SKEP-1103"));
  CHECK(Contains(columns.error, "plays have no columns"));
  const ProgramResult data =
      RunProgram(folder, "skep-simulator new body --template sensors --data p.txt");
  CHECK(data.exit_code == 2);
  CHECK(Contains(data.error, "--data contradicts --template sensors"));
}

TEST_CASE("the sensors template runs as it is", "[unit]") {
  const test::TemporaryFolder folder;
  const ProgramResult made = RunProgram(folder, "skep-simulator new body --template sensors");
  INFO(made.error);
  REQUIRE(made.exit_code == 0);
  CHECK(Contains(made.output, "p4"));
  const ProgramResult run =
      RunProgram(folder, "skep-simulator run body/experiment.toml --set training.rounds=1");
  INFO(run.error);
  CHECK(run.exit_code == 0);
}

}  // namespace
}  // namespace skep::simulator
