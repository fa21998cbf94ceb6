// The built program: what it answers to short questions, and to what cannot be read.
#include <cctype>
#include <filesystem>

#include "shared/config/schema.h"
#include "shared/model/layer_forms.h"
#include "shared/model/model_spec.h"
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

// The values of `key` that the comment behind its line in `toml` names: those of the schema.
std::vector<std::string> NamedInComment(const std::string& toml, const std::string& key) {
  const config::Key* const row = config::ExperimentSchema().Find(key);
  const std::string name = key.substr(key.find('.') + 1);
  // The last line of that name: the run has a "name", too.
  const std::size_t line = toml.rfind("\n" + name + " ");
  REQUIRE(line != std::string::npos);
  const std::size_t comment = toml.find('#', line);
  std::string word;
  std::vector<std::string> words;
  for (const char c : toml.substr(comment, toml.find('\n', comment) - comment) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') {
      word += c;
      continue;
    }
    if (!word.empty() && config::IsAmong(word, row->row->words)) words.push_back(word);
    word.clear();
  }
  return words;
}

TEST_CASE("new counts every row of a table as train, held out or test", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("mine.csv", ExampleTable());
  const ProgramResult made = RunProgram(
      folder, "skep-simulator --json new study --data mine.csv --client site --label outcome");
  const auto object = ParseJson(made.output);
  REQUIRE(object.has_value());
  std::map<std::string, std::uint64_t> rows;
  for (const JsonValue& client : *object->Find("data")->Find("clients")->items()) {
    const std::uint64_t total =
        *client.Whole("train") + *client.Whole("held_out") + *client.Whole("test");
    CHECK(client.Whole("rows") == total);
    CHECK(*client.Whole("test") > 0);
    rows[client.Text("client")] = total;
  }
  CHECK(rows == std::map<std::string, std::uint64_t>{{"north", 160}, {"south", 90}, {"west", 50}});
}

TEST_CASE("new shows a test part that belongs to nobody in a line of its own", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("mine.csv", ExampleTable());
  const ProgramResult made =
      RunProgram(folder, "skep-simulator new study --data mine.csv --label outcome");
  REQUIRE(made.exit_code == 0);
  CHECK(Contains(made.output, "  test part          0          0         60         60\n"));
  CHECK(Contains(made.output, "         60        300\n"));
}

TEST_CASE("a table of text alone is told how to name its header", "[unit]") {
  const test::TemporaryFolder folder;
  std::string table = "colour,site,state\n";
  for (int i = 0; i < 40; ++i)
    table += std::string(i % 3 == 0 ? "red" : "blue") + (i % 2 == 0 ? ",n,yes\n" : ",s,no\n");
  (void)folder.Write("text.csv", table);
  const std::string command = "skep-simulator new study --data text.csv --client site";
  const ProgramResult refused = RunProgram(folder, command);
  CHECK(refused.exit_code == 2);
  CHECK(Contains(refused.error, "SKEP-1202"));
  CHECK(Contains(refused.error, "if it names the columns: --header\n"));
  CHECK_FALSE(fs::exists(folder.path() / "study"));
  REQUIRE(RunProgram(folder, command + " --header").exit_code == 0);
  CHECK(RunProgram(folder, "skep-simulator check study/experiment.toml").exit_code == 0);
}

TEST_CASE("what the comments of a template name is in this build", "[unit]") {
  const std::string toml = FashionTemplate("x");
  for (const char* key : {"data.partition", "training.algorithm", "server_optimizer.name"}) {
    const config::Row& row = *config::ExperimentSchema().Find(key)->row;
    for (const std::string& word : NamedInComment(toml, key)) {
      INFO(key << " = " << word);
      CHECK((row.present.empty() || config::IsAmong(word, row.present)));
    }
  }
  CHECK(NamedInComment(toml, "data.partition").size() >= 2);
}

TEST_CASE("an empty NAME is a fault of the command line", "[unit]") {
  const test::TemporaryFolder folder;
  const ProgramResult made = RunProgram(folder, "skep-simulator new ''");
  CHECK(made.exit_code == 2);
  CHECK(made.error ==
        "error: NAME is empty\n   give the name of the folder to make\n"
        "   skep-simulator new --help\n");
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("list alone says what can be listed", "[unit]") {
  const test::TemporaryFolder folder;
  const ProgramResult lists = RunProgram(folder, "skep-simulator list");
  CHECK(lists.exit_code == 0);
  for (const char* list : {"algorithms", "rules", "partitions", "models", "datasets", "metrics"}) {
    INFO(list);
    CHECK(Contains("\n" + lists.output, "\n" + std::string(list) + " "));
  }
  CHECK(Contains(lists.output, "skep-simulator list WHAT"));
  const auto object = ParseJson(RunProgram(folder, "skep-simulator list --json").output);
  REQUIRE(object.has_value());
  CHECK(object->Find("data")->items()->size() == 6);
}

TEST_CASE("layers, and what stays on a client, can be explained and listed", "[unit]") {
  const test::TemporaryFolder folder;
  const ProgramResult layers = RunProgram(folder, "skep-simulator explain layers");
  CHECK(layers.exit_code == 0);
  for (const model::LayerForm& form : model::LayerForms()) {
    CHECK(Contains(layers.output, "  " + std::string(form.form)));
    const ProgramResult one =
        RunProgram(folder, "skep-simulator explain " + std::string(form.word));
    CHECK(one.exit_code == 0);
    CHECK(Contains(one.output, std::string(form.text)));
  }
  const ProgramResult fedbn = RunProgram(folder, "skep-simulator explain fedbn");
  CHECK(fedbn.exit_code == 0);
  CHECK(Contains(fedbn.output, "norm layers"));
  const ProgramResult models = RunProgram(folder, "skep-simulator list models");
  for (const std::string& name : model::PresetNames()) {
    INFO(name);
    CHECK(Contains("\n" + models.output, "\n" + name + " "));
  }
}

TEST_CASE("with --json the version is one object", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string plain = RunProgram(folder, "skep-simulator --version").output;
  const ProgramResult version = RunProgram(folder, "skep-simulator --json --version");
  CHECK(version.exit_code == 0);
  const auto object = ParseJson(version.output);
  REQUIRE(object.has_value());
  CHECK("skep-simulator " + object->Find("data")->Text("version") + "\n" == plain);
}

TEST_CASE("with --json a finished run that is resumed prints its last line again", "[unit]") {
  const ExperimentFolder experiment;
  REQUIRE(RunProgram(experiment.folder(), "skep-simulator run experiment.toml --output out --quiet")
              .exit_code == 0);
  const std::string metrics = ReadText(experiment.path("out/metrics.jsonl"));
  const ProgramResult again =
      RunProgram(experiment.folder(), "skep-simulator --json run --resume out");
  CHECK(again.exit_code == 0);
  CHECK(again.output.starts_with("{\"event\":\"end\",\"state\":\"finished\","));
  CHECK(metrics.ends_with("\n" + again.output));
}

TEST_CASE("data that are not there are shown at the key that names them", "[unit]") {
  const ExperimentFolder experiment;
  (void)experiment.folder().Write("wrong.toml", "schema = 1\n[data]\npath = \"tabel.csv\"\n");
  const ProgramResult check = RunProgram(experiment.folder(), "skep-simulator check wrong.toml");
  CHECK(check.exit_code == 2);
  INFO(check.error);
  CHECK(check.error.starts_with(
      "error[SKEP-1201]: wrong.toml:3:8: cannot read tabel.csv: No such file or directory\n"
      "    3 | path = \"tabel.csv\"\n"
      "      |        ^^^^^^^^^^^\n"));
  const ProgramResult set = RunProgram(
      experiment.folder(), "skep-simulator check experiment.toml --set data.test_path=no.csv");
  CHECK(set.exit_code == 2);
  CHECK(Contains(set.error, "error[SKEP-1201]: --set:1:16: cannot read no.csv: "));
}

TEST_CASE("a circle of symbolic links is named, with what helps, and nothing is made", "[unit]") {
  const ExperimentFolder experiment;
  fs::create_symlink("b", experiment.path("a"));
  fs::create_symlink("a", experiment.path("b"));
  for (const char* command :
       {"new a", "new study --data a", "run a", "check experiment.toml --set data.path=a", "runs a",
        "run --resume a", "report a"}) {
    const ProgramResult result =
        RunProgram(experiment.folder(), "skep-simulator " + std::string(command));
    INFO(command << ": " << result.error);
    CHECK((result.exit_code == 1 || result.exit_code == 2));
    CHECK(
        Contains(result.error, "its symbolic links lead in a circle: correct or remove the link"));
    CHECK(Contains(result.error, " a: "));
  }
  CHECK_FALSE(fs::exists(experiment.path("study")));
}

}  // namespace
}  // namespace skep::simulator
