#include <string>
#include <vector>

#include "shared/base/rng.h"
#include "shared/config/experiment.h"
#include "shared/config/toml_reader.h"
#include "tests/support/catch.h"

namespace skep::config {
namespace {

Loaded<Experiment> Load(const std::string& text, const LoadOptions& options = {},
                        const std::string& path = "dir/My Run.toml") {
  auto loaded = ParseExperiment(text, path, options);
  INFO(FormatProblems(loaded.problems(), {.program = "x"}));
  REQUIRE(loaded.has_value());
  return std::move(loaded).value();
}

std::vector<std::string> Notes(const Loaded<Experiment>& loaded) {
  std::vector<std::string> texts;
  for (const Note& note : loaded.notes) texts.push_back(FormatNote(note));
  return texts;
}

TEST_CASE("an empty file is a whole experiment", "[unit]") {
  const auto loaded = Load("");
  const Experiment& e = loaded.value;
  CHECK(e.name == "my-run");
  CHECK(e.seed == 42);
  CHECK(e.data.dataset == "fashion-mnist");
  CHECK(e.data.num_clients == 100);
  CHECK(e.data.partition == "dirichlet");
  CHECK(e.data.min_examples == 10);
  CHECK(e.data.partition_seed == 42);
  CHECK(e.model.init == "fan-in");
  CHECK(e.training.rounds == 50);
  CHECK(e.training.clients_per_round == 10);
  CHECK(e.training.min_reports == 5);
  CHECK(e.training.invited == 10);
  CHECK(e.training.report_deadline == std::chrono::minutes(10));
  CHECK(e.training.client_eval_every == 10);
  CHECK(e.client.local_epochs == 1);
  CHECK(e.client.local_steps == 0);
  CHECK(e.client.batch_size == 10);
  CHECK(e.admission.max_weight == 1'048'576);
  CHECK(e.run.jobs == 0);
  CHECK(loaded.notes.empty());
}

TEST_CASE("defaults follow from other keys", "[unit]") {
  CHECK(Load("[model]\narchitecture = \"softmax\"\n").value.model.init == "zeros");
  CHECK(Load("[model]\ninitial_model = \"m.safetensors\"\n").value.model.init.empty());
  CHECK(Load("[training]\nweighting = \"uniform\"\n").value.admission.max_weight == 1);
  CHECK(Load("[training]\nrounds = 3\n").value.training.client_eval_every == 3);
  CHECK(Load("seed = 7\n").value.data.partition_seed == 7);
  CHECK(Load("[data]\npartition = \"iid\"\n").value.data.min_examples == 1);
  CHECK(Load("[data]\nnum_clients = 4\n").value.training.clients_per_round == 4);
  CHECK(Load("[data]\nclasses = [\"a\", \"b\"]\n").value.data.dataset.empty());
  const Experiment steps = Load("[client]\nlocal_steps = 7\n").value;
  CHECK((steps.client.local_steps == 7 && steps.client.local_epochs == 0));
  const Experiment loss = Load("[training]\nmetrics = [\"loss\"]\n").value;
  CHECK(
      (loss.training.target_metric == "loss" && loss.training.target_mode == TargetMode::kMinimum));
  CHECK(Load("[client]\nbatch_size = \"all\"\n").value.client.batch_size == 0);
}

TEST_CASE("a count times a fraction is an integer computation", "[unit]") {
  CHECK(RoundedShare(100, 0.1) == 10);
  CHECK(RoundedShare(5, 0.5) == 3);
  CHECK(RoundedShare(1000, 0.0015) == 2);
  CHECK(RoundedShare(3, 0.1666664) == 0);
  CHECK(RoundedShare(3, 0.1666667) == 1);
  CHECK(ShareRoundedUp(10, 1.1) == 11);
  CHECK(ShareRoundedUp(10, 1.1000001) == 11);  // 1.1 after rounding to 1e-6
  CHECK(ShareRoundedUp(10, 1.10001) == 12);
  CHECK(ShareRoundedUp(10'000'000, 10) == 100'000'000);
  CHECK(Load("[training]\nclient_fraction = 0\n").value.training.clients_per_round == 1);
  CHECK(Load("[training]\nclient_fraction = 0.255\n").value.training.clients_per_round == 26);
}

TEST_CASE("aliases of other frameworks are read and said once", "[unit]") {
  const auto loaded = Load(
      "random_seed = 5\n[training]\nCohort-Size = 7\n[data]\nsplitter = \"homo\"\n[client]\nLR = "
      "0.5\n");
  CHECK(loaded.value.training.clients_per_round == 7);
  CHECK(loaded.value.data.partition == "iid");
  CHECK(loaded.value.client.learning_rate == 0.5);
  CHECK(Notes(loaded) ==
        std::vector<std::string>{
            "note: \"random_seed\" is called \"seed\" in Skep (accepted)\n",
            "note: \"Cohort-Size\" is called \"clients_per_round\" in Skep (accepted)\n",
            "note: \"splitter\" is called \"partition\" in Skep (accepted)\n",
            "note: \"homo\" is called \"iid\" in Skep (accepted)\n",
            "note: \"LR\" is called \"learning_rate\" in Skep (accepted)\n"});
}

TEST_CASE("options win over the file, which wins over defaults", "[unit]") {
  const auto loaded = Load(
      "[training]\nrounds = 5\nreport_deadline = \"90s\"\n",
      {.sets = {"training.rounds=6", "training.report_deadline=30s", "name=abc", "data.decimal=,",
                "data.path=x.csv", "model.hidden=[3, 4]", "model.architecture=mlp"}});
  CHECK(loaded.value.training.rounds == 6);
  CHECK(loaded.value.training.report_deadline == std::chrono::seconds(30));
  CHECK(loaded.value.name == "abc");
  CHECK(loaded.value.data.decimal == ',');
  CHECK(loaded.value.model.hidden == std::vector<std::uint32_t>{3, 4});
  CHECK(loaded.effective.at("training.rounds").SourceText() == "--set");
  CHECK(loaded.effective.at("training.max_attempts").SourceText() == "default");
  CHECK(loaded.effective.at("training.min_reports").SourceText() == "derived");
}

TEST_CASE("the source of a value is the file's name and line", "[unit]") {
  CHECK(Load("\nseed = 3\n").effective.at("seed").SourceText() == "My Run.toml:2");
}

TEST_CASE("paths start from the folder of the file or from the one given", "[unit]") {
  const std::string text = "[data]\npath = \"a/x.csv\"\ntest_path = \"/abs.csv\"\n";
  CHECK(Load(text).value.data.path == "dir/a/x.csv");
  CHECK(Load(text).value.data.path_text == "a/x.csv");
  CHECK(Load(text).value.data.test_path == "/abs.csv");
  CHECK(
      Load(text, {.sets = {}, .program = Program::kSimulator, .folder = "other"}).value.data.path ==
      "other/a/x.csv");
  CHECK(Load(text, {}, "e.toml").value.data.path == "a/x.csv");
}

TEST_CASE("the data specification is read as it is printed", "[unit]") {
  const Experiment e =
      Load(
          "[data]\nfeatures = [\"age\", \"sex\", \"cp\"]\nclasses = [\"healthy\", \"sick\"]\n"
          "categories = { cp = [\"1\", \"2\", \"3\", \"4\"] }\nscaling = { age = [54.4, 9] }\n")
          .value;
  CHECK(e.data.features.size() == 3);
  CHECK(e.data.categories.at("cp").size() == 4);
  CHECK(e.data.scaling.at("age") == std::pair(54.4, 9.0));
}

TEST_CASE("a parameter of another rule may stay in the file, with a note", "[unit]") {
  const auto loaded = Load("[data]\npartition = \"iid\"\ndirichlet_alpha = 0.1\n");
  CHECK(Notes(loaded) ==
        std::vector<std::string>{
            "note: \"data.dirichlet_alpha\" is only for \"data.partition\" = \"dirichlet\" or "
            "\"inner_dirichlet\"; it is \"iid\": it has no effect\n"});
  CHECK(loaded.effective.HashedLines() ==
        Load("[data]\npartition = \"iid\"\n").effective.HashedLines());
}

TEST_CASE("a key that this build lacks may stand at its default", "[unit]") {
  const auto loaded = Load(
      "[async]\nbuffer_size = 10\n[privacy]\nmechanism = \"none\"\nclip_norm = 1\n"
      "[secure_aggregation]\nenabled = false\n[admission]\nmax_aux_norm = 100\n");
  CHECK(loaded.notes.empty());
  CHECK(loaded.effective.HashedLines() == Load("").effective.HashedLines());
}

TEST_CASE("a step size far above the default is a note", "[unit]") {
  CHECK(Load("[client]\nlearning_rate = 1\n").notes.empty());
  CHECK(Notes(Load("[client]\nlearning_rate = 10\n")) ==
        std::vector<std::string>{"note: \"client.learning_rate\" is 10.0, 100x the default 0.1\n"});
}

TEST_CASE("the aggregator ignores the simulator's sections with one note and warns of a seed",
          "[unit]") {
  const auto loaded = Load("seed = 3\n[devices]\ndropout = 0.1\n[run]\njobs = 2\n",
                           {.sets = {}, .program = Program::kAggregator});
  CHECK(Notes(loaded) == std::vector<std::string>{
                             "warning[SKEP-5314]: dir/My Run.toml:1:1: \"seed\" is given: whoever "
                             "knows it can predict the "
                             "cohorts\n   leave it out, except to compare with a simulation\n",
                             "note: [devices], [run]: for the simulator; checked, then ignored\n"});
}

TEST_CASE("fedbn is for both programs, other methods are not in this build", "[unit]") {
  const std::string fedbn = "[personalization]\nmethod = \"fedbn\"\n";
  const auto loaded = Load(fedbn, {.sets = {}, .program = Program::kAggregator});
  CHECK(loaded.value.personalization.method == "fedbn");
  CHECK(loaded.notes.empty());
  CHECK(Load("").value.personalization.method == "none");
}

TEST_CASE("the aggregator's seed is drawn unless it is given, and never splits the data",
          "[unit]") {
  auto drawn = Load("", {.sets = {}, .program = Program::kAggregator});
  CHECK_FALSE(drawn.value.is_seed_given);
  SetDrawnSeed(drawn, 77);
  CHECK(drawn.value.seed == 77);
  CHECK(drawn.value.data.partition_seed == 42);
  CHECK(drawn.effective.HashedLines().substr(0, 10) == "seed = 77\n");
  auto given = Load("seed = 5\n", {.sets = {}, .program = Program::kAggregator});
  SetDrawnSeed(given, 77);
  CHECK(given.value.seed == 5);
}

TEST_CASE("the configuration hash does not depend on order, name, population, run or unit spelling",
          "[unit]") {
  const Hash32 hash =
      Load("[training]\nrounds = 5\nreport_deadline = \"120s\"\n[client]\nlearning_rate = 1\n")
          .effective.ConfigHash();
  const auto same = [&](const std::string& text) {
    return Load(text, {}, "other.toml").effective.ConfigHash() == hash;
  };
  CHECK(
      same("schema = 1\nname = \"zz\"\npopulation = \"P\"\n[run]\njobs = 3\noutput = "
           "\"x\"\n[client]\nlr = 1.0\n"
           "[training]\nreport_deadline = \"2m\"\nrounds = 5\n"));
  CHECK(
      same("seed = 42\n[training]\nrounds = 5\nreport_deadline = \"2m\"\nclient_fraction = "
           "0.1\n[client]\nlearning_rate = 1\n"));
  CHECK_FALSE(
      same("seed = 43\n[training]\nrounds = 5\nreport_deadline = \"2m\"\n[client]\nlearning_rate = "
           "1\n"));
  CHECK_FALSE(
      same("[training]\nrounds = 6\nreport_deadline = \"2m\"\n[client]\nlearning_rate = 1\n"));
}

TEST_CASE("hashed lines are canonical TOML in schema order", "[unit]") {
  const std::string lines = Load("seed = 1\n").effective.HashedLines();
  CHECK(lines.substr(0, 63) ==
        "seed = 1\ndata.dataset = \"fashion-mnist\"\ndata.task = \"auto\"\ndata");
  CHECK(lines.find("\ntraining.metrics = [\"accuracy\", \"loss\"]\n") != std::string::npos);
  CHECK(lines.find("\nserver_optimizer.learning_rate = 1.0\n") != std::string::npos);
  CHECK(lines.find("run.") == std::string::npos);
}

TEST_CASE("a saved configuration gives the same configuration again", "[unit]") {
  const std::vector<std::string> texts{
      "", "[training]\nclient_fraction = 0.3\nrounds = 3\n",
      "[client]\nlocal_steps = 3\nbatch_size = \"all\"\n",
      "[data]\npath = \"t.csv\"\nclient_column = \"a b\\\"c\"\nscaling = { \"x y\" = [1, 2] "
      "}\nlabel = 3\nheader = false\n",
      "[model]\narchitecture = \"mlp\"\nhidden = []\n[training]\ntarget = 0.8\nstop_at_target = "
      "true\nstop_after_bytes = \"3GB\"\n"};
  for (const std::string& text : texts) {
    const auto first = Load(text);
    INFO(first.effective.AsToml());
    const auto second = Load(first.effective.AsToml());
    CHECK(second.effective.HashedLines() == first.effective.HashedLines());
    CHECK(second.value.name == first.value.name);
  }
}

TEST_CASE("what waits for the data is completed by them", "[unit]") {
  auto loaded = Load("[data]\npath = \"t.csv\"\nclient_column = \"site\"\n");
  CHECK(loaded.value.data.partition == "natural");
  CHECK(loaded.value.data.num_clients == 0);
  CHECK(loaded.value.training.clients_per_round == 0);
  DataFacts facts;
  facts.rows = 500;
  facts.owners = 4;
  facts.classes = 2;
  facts.input = {13};
  CHECK(FinishExperiment(loaded, facts).empty());
  CHECK(loaded.value.data.num_clients == 4);
  CHECK(loaded.value.training.clients_per_round == 4);
  CHECK(loaded.value.training.min_reports == 2);
  CHECK(loaded.value.training.invited == 4);
  CHECK(loaded.value.model.input == std::vector<std::uint32_t>{13});
  CHECK(loaded.value.model.classes == 2);
  const Hash32 hash = loaded.effective.ConfigHash();
  CHECK(FinishExperiment(loaded, facts).empty());
  CHECK(loaded.effective.ConfigHash() == hash);
}

TEST_CASE("data that do not fit the configuration are refused", "[unit]") {
  struct Bad {
    std::string text;
    DataFacts facts;
    int code;
    std::string shown;
  };
  const auto facts = [](std::uint64_t rows, std::uint32_t owners, std::uint64_t largest) {
    DataFacts made;
    made.rows = rows;
    made.owners = owners;
    made.classes = 10;
    made.input = {28, 28};
    made.largest_client = largest;
    made.largest_client_name = "client north";
    return made;
  };
  const std::vector<Bad> cases{
      {"[data]\nnum_clients = 100\n", facts(999, 4, 10), 1104,
       "e.toml:2:1: 100 clients x \"data.min_examples\" (10) need 1,000 examples; the data have "
       "999"},
      {"[data]\nmin_examples = 20\n", facts(1999, 4, 10), 1104,
       "e.toml:2:1: 100 clients x \"data.min_examples\" (20) need 2,000 examples; the data have "
       "1,999"},
      {"[data]\npath = \"t.csv\"\nclient_column = \"s\"\nnum_clients = 5\n", facts(999, 4, 10),
       1105, "e.toml:4:15: \"data.num_clients\" is 5; the data have 4 owners"},
      {"[data]\npath = \"t.csv\"\nclient_column = \"s\"\n[training]\nclients_per_round = 5\n",
       facts(999, 4, 10), 1105,
       "e.toml:5:1: \"training.clients_per_round\" (5) exceeds \"data.num_clients\" (4)"},
      {"[model]\ninput = [783]\n", facts(60'000, 4, 10), 1301,
       "e.toml:2:9: \"model.input\" is [783] (783 values); an example of the data has 784"},
      {"[model]\nclasses = 5\n", facts(60'000, 4, 10), 1301,
       "e.toml:2:11: \"model.classes\" is 5; the data have 10 classes"},
      {"[admission]\nmax_weight = 5\n", facts(60'000, 4, 10), 1102,
       "e.toml:2:14: client north has 10 examples; \"admission.max_weight\" is 5"},
  };
  for (const Bad& bad : cases) {
    INFO(bad.shown);
    auto loaded = Load(bad.text, {}, "e.toml");
    const auto problems = FinishExperiment(loaded, bad.facts);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].code == bad.code);
    CHECK(problems[0].place.Text() + ": " + problems[0].message == bad.shown);
  }
  auto fits = Load("[model]\ninput = [784]\n[training]\nweighting = \"uniform\"\n");
  CHECK(FinishExperiment(fits, facts(60'000, 4, 10)).empty());
}

TEST_CASE("no text makes the reader fail, and what it accepts it accepts again", "[unit]") {
  const std::string base =
      "seed = 3\n[data]\nnum_clients = 10 # \u00e9\nlabel = "
      "\"x\\u00e9\"\n[training]\nclients_per_round = 3\nmetrics = [\"loss\"]\n"
      "[client]\nlr = 0.5\nt = \"\"\"\\\n  \u00e9\"\"\"\n[data.scaling]\n\"\u4e16\" = [1, 2.5]\n";
  RandomStream draws(17, {.purpose = Purpose::kPartition});
  constexpr std::string_view kBytes = "[]{}=\"'\\\n\t #,.0x_-\xc3\xa9\xff\x00nan";
  for (int i = 0; i < 3000; ++i) {
    std::string text = base;
    for (std::uint64_t edits = 1 + draws.Below(4); edits > 0; --edits) {
      const auto at = static_cast<std::size_t>(draws.Below(text.size()));
      if (draws.Below(3) == 0) {
        text.erase(at, static_cast<std::size_t>(draws.Below(6)));
      } else {
        text.insert(at, 1, kBytes[static_cast<std::size_t>(draws.Below(kBytes.size()))]);
      }
    }
    const auto loaded = ParseExperiment(text, "e.toml", {});
    if (!loaded) CHECK_FALSE(FormatProblems(loaded.problems(), {.program = "x"}).empty());
  }
}

}  // namespace
}  // namespace skep::config
