// Plays against a specification, under a partition, and as they are in the world.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tests/shared/data_fixture.h"

namespace skep::data {
namespace {

using test::TemporaryFolder;
using Names = std::vector<std::string>;

constexpr const char* kPlay =
    "A:\n"
    "ab\n"
    "ab\n"
    "\n"
    "B:\n"
    "ba\n"
    "b\n"
    "aa\n";
const std::string kShakespeare = SKEP_SOURCE_DIR "/../shared/data/shakespeare/input.txt.gz";

DataOptions Plays() {
  DataOptions options;
  options.format = "plays";
  options.text_length = 4;
  return options;
}

DataOptions Planned(Names classes) {
  DataOptions options = Plays();
  options.plan = DataSpec{.task = Task::kNextToken,
                          .features = {Feature{.name = "x", .categories = {}}},
                          .classes = std::move(classes),
                          .label = ""};
  return options;
}

Result<LoadedData> LoadPlay(std::string_view text, DataOptions options = Plays()) {
  const TemporaryFolder folder;
  options.path = folder.Write("play.txt", text).string();
  return Load(options);
}

std::string Refused(const DataOptions& options, int code) {
  return MessageOf(LoadPlay(kPlay, options), code);
}

TEST_CASE("text is read by the classes of a plan, in their order", "[unit]") {
  const LoadedData loaded = LoadPlay(kPlay, Planned({"b", "z", "U+000A", "a"})).value();
  CHECK(loaded.spec.classes == Names{"b", "z", "U+000A", "a"});
  CHECK(loaded.train->labels == std::vector<std::int32_t>{3, 0, 2, -1, 0, 3, 2, -1, 0, 2, -1, -1});
  CHECK(loaded.train->bytes == std::vector<std::uint8_t>{2, 3, 0, 2, 2, 0, 3, 2, 2, 0, 2, 2});
}

TEST_CASE("a character that a plan lacks is refused without showing it", "[unit]") {
  CHECK(Refused(Planned({"U+000A", "b"}), 7414) ==
        "play.txt, line 2: unknown character; known: \"U+000A\", \"b\"");
  CHECK(Refused(Planned({"a", "b"}), 7414) == "the classes lack \"U+000A\", the end of a line");
  CHECK(Refused(Planned({"U+000A", "a", "bee"}), 7414) == "class \"bee\" is no character");
}

TEST_CASE("a character that given classes lack is refused by name", "[unit]") {
  DataOptions options = Plays();
  options.classes = {"U+000A", "b"};
  CHECK(Refused(options, 1202) ==
        "play.txt, line 2: unknown character \"a\"; known: \"U+000A\", \"b\"");
}

TEST_CASE("a plan for something else than text is refused", "[unit]") {
  DataOptions options = Planned({"U+000A", "a", "b"});
  options.plan->task = Task::kClassification;
  CHECK(Refused(options, 7414) ==
        "the plan has another task than next_token, which the data are for");
  options = Planned({"U+000A", "a", "b"});
  options.plan->features[0].scale = 255;
  CHECK(Refused(options, 7414) == "play.txt holds text; columns or scaled numbers are expected");
  options = Planned({"0", "1"});
  options.format = "csv";
  CHECK(MessageOf(LoadCsv("a,b\n1,0\n2,1\n", options), 7414) ==
        "the plan has another task than classification, which the data are for");
}

TEST_CASE("keys that mean nothing to text are refused by name", "[unit]") {
  const std::string end = " contradicts \"data.format\" = \"plays\": ";
  DataOptions options = Plays();
  options.client_column = "role";
  CHECK(Refused(options, 1103) == "\"data.client_column\"" + end + "its roles own lines");
  options = Plays();
  options.client_file = "owners.csv";
  CHECK(Refused(options, 1103) == "\"data.client_file\"" + end + "its roles own lines");
  options = Plays();
  options.normalize = "standard";
  CHECK(Refused(options, 1103) == "\"data.normalize\"" + end + "characters are not scaled");
  options = Plays();
  options.scaling["x"] = {0, 2};
  CHECK(Refused(options, 1103) == "\"data.scaling\"" + end + "characters are not scaled");
  options = Plays();
  options.features = {"y"};
  CHECK(Refused(options, 1103) == "\"data.features\"" + end + "text has no columns");
  options = Plays();
  options.task = "classification";
  CHECK(Refused(options, 1103) ==
        "\"data.task\" = \"classification\" contradicts the data, which are for next_token");
  for (const std::uint32_t length : {0U, 65537U}) {
    options = Plays();
    options.text_length = length;
    CHECK(Refused(options, 1102) == "a piece of text has 1 to 65536 characters");
  }
}

TEST_CASE("only text is for next_token", "[unit]") {
  DataOptions options;
  options.task = "next_token";
  CHECK(MessageOf(LoadCsv("a,b\n1,0\n2,1\n", options), 1103) ==
        "\"data.task\" = \"next_token\" contradicts the data, which are for classification");
}

TEST_CASE("a text that looks like plays says which format to name", "[unit]") {
  const auto loaded = LoadPlay(kPlay, DataOptions{});
  CHECK(MessageOf(loaded, 1202) == "play.txt looks like plays: its first line names a role");
  CHECK(loaded.error().hint == "set data.format = \"plays\"");
}

TEST_CASE("roles are the natural clients, each with its lines of the test part", "[unit]") {
  const LoadedData loaded = LoadPlay(kPlay).value();
  PartitionOptions natural;
  natural.rule = "natural";
  natural.num_clients = 0;
  natural.shuffle = false;
  const Partition partition = Split(*loaded.train, 3, natural, loaded.test.get()).value();
  REQUIRE(partition.clients.size() == 2);
  CHECK(partition.clients[0].name == "A");
  CHECK(partition.clients[0].train == std::vector<std::uint32_t>{0});
  CHECK(partition.clients[0].test_part == std::vector<std::uint32_t>{0});
  CHECK(partition.clients[1].train == std::vector<std::uint32_t>{1, 2});
  CHECK(partition.clients[1].test_part == std::vector<std::uint32_t>{1});
  CHECK(partition.notes.empty());
}

TEST_CASE("a label table counts the places of text and leaves padding out", "[unit]") {
  const LoadedData loaded = LoadPlay(kPlay).value();
  PartitionOptions natural;
  natural.rule = "natural";
  natural.num_clients = 0;
  const LabelTable table = TableOf(Split(*loaded.train, 3, natural).value(), *loaded.train, 3);
  // newline, a, b: "ab/" for A, "ba/b/" for B.
  CHECK(table.counts == std::vector<std::uint32_t>{1, 1, 1, 2, 1, 2});
  CHECK(table.all == std::vector<std::uint64_t>{3, 2, 3});
  CHECK(table.total_variation[0] == Approx(0.5 * (1.0 / 24 + 1.0 / 12 + 1.0 / 24)));
}

TEST_CASE("a rule that splits by class refuses text", "[unit]") {
  const LoadedData loaded = LoadPlay(kPlay).value();
  for (const char* rule : {"dirichlet", "shards"}) {
    PartitionOptions options;
    options.rule = rule;
    options.num_clients = 1;
    const auto split = Split(*loaded.train, 3, options);
    REQUIRE_FALSE(split.has_value());
    CHECK(split.error().code == 1103);
    CHECK(split.error().message ==
          std::string("partition \"") + rule +
              "\" splits examples by their class; each of these has many labels");
  }
  PartitionOptions iid;
  iid.rule = "iid";
  iid.num_clients = 3;
  CHECK(Split(*loaded.train, 3, iid).has_value());
}

TEST_CASE("the specification of text can be pasted", "[unit]") {
  CHECK(DataSpecToml(LoadPlay("A:\na \"\na\n").value().spec) ==
        "[data]\n"
        "features   = [\"x\"]  # in this order; those without categories are numbers\n"
        "classes    = [\"U+000A\", \"U+0020\", \"\\\"\", \"a\"]\n"
        "task       = \"next_token\"\n");
}

TEST_CASE("Shakespeare's plays have the counts of their description", "[unit]") {
  if (!std::filesystem::exists(kShakespeare)) SKEP_SKIP(kShakespeare + " is absent");
  DataOptions options;
  options.path = kShakespeare;
  options.format = "plays";
  const LoadedData loaded = Load(options).value();
  const Dataset& train = *loaded.train;
  const Dataset& test = *loaded.test;
  CHECK(train.owner_names.size() == 268);
  CHECK(train.owner_names[0] == "First Citizen");
  // No line is longer than a piece.
  CHECK(train.rows == 20308);
  CHECK(test.rows == 5216);
  const auto counted = [](const Dataset& data) {
    return std::count_if(data.labels.begin(), data.labels.end(), [](auto y) { return y >= 0; });
  };
  CHECK(counted(train) == 817555);
  // The one character that only the test part has is "&".
  CHECK(counted(test) == 209265 - 1);
  CHECK(loaded.spec.classes.size() == 64);
  REQUIRE(loaded.notes.size() == 2);
  CHECK(loaded.notes[1] ==
        "characters of the test part that are no class are not predicted: \"&\", in 1 place");

  PartitionOptions natural;
  natural.rule = "natural";
  natural.num_clients = 0;
  const Partition partition = Split(train, 64, natural, &test).value();
  REQUIRE(partition.clients.size() == 268);
  std::vector<std::size_t> sizes;
  for (const ClientPart& part : partition.clients) {
    std::size_t characters = 0;
    for (const std::uint32_t row : part.train) {
      const auto labels = train.LabelsOf(row);
      characters += static_cast<std::size_t>(
          std::count_if(labels.begin(), labels.end(), [](auto y) { return y >= 0; }));
    }
    sizes.push_back(characters);
    CHECK_FALSE(part.test_part.empty());
  }
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes.front() == 19);
  CHECK(sizes[268 / 2] == 887);
  CHECK(sizes.back() == 29962);
  CHECK(std::count_if(sizes.begin(), sizes.end(), [](auto n) { return n >= 1000; }) == 122);
}

}  // namespace
}  // namespace skep::data
