#include <clocale>
#include <filesystem>

#include "tests/shared/data_fixture.h"

namespace skep::data {
namespace {

using test::TemporaryFolder;
using Names = std::vector<std::string>;

constexpr const char* kPump =
    "temp,kind,site,state\n"
    "10.5,b,north,ok\n"
    "20,a,south,worn\n"
    "30,?,north,ok\n";

TEST_CASE("a table becomes numbers, one-hot categories, classes and owners", "[unit]") {
  const LoadedData loaded = LoadCsv(kPump, With("state", "site")).value();
  const Dataset& train = *loaded.train;
  CHECK(train.rows == 3);
  CHECK(train.input_shape == std::vector<std::uint32_t>{4});
  CHECK(train.floats == std::vector<float>{10.5, 0, 0, 1, 20, 0, 1, 0, 30, 1, 0, 0});
  CHECK(train.labels == std::vector<std::int32_t>{0, 1, 0});
  CHECK(train.owner_names == Names{"north", "south"});
  CHECK(train.owner == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(loaded.spec.features[1].categories == Names{"?", "a", "b"});
  CHECK(loaded.spec.classes == Names{"ok", "worn"});
  CHECK(loaded.spec.label == "state");
  CHECK(loaded.spec.InputValues() == 4);
}

TEST_CASE("the label is the last column unless it is named or numbered", "[unit]") {
  CHECK(LoadCsv("a,b\n1,2\n3,4\n").value().spec.label == "b");
  CHECK(LoadCsv("a,b\n1,2\n3,4\n", With("a")).value().spec.label == "a");
  DataOptions options;
  options.label_index = 0;
  CHECK(LoadCsv("a,b\n1,2\n3,4\n", options).value().spec.label == "a");
  CHECK(LoadCsv("a,b,c\n1,2,x\n3,4,y\n", With("", "c")).value().spec.label == "b");
}

TEST_CASE("a header is text above numbers; a first row of numbers is data", "[unit]") {
  CHECK(LoadCsv("a,b\n1,2\n3,4\n").value().train->rows == 2);
  CHECK(LoadCsv("1,2\n3,4\n").value().train->rows == 2);
  CHECK(LoadCsv("28,?,0\n29,1,1\n30,?,0\n", {}, 0).error().message.find("line 1") !=
        std::string::npos);
  DataOptions options;
  options.header = true;
  CHECK(LoadCsv("1,2\n3,4\n5,6\n", options).value().train->rows == 2);
  options.header = false;
  CHECK(LoadCsv("a,b\nc,d\n", options).value().train->rows == 2);
}

TEST_CASE("a first row that holds a given column name is a header", "[unit]") {
  CHECK(LoadCsv("kind,state\na,ok\nb,worn\n", With("state")).value().train->rows == 2);
}

TEST_CASE("a column number that is also a value of the first row makes no header", "[unit]") {
  const LoadedData loaded = LoadCsv("1,7,0\n2,8,1\n", With("1")).value();
  CHECK(loaded.train->rows == 2);
  CHECK(loaded.spec.classes == std::vector<std::string>{"7", "8"});
}

TEST_CASE("classes sort as numbers only if all are canonical integers", "[unit]") {
  CHECK(LoadCsv("a,y\n1,10\n1,9\n1,2\n").value().spec.classes == Names{"2", "9", "10"});
  CHECK(LoadCsv("a,y\n1,10\n1,02\n1,2\n").value().spec.classes == Names{"02", "10", "2"});
  CHECK(LoadCsv("a,y\n1,-1\n1,1\n1,0\n").value().spec.classes == Names{"-1", "0", "1"});
  CHECK(LoadCsv("a,y\n1,1\n1,2\n1,3\n").value().spec.classes.size() == 3);
}

TEST_CASE("separators, decimal commas, quotes and gzip give the same data", "[unit]") {
  const Hash32 plain = LoadCsv("a,b,y\n1.5,x,0\n2.5,z,1\n").value().hash;
  CHECK(LoadCsv("a;b;y\r\n1.5;x;0\r\n2.5;z;1").value().hash == plain);
  CHECK(LoadCsv("a\tb\ty\n1.5\tx\t0\n\n2.5\tz\t1\n").value().hash == plain);
  CHECK(LoadCsv("\xEF\xBB\xBF\"a\", b ,y\n\"1.5\",\"x\",0\n2.5,z,1\n").value().hash == plain);
  DataOptions options;
  options.decimal = ',';
  CHECK(LoadCsv("a;b;y\n1,5;x;0\n2,5;z;1\n", options).value().hash == plain);
  const TemporaryFolder folder;
  options = {};
  options.test_fraction = 0;
  options.path = folder.Write("other.csv.gz", Gzip("a,b,y\n1.5,x,0\n2.5,z,1\n")).string();
  CHECK(Load(options).value().hash == plain);
}

TEST_CASE("the locale does not change how numbers are read", "[unit]") {
  const Hash32 plain = LoadCsv("a,y\n1.5,0\n2.5,1\n").value().hash;
  const std::string before = std::setlocale(LC_ALL, nullptr);
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) (void)std::setlocale(LC_ALL, "C.UTF-8");
  const Hash32 other = LoadCsv("a,y\n1.5,0\n2.5,1\n").value().hash;
  (void)std::setlocale(LC_ALL, before.c_str());
  CHECK(other == plain);
}

TEST_CASE("rows of separators are skipped with one warning that counts them", "[unit]") {
  const LoadedData loaded = LoadCsv("a,b,y\n1,2,0\n,,\n3,4,1\n , ,\n").value();
  CHECK(loaded.train->rows == 2);
  CHECK(loaded.notes == Names{"skipped 2 rows that hold only separators"});
}

TEST_CASE("missing numbers are dropped with their row, or filled with the mean", "[unit]") {
  DataOptions options;
  options.missing = "drop";
  const LoadedData dropped = LoadCsv("a,b,y\n1,NA,0\n2,5,1\n3,7,0\n", options).value();
  CHECK(dropped.train->floats == std::vector<float>{2, 5, 3, 7});
  CHECK(dropped.train->labels == std::vector<std::int32_t>{1, 0});
  options.missing = "mean";
  const LoadedData filled = LoadCsv("a,b,y\n1,?,0\n2,5,1\n3,7,0\n", options).value();
  CHECK(filled.train->floats == std::vector<float>{1, 6, 2, 5, 3, 7});
}

TEST_CASE("an owner whose rows are all dropped is remembered without rows", "[unit]") {
  DataOptions options = With("y", "site");
  options.missing = "drop";
  const LoadedData loaded =
      LoadCsv("a,site,y\n?,east,0\n2,north,1\n?,north,1\n4,south,0\n", options).value();
  CHECK(loaded.train->owner_names == Names{"north", "south"});
  CHECK(loaded.train->owners_without_rows == Names{"east"});
}

TEST_CASE("a folder is one data set with a client for each file, whatever order it lists",
          "[unit]") {
  const auto load = [](const Names& order) {
    const TemporaryFolder folder;
    for (const std::string& name : order) {
      (void)folder.Write(name, name == "a.csv" ? "x1,y\n1,0\n2,1\n" : "y,x1\n1,3\n");
    }
    (void)folder.Write("README.md", "not data");
    DataOptions options = With("y", "@file");
    options.path = folder.path().string();
    options.test_fraction = 0;
    return Load(options).value();
  };
  const LoadedData loaded = load({"b.csv", "a.csv"});
  CHECK(loaded.train->owner_names == Names{"a", "b"});
  CHECK(loaded.train->owner == std::vector<std::uint32_t>{0, 0, 1});
  CHECK(loaded.train->floats == std::vector<float>{1, 2, 3});
  CHECK(loaded.hash == load({"a.csv", "b.csv"}).hash);
}

TEST_CASE("a test file shares classes and categories with the training file", "[unit]") {
  const TemporaryFolder folder;
  DataOptions options = With("y");
  options.path = folder.Write("train.csv", "k,v,y\na,1,ok\nb,2,ok\n").string();
  options.test_path = folder.Write("test.csv", "y,v,k\nworn,3,c\n").string();
  const LoadedData loaded = Load(options).value();
  CHECK(loaded.spec.classes == Names{"ok", "worn"});
  CHECK(loaded.spec.features[0].categories == Names{"a", "b", "c"});
  CHECK(loaded.test->floats == std::vector<float>{0, 0, 1, 3});
  CHECK(loaded.test->labels == std::vector<std::int32_t>{1});
}

TEST_CASE("test_fraction holds out rows by the partition seed, in the order of the file",
          "[unit]") {
  std::string text = "a,y\n";
  for (int i = 0; i < 10; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  const LoadedData loaded = LoadCsv(text, {}, 0.3).value();
  CHECK(loaded.train->rows == 7);
  REQUIRE(loaded.test->rows == 3);
  CHECK(std::is_sorted(loaded.test->floats.begin(), loaded.test->floats.end()));
  CHECK(std::is_sorted(loaded.train->floats.begin(), loaded.train->floats.end()));
  DataOptions options;
  options.partition_seed = 43;
  CHECK(LoadCsv(text, options, 0.3).value().test->floats != loaded.test->floats);
}

TEST_CASE("the data hash depends on content alone", "[unit]") {
  const Hash32 hash = LoadCsv("a,y\n1,0\n2,1\n").value().hash;
  DataOptions options;
  options.normalize = "standard";
  CHECK(LoadCsv("a,y\n1,0\n2,1\n", options).value().hash == hash);
  CHECK_FALSE(LoadCsv("a,y\n1,0\n3,1\n").value().hash == hash);
  CHECK_FALSE(LoadCsv("a,y\n1,1\n2,0\n").value().hash == hash);
  CHECK_FALSE(LoadCsv("a,y\n2,1\n1,0\n").value().hash == hash);
}

TEST_CASE("given features order the inputs and given classes number the labels", "[unit]") {
  DataOptions options = With("state", "site");
  options.features = {"kind", "temp"};
  options.categories = {{"kind", {"b", "a", "?"}}};
  options.classes = {"worn", "ok", "broken"};
  options.scaling = {{"temp", {10, 2}}};
  const LoadedData loaded = LoadCsv(kPump, options).value();
  CHECK(loaded.train->floats == std::vector<float>{1, 0, 0, 0.25, 0, 1, 0, 5, 0, 0, 1, 10});
  CHECK(loaded.train->labels == std::vector<std::int32_t>{1, 0, 1});
  CHECK(loaded.spec.classes.size() == 3);
}

TEST_CASE("a plan's specification is matched by name", "[unit]") {
  const LoadedData origin = LoadCsv(kPump, With("state", "site")).value();
  DataOptions options;
  options.client_column = "site";
  options.plan = origin.spec;
  const LoadedData device = LoadCsv("state,site,kind,temp\nworn,x,a,1\n", options).value();
  CHECK(device.spec == origin.spec);
  CHECK(device.train->floats == std::vector<float>{1, 0, 1, 0});
  CHECK(device.train->labels == std::vector<std::int32_t>{1});
}

TEST_CASE("Inspect offers the text columns with their values", "[unit]") {
  const TemporaryFolder folder;
  DataOptions options;
  options.path = folder.Write("pump.csv", kPump).string();
  const SourceFacts facts = Inspect(options).value();
  CHECK(facts.rows == 3);
  REQUIRE(facts.columns.size() == 4);
  CHECK(facts.columns[0].is_numeric);
  CHECK(facts.columns[2].name == "site");
  CHECK(facts.columns[2].values ==
        std::vector<std::pair<std::string, std::uint64_t>>{{"north", 2}, {"south", 1}});
}

}  // namespace
}  // namespace skep::data
