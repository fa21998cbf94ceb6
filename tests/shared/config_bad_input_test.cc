#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "shared/config/experiment.h"
#include "tests/support/catch.h"

namespace skep::config {
namespace {

struct Case {
  std::string text;
  int code;
  std::string shown;      // place and message of the only problem
  std::string help = {};  // suggestion or hint
};

void CheckCase(const Case& bad, const std::vector<std::string>& sets = {}) {
  INFO(bad.text << " -> " << bad.shown);
  const auto loaded = ParseExperiment(bad.text, "e.toml", {.sets = sets});
  REQUIRE_FALSE(loaded.has_value());
  REQUIRE(loaded.problems().size() == 1);
  const Problem& problem = loaded.problems()[0];
  CHECK(problem.code == bad.code);
  CHECK(problem.place.Text() + ": " + problem.message == bad.shown);
  CHECK((problem.suggestion.empty() ? problem.hint : problem.suggestion) == bad.help);
}

TEST_CASE("what is not TOML is refused where it stops being it", "[unit]") {
  const std::vector<Case> cases{
      {"seed = 1\nname = \n", 1015, "e.toml:2:8: not valid TOML: expected a value"},
      {"[data\n", 1015, "e.toml:1:6: not valid TOML: expected ']'"},
      {"seed = 1\nseed = 2\n", 1015,
       "e.toml:2:8: not valid TOML: cannot redefine existing integer 'seed'"},
      {"name = \"\xff\xfe\"\n", 1015, "e.toml:1:8: not valid TOML: encountered invalid UTF-8"},
      {"\u00e9 = 1\n", 1015,
       "e.toml:1:1: not valid TOML: expected keys, tables, whitespace or comments"},
  };
  for (const Case& bad : cases) CheckCase(bad);
}

std::string Repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST_CASE("keys of very many parts are refused before they are tables in tables", "[unit]") {
  const std::string deep = Repeated("a.", 100'000) + "a = 1\n";
  const std::string said = "a key of more than 8 parts: no section is as deep";
  CheckCase({"seed = 1\n" + deep, 1015, "e.toml:2:16: " + said});
  CheckCase({"[" + Repeated("a . ", 100'000) + "a]\n", 1015, "e.toml:1:32: " + said});
  CheckCase(
      {"name = \"\"\"\n\"\"\"\n[data]\npath = { " + deep + " }\n", 1015, "e.toml:4:25: " + said});
  CheckCase({"", 1101, "--set:1:6: \"seed\" must be a whole number, found a string"},
            {"seed={" + Repeated("a.", 100'000) + "a=1}"});
}

TEST_CASE("dots that divide no key do not count as its parts", "[unit]") {
  for (const char* text : {"[data]\npath = \"../../../../../../../../../x\" # .........\n",
                           "[data]\npath = '''.........'''\nfeatures = [\"..........\"]\n",
                           "[data]\nclasses = [\"\\\"..........\", '..........']\n",
                           "[data]\nfeature_noise = 0.5\nlabel_noise = 0.5\n"}) {
    INFO(text);
    const auto loaded = ParseExperiment(text, "e.toml", {});
    if (loaded.has_value()) continue;
    for (const Problem& problem : loaded.problems()) CHECK(problem.code != 1015);
  }
}

TEST_CASE("unknown keys and sections are refused by name", "[unit]") {
  const std::vector<Case> cases{
      {"[trainig]\nrounds = 3\n", 1012, "e.toml:1:2: unknown section \"trainig\"", "training"},
      {"[training]\nclients = 3\n", 1012, "e.toml:2:1: unknown key \"training.clients\"",
       "clients_per_round"},
      {"rounds = 3\n", 1012, "e.toml:1:1: unknown key \"rounds\"", "a key of [training]"},
      {"[training]\nRounds = 3\n", 1012, "e.toml:2:1: unknown key \"training.Rounds\"", "rounds"},
      {"[data]\nzzzzzz = 3\n", 1012, "e.toml:2:1: unknown key \"data.zzzzzz\""},
      {"[data.dataset]\nx = 3\n", 1101,
       "e.toml:1:7: \"data.dataset\" must be a string, found a table"},
      {"[client]\nepochs = 3\n", 1013, "e.toml:2:1: \"client.epochs\" is ambiguous",
       "give \"client.local_epochs\" (passes over a client's data) or \"training.rounds\" "
       "(aggregations)"},
      {"[client]\nlr = 0.5\nlearning_rate = 0.5\n", 1014,
       "e.toml:3:1: \"learning_rate\" is the same key as \"lr\" (line 2): give one"},
      {"training = 3\n", 1101,
       "e.toml:1:1: \"training\" is a section: its keys stand below [training]"},
      {"[seed]\nx = 1\n", 1101, "e.toml:1:2: \"seed\" must be a whole number, found a table"},
  };
  for (const Case& bad : cases) CheckCase(bad);
}

TEST_CASE("a value of another type is refused", "[unit]") {
  const std::vector<Case> cases{
      {"seed = \"1\"\n", 1101, "e.toml:1:8: \"seed\" must be a whole number, found a string"},
      {"[training]\nrounds = 5.0\n", 1101,
       "e.toml:2:10: \"training.rounds\" must be a whole number, found a number with a fraction"},
      {"[training]\nreport_deadline = 30\n", 1101,
       "e.toml:2:19: \"training.report_deadline\" must be a duration in quotes such as \"30s\" "
       "(ms, s, m, h, d), found a "
       "whole number"},
      {"[training]\nreport_deadline = \"30 s\"\n", 1101,
       "e.toml:2:19: \"training.report_deadline\" must be a duration in quotes such as \"30s\" "
       "(ms, s, m, h, d), found \"30 s\""},
      {"[training]\nstop_after_bytes = 1000\n", 1101,
       "e.toml:2:20: \"training.stop_after_bytes\" must be a size in quotes such as \"64MiB\" "
       "(KiB, MiB, GiB, TiB, kB, MB, GB, "
       "TB), found a whole number"},
      {"[client]\nbatch_size = 1.5\n", 1101,
       "e.toml:2:14: \"client.batch_size\" must be a whole number or \"all\", found a number with "
       "a fraction"},
      {"[client]\nnesterov = 1\n", 1101,
       "e.toml:2:12: \"client.nesterov\" must be true or false, found a whole number"},
      {"[model]\nhidden = [64, \"x\"]\n", 1101,
       "e.toml:2:10: \"model.hidden\" must be a list of whole numbers, found a list"},
      {"name = 2026-01-01\n", 1101, "e.toml:1:8: \"name\" must be a string, found a date or time"},
      {"[data]\npath = \"a.csv\"\nscaling = { age = [1] }\n", 1101,
       "e.toml:3:11: \"data.scaling\" must be a table NAME = [offset, scale], found a table"},
  };
  for (const Case& bad : cases) CheckCase(bad);
}

TEST_CASE("a value out of range is refused with the range", "[unit]") {
  const std::vector<Case> cases{
      {"[training]\nrounds = 0\n", 1102,
       "e.toml:2:10: \"training.rounds\" is 0; allowed 1 to 1000000"},
      {"[client]\nlearning_rate = 0\n", 1102,
       "e.toml:2:17: \"client.learning_rate\" is 0; allowed above 0, at most 1000"},
      {"[client]\nlearning_rate = nan\n", 1102,
       "e.toml:2:17: \"client.learning_rate\" is nan; allowed above 0, at most 1000"},
      {"[training]\ntarget = inf\n", 1102,
       "e.toml:2:10: \"training.target\" is inf; allowed a finite number"},
      {"[client]\nmomentum = 1.0\n", 1102,
       "e.toml:2:12: \"client.momentum\" is 1.0; allowed at least 0, below 1"},
      {"[client]\ngradient_clip = -1\n", 1102,
       "e.toml:2:17: \"client.gradient_clip\" is -1; allowed above 0"},
      {"[client]\nbatch_size = \"most\"\n", 1102,
       "e.toml:2:14: \"client.batch_size\" is \"most\"; allowed \"all\""},
      {"[client]\nbatch_size = 0\n", 1102,
       "e.toml:2:14: \"client.batch_size\" is 0; allowed 1 to 1000000 or \"all\""},
      {"[training]\nreport_deadline = \"8d\"\n", 1102,
       "e.toml:2:19: \"training.report_deadline\" is \"8d\"; allowed \"1s\" to \"7d\""},
      {"[data]\npartition = \"dirichle\"\n", 1102,
       "e.toml:2:13: \"data.partition\" is \"dirichle\"; allowed \"iid\", \"dirichlet\", "
       "\"shards\", \"natural\"",
       "dirichlet"},
      {"name = \"No Spaces\"\n", 1102,
       "e.toml:1:8: \"name\" is \"No Spaces\"; allowed 1 to 64 of a-z, 0-9, _ and -, beginning "
       "with a letter or a digit"},
      {"[model]\ninput = []\n", 1102, "e.toml:2:9: \"model.input\" is []; allowed 1 to 4 values"},
      {"[model]\narchitecture = \"mlp\"\nhidden = [0]\n", 1102,
       "e.toml:3:10: \"model.hidden\" is [0]; allowed 1 to 8192"},
      {"[data]\npath = \"\"\n", 1102,
       "e.toml:2:8: \"data.path\" is \"\"; allowed a text that is not empty"},
      {"[data]\npath = \"a.csv\"\nscaling = { age = [1, 0] }\n", 1102,
       "e.toml:3:11: \"data.scaling\" is { age = [1, 0] }; allowed a scale other than 0"},
      {"[training]\ntarget = 80\n", 1102,
       "e.toml:2:10: \"training.target\" is 80.0; allowed 0 to 1 for accuracy"},
      {"[training]\nmetrics = [\"loss\", \"accuracy\", \"loss\"]\n", 1102,
       "e.toml:2:11: \"training.metrics\" holds \"loss\" twice"},
  };
  for (const Case& bad : cases) CheckCase(bad);
}

TEST_CASE("what this build lacks is named with what it has", "[unit]") {
  const std::vector<Case> cases{
      {"[training]\nalgorithm = \"fedprox\"\n", 1019,
       "e.toml:2:13: \"training.algorithm\" = \"fedprox\" is not in this build; it has \"fedavg\""},
      {"[data]\npartition = \"hetero\"\ndirichlet_alpha = [1, 2]\n", 1019,
       "e.toml:3:19: \"data.dirichlet_alpha\" as a list is not in this build; it has one number "
       "for all clients"},
      {"[model]\narchitecture = \"plugin:my.so\"\n", 1019,
       "e.toml:2:16: \"model.architecture\" = \"plugin:my.so\" is not in this build; it has "
       "\"softmax\", \"mlp\", \"2nn\", \"fedavg-cnn\", \"lenet\", \"pfl-cnn\", \"resnet8\", "
       "\"resnet20\", "
       "\"char-lstm\", \"har-cnn\", \"tiny-transformer\" or \"layers\""},
      {"[model]\narchitecture = \"program:train\"\n", 1019,
       "e.toml:2:16: \"model.architecture\" = \"program:train\" is not in this build; it has "
       "\"softmax\", \"mlp\", \"2nn\", \"fedavg-cnn\", \"lenet\", \"pfl-cnn\", \"resnet8\", "
       "\"resnet20\", "
       "\"char-lstm\", \"har-cnn\", \"tiny-transformer\" or \"layers\""},
      {"[model]\ninitial_model = \"m.onnx\"\n", 1019,
       "e.toml:2:17: \"model.initial_model\" = \"m.onnx\" is not in this build; it has "
       "\"*.safetensors\""},
      {"[training]\nmetrics = [\"accuracy\", \"auc\"]\n", 1019,
       "e.toml:2:11: \"training.metrics\" = [\"accuracy\", \"auc\"] is not in this build; it has "
       "\"accuracy\" or \"loss\""},
      {"[secure_aggregation]\nenabled = true\n", 1019,
       "e.toml:2:11: \"secure_aggregation.enabled\" = true is not in this build; it has false"},
      {"[privacy]\nmechanism = \"dp_sgd\"\n", 1019,
       "e.toml:2:13: \"privacy.mechanism\" = \"dp_sgd\" is not in this build; it has \"none\""},
      {"[personalization]\nmethod = \"ditto\"\n", 1019,
       "e.toml:2:10: \"personalization.method\" = \"ditto\" is not in this build; it has \"none\" "
       "or "
       "\"fedbn\""},
      {"[devices]\ntrain_watts = 3\n", 1019,
       "e.toml:2:15: \"devices.train_watts\" is not in this build"},
  };
  for (const Case& bad : cases) CheckCase(bad);
}

TEST_CASE("values that contradict each other are refused at the later one", "[unit]") {
  const std::vector<Case> cases{
      {"[client]\nlocal_steps = 3\nlocal_epochs = 1\n", 1103,
       "e.toml:3:1: \"local_epochs\" contradicts \"local_steps\" (line 2): give one"},
      {"[data]\ndataset = \"fashion-mnist\"\npath = \"x\"\n", 1103,
       "e.toml:3:1: \"path\" contradicts \"dataset\" (line 2): give one"},
      {"[data]\nclient_column = \"site\"\n", 1103,
       "e.toml:2:1: \"data.client_column\" needs \"data.path\" or \"data.features\" or "
       "\"data.classes\""},
      {"[training]\nmin_reports = 150\nclients_per_round = 100\n", 1103,
       "e.toml:2:1: \"training.min_reports\" (150) exceeds \"training.clients_per_round\" (100)"},
      {"[training]\nrounds = 5\neval_every = 6\n", 1103,
       "e.toml:3:1: \"training.eval_every\" (6) exceeds \"training.rounds\" (5)"},
      {"[training]\nstop_at_target = true\n", 1103,
       "e.toml:2:18: \"training.stop_at_target\" = true needs \"training.target\""},
      {"[client]\nnesterov = true\n", 1103,
       "e.toml:2:12: \"client.nesterov\" = true needs \"client.momentum\" above 0"},
      {"[model]\narchitecture = \"layers\"\n", 1103,
       "e.toml:2:16: \"model.architecture\" = \"layers\" needs \"model.layers\""},
      {"[model]\nhidden = [10]\n", 1103,
       "e.toml:2:1: \"model.hidden\" is only for \"model.architecture\" = \"mlp\"; it is \"2nn\""},
      {"[aggregation]\nclip_radius = 3\n", 1103,
       "e.toml:2:1: \"aggregation.clip_radius\" is only for \"aggregation.rule\" = "
       "\"centered_clipping\"; it is \"mean\""},
      {"[data]\nmin_examples = 9\nmax_examples = 8\n", 1103,
       "e.toml:2:1: \"data.min_examples\" (9) exceeds \"data.max_examples\" (8)"},
      {"[training]\nmetrics = [\"loss\"]\ntarget_metric = \"accuracy\"\n", 1103,
       "e.toml:3:17: \"training.target_metric\" (\"accuracy\") is not in \"training.metrics\""},
      {"[data]\npath = \"x\"\nfeatures = [\"a\"]\nscaling = { b = [0, 1] }\n", 1103,
       "e.toml:4:11: \"data.scaling\" names \"b\", which is not in \"data.features\""},
      {"[data]\npartition = \"natural\"\n", 1103,
       "e.toml:2:13: \"data.partition\" = \"natural\" needs \"data.client_column\""},
      {"[training]\nclients_per_round = 101\n", 1105,
       "e.toml:2:1: \"training.clients_per_round\" (101) exceeds \"data.num_clients\" (100)"},
      {"[training]\nclients_per_round = 80\nover_selection = 1.3\n", 1105,
       "e.toml:3:1: \"training.over_selection\" (1.3) x \"training.clients_per_round\" (80) "
       "invites 104 clients; "
       "\"data.num_clients\" is 100"},
      {"[async]\nbuffer_size = 5\n", 1106,
       "e.toml:2:1: \"async.buffer_size\" is only for \"training.algorithm\" = \"fedbuff\" or "
       "\"fedasync\"; it is \"fedavg\""},
      {"[client]\nmu = 0.5\n", 1106,
       "e.toml:2:1: \"client.proximal_mu\" is only for \"training.algorithm\" = \"fedprox\" or "
       "\"fednova\"; it is \"fedavg\""},
      {"[data]\nclasses = [\"a\", \"b\"]\n[model]\nclasses = 3\n", 1301,
       "e.toml:4:11: \"model.classes\" is 3; \"data.classes\" names 2",
       "leave it out: data.classes says it"},
  };
  for (const Case& bad : cases) CheckCase(bad);
}

TEST_CASE("a file of a newer version is refused for that alone", "[unit]") {
  CheckCase({"schema = 2\n[future]\nkey = 1\n", 1018,
             "e.toml: schema 2 is newer than this program (reads 1)"});
  CheckCase({"", 1018, "--set:1:8: schema 2 is newer than this program (reads 1)"}, {"schema=2"});
  CheckCase({"schema = 0\n", 1102, "e.toml:1:10: \"schema\" is 0; allowed 1"});
}

TEST_CASE("an option acts or is an error", "[unit]") {
  CheckCase(
      {"", 1103, "--set:3:1: \"training.rounds\" is set twice (--set:1 and --set:3): give one"},
      {"training.rounds=3", "seed=1", "training.rounds = 4"});
  CheckCase({"", 1012, "--set:1:1: unknown key \"data.scaling.age\""}, {"data.scaling.age=[1, 2]"});
  CheckCase({"", 1012, "--set:1:1: unknown key \"trainig.rounds\"", "training.rounds"},
            {"trainig.rounds=3"});
  CheckCase({"", 1101, "--set:1:1: \"data\" is a section: its keys stand below [data]"},
            {"data={x=1}"});
  CheckCase({"", 1015, "--set:1:1: not SECTION.KEY=VALUE", "as in --set training.rounds=5"},
            {"training.rounds"});
  CheckCase({"", 1101, "--set:1:17: \"training.rounds\" must be a whole number, found a string"},
            {"training.rounds="});
  CheckCase({"", 1101, "--set:1:6: \"seed\" must be a whole number, found a string"},
            {"seed=1\nname = \"x\""});
  // A parameter of another rule may stay in a file, but an option that does nothing is a mistake.
  CheckCase({"", 1103,
             "--set:2:1: \"data.dirichlet_alpha\" is only for \"data.partition\" = \"dirichlet\" "
             "or \"inner_dirichlet\"; it is "
             "\"iid\""},
            {"data.partition=iid", "data.dirichlet_alpha=1"});
  CheckCase(
      {"[training]\nclients_per_round = 5\n", 1103,
       "--set:1:1: \"client_fraction\" contradicts \"clients_per_round\" (e.toml:2): give one"},
      {"training.client_fraction=0.1"});
}

TEST_CASE("a value that was refused causes no second problem", "[unit]") {
  CheckCase({"[training]\nalgorithm = \"fedbuf\"\n[async]\nbuffer_size = 5\n", 1102,
             "e.toml:2:13: \"training.algorithm\" is \"fedbuf\"; allowed \"fedavg\""});
}

TEST_CASE("a file that cannot be read says why", "[unit]") {
  char folder[] = "/tmp/skep-config-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::filesystem::path root(folder);
  const auto shown = [](const std::string& path) {
    const auto loaded = LoadExperiment(path, {});
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.problems()[0].code == 1010);
    return loaded.problems()[0].place.Text() + ": " + loaded.problems()[0].message;
  };
  CHECK(shown(root / "none.toml") ==
        (root / "none.toml").string() + ": cannot be read: No such file or directory");
  CHECK(shown(root) == root.string() + ": cannot be read: it is a folder");
  std::ofstream(root / "large.toml") << std::string((1 << 20) + 1, '#');
  CHECK(shown(root / "large.toml") == (root / "large.toml").string() + ": is larger than 1 MiB");
  std::ofstream(root / "full.toml") << std::string(1 << 20, '#');
  CHECK(LoadExperiment(root / "full.toml", {}).has_value());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace skep::config
