#include "tests/shared/data_fixture.h"

namespace skep::data {
namespace {

using test::TemporaryFolder;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

DataOptions Planned(DataSpec spec) {
  DataOptions options;
  options.plan = std::move(spec);
  return options;
}

DataSpec PumpPlan() {
  return {.features = {{.name = "temp", .categories = {}},
                       {.name = "kind", .is_categorical = true, .categories = {"a", "b"}}},
          .classes = {"ok", "worn"},
          .label = "state"};
}

TEST_CASE("a path that is not there is refused in one line", "[unit]") {
  DataOptions options;
  options.path = "/nowhere/pump.csv";
  CHECK(MessageOf(Load(options), 1201) ==
        "cannot read /nowhere/pump.csv: No such file or directory");
}

TEST_CASE("an empty file, a header alone and a folder without tables are refused", "[unit]") {
  CHECK(RefusedCsv("") == "pump.csv: no rows");
  CHECK(RefusedCsv("\n\n") == "pump.csv: no rows");
  CHECK(RefusedCsv("a,y\n", With("y")) == "pump.csv: no rows");
  const TemporaryFolder folder;
  (void)folder.Write("notes.txt", "1,2\n");
  DataOptions options;
  options.path = folder.path().string();
  CHECK(Load(options).error().code == 1201);
}

TEST_CASE("a ragged row is refused by line", "[unit]") {
  CHECK(RefusedCsv("a,b\n1,2\n3\n") == "pump.csv, line 3: 1 fields, the first row has 2");
}

TEST_CASE("UTF-16 is refused by name", "[unit]") {
  CHECK(RefusedCsv(std::string_view("\xFF\xFE"
                                    "a\0,\0",
                                    6)) == "pump.csv is UTF-16 (little-endian) text");
}

TEST_CASE("missing numbers are refused by line and column", "[unit]") {
  CHECK(RefusedCsv("a,b,y\n1,2,0\n3,,1\n") == "pump.csv, line 3, column \"b\": missing value");
  CHECK(RefusedCsv("a,b,y\n1,2,0\n3,NA,1\n") ==
        "pump.csv, line 3, column \"b\": missing value \"NA\"");
  CHECK(RefusedCsv("a,b,y\n1,2,0\n3,nan,1\n") ==
        "pump.csv, line 3, column \"b\": missing value \"nan\"");
  CHECK(RefusedCsv("a,b,y\n1,2,0\n?,3,1\n") ==
        "pump.csv, line 3, column \"a\": missing value \"?\"");
}

TEST_CASE("missing text and missing labels are refused too", "[unit]") {
  CHECK(RefusedCsv("a,k,y\n1,x,0\n3,,1\n") == "pump.csv, line 3, column \"k\": missing value");
  CHECK(RefusedCsv("a,y\n1,0\n3,\n") == "pump.csv, line 3, column \"y\": missing value");
}

TEST_CASE("dropping every row, or a column without a number to fill in, is refused", "[unit]") {
  DataOptions options;
  options.missing = "drop";
  CHECK(RefusedCsv("a,b,y\n1,?,0\n3,?,1\n", options) == "pump.csv: no row is left");
  options.missing = "mean";
  CHECK(RefusedCsv("a,b,y\n1,?,0\n3,?,1\n", options) ==
        "column \"b\" holds no number in the training part");
}

TEST_CASE("numbers beyond the finite ones are refused", "[unit]") {
  CHECK(RefusedCsv("a,y\n1,0\ninf,1\n") ==
        "pump.csv, line 3, column \"a\": \"inf\" is beyond the finite numbers");
  CHECK(RefusedCsv("a,y\n1,0\n1e400,1\n") ==
        "pump.csv, line 3, column \"a\": \"1e400\" is beyond the finite numbers");
}

TEST_CASE("numbers that no scaling brings into 32 bits are refused by column", "[unit]") {
  DataOptions options = With("y");
  options.test_fraction = 0;
  options.normalize = "standard";
  const std::string_view table = "a,y\n1e308,0\n1.5e308,1\n1e308,0\n";
  CHECK(RefusedCsv(table, options) ==
        "column \"a\": its values are too large for a mean and a deviation");
  options.normalize = "none";
  CHECK(RefusedCsv(table, options) ==
        "column \"a\": a value is beyond the numbers of 32 bits that training uses");
}

TEST_CASE("decimal commas and decimal points are refused where the other is set", "[unit]") {
  CHECK(RefusedCsv("a;y\n1;0\n3,5;1\n") ==
        "pump.csv, line 3, column \"a\": \"3,5\" in a semicolon file: decimal commas; set decimal"
        " = \",\"");
  DataOptions options;
  options.decimal = ',';
  CHECK(RefusedCsv("a;y\n1;0\n3.5;1\n", options) ==
        "pump.csv, line 3, column \"a\": \"3.5\" in a semicolon file: decimal points; set decimal"
        " = \".\"");
}

TEST_CASE("a column that is not there is refused with those that are", "[unit]") {
  const auto loaded = LoadCsv("temp,state\n1,0\n2,1\n", With("stat"));
  CHECK(MessageOf(loaded, 1202) == "pump.csv: no column \"stat\"; it has \"temp\", \"state\"");
  CHECK(loaded.error().hint == "did you mean \"state\"?");
  CHECK(RefusedCsv("temp,state\n1,0\n2,1\n", With("state", "site")) ==
        "pump.csv: no column \"site\"; it has \"temp\", \"state\"");
  DataOptions options;
  options.label_index = 2;
  CHECK(RefusedCsv("a,b\n1,0\n2,1\n", options) ==
        "pump.csv: label = 2, but columns are numbered 0 to 1");
}

TEST_CASE("a given column that is missing and one that is unknown are refused", "[unit]") {
  DataOptions options = With("y");
  options.features = {"a", "c"};
  CHECK(RefusedCsv("a,b,y\n1,2,0\n3,4,1\n", options) ==
        "pump.csv: no column \"c\"; it has \"a\", \"b\", \"y\"");
  options.features = {"a"};
  CHECK(RefusedCsv("a,b,y\n1,2,0\n3,4,1\n", options) ==
        "pump.csv: unknown column \"b\"; known: \"a\", \"y\"");
}

TEST_CASE("files of a folder whose columns differ are refused by file and column", "[unit]") {
  const TemporaryFolder folder;
  (void)folder.Write("a.csv", "p,q,y\n1,2,0\n");
  (void)folder.Write("b.csv", "p,y\n1,0\n");
  DataOptions options = With("y", "@file");
  options.path = folder.path().string();
  CHECK(Has(MessageOf(Load(options), 1202), "b.csv: no column \"q\"; it has \"p\", \"y\""));
  (void)folder.Write("b.csv", "p,q,r,y\n1,2,3,0\n");
  CHECK(Has(MessageOf(Load(options), 1202), "b.csv: unknown column \"r\""));
}

TEST_CASE("unknown classes and categories are refused with the known ones", "[unit]") {
  DataOptions options = With("y");
  options.classes = {"ok", "worn"};
  options.categories = {{"k", {"a", "b"}}};
  CHECK(RefusedCsv("k,v,y\na,1,ok\nb,2,broken\n", options) ==
        "pump.csv, line 3, column \"y\": unknown class \"broken\"; known: \"ok\", \"worn\"");
  CHECK(RefusedCsv("k,v,y\na,1,ok\nc,2,ok\n", options) ==
        "pump.csv, line 3, column \"k\": unknown category \"c\"; known: \"a\", \"b\"");
  options.categories = {{"z", {"a"}}};
  CHECK(RefusedCsv("k,v,y\na,1,ok\n", options) == "pump.csv: no column \"z\"; it has \"k\", \"v\"");
}

TEST_CASE("text in a column that is declared a number is refused", "[unit]") {
  DataOptions options = With("y");
  options.features = {"v"};
  CHECK(RefusedCsv("v,y\n1,ok\nhot,ok\n", options) ==
        "pump.csv, line 3, column \"v\": \"hot\" is no number, and no categories are given");
}

TEST_CASE("data that do not match a plan are 7414 and show no value", "[unit]") {
  const DataOptions options = Planned(PumpPlan());
  CHECK(RefusedCsv("temp,state\n1,ok\n", options, 7414) ==
        "pump.csv: no column \"kind\"; it has \"temp\", \"state\"");
  CHECK(RefusedCsv("temp,kind,extra,state\n1,a,2,ok\n", options, 7414) ==
        "pump.csv: unknown column \"extra\"; known: \"temp\", \"kind\", \"state\"");
  CHECK(RefusedCsv("temp,kind,state\n1,secret,ok\n", options, 7414) ==
        "pump.csv, line 2, column \"kind\": unknown category; known: \"a\", \"b\"");
  CHECK(RefusedCsv("temp,kind,state\n1,a,secret\n", options, 7414) ==
        "pump.csv, line 2, column \"state\": unknown class; known: \"ok\", \"worn\"");
  CHECK(RefusedCsv("temp,kind,state\nsecret,a,ok\n", options, 7414) ==
        "pump.csv, line 2, column \"temp\": is no number, and no categories are given");
  CHECK(RefusedCsv("temp,kind,status\n1,a,ok\n", options, 7414) ==
        "pump.csv: no column \"state\"; it has \"temp\", \"kind\", \"status\"");
}

TEST_CASE("an empty owner is refused by line", "[unit]") {
  CHECK(RefusedCsv("a,site,y\n1,north,0\n2,,1\n", With("y", "site")) ==
        "pump.csv, line 3, column \"site\": no client's name");
  CHECK(RefusedCsv("a,site,y\n1,north,0\n2,\" east\",1\n", With("y", "site")) ==
        "pump.csv, line 3, column \"site\": a client's name is 1 to 64 bytes of UTF-8 without "
        "control characters and white space at its ends");
}

TEST_CASE("column names are labels, each once", "[unit]") {
  CHECK(RefusedCsv("a,a,y\n1,2,0\n3,4,1\n") == "pump.csv, line 1: two columns are called \"a\"");
  CHECK(RefusedCsv(",a,y\n0,1,0\n1,2,1\n") == "pump.csv, line 1: column 0 has no name");
  CHECK(Has(RefusedCsv(std::string(65, 'a') + ",y\n1,0\n2,1\n"),
            "the name of column 0 is not 1 to 64"));
  CHECK(Has(RefusedCsv("\xE9t\xE9,y\n1,0\n2,1\n"), "the name of column 0 is not 1 to 64"));
}

TEST_CASE("classes and categories are labels", "[unit]") {
  CHECK(Has(RefusedCsv("a,y\n1,caf\xE9\n2,tea\n"), "column \"y\": a class is not 1 to 64 bytes"));
  CHECK(Has(RefusedCsv("k,y\n\x1B[2J,0\nb,1\n", With("y")), "column \"k\": a category is not"));
}

TEST_CASE("more than 1000 categories and more than 4096 classes are refused", "[unit]") {
  std::string categories = "k,y\n";
  for (int i = 0; i < 1000; ++i)
    categories += "k" + std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  CHECK(LoadCsv(categories, With("y")).has_value());
  CHECK(RefusedCsv(categories + "more,0\n", With("y")) ==
        "pump.csv, line 2, column \"k\": \"k0\" is no number, and as text the column has more than"
        " 1000 distinct values");
  std::string classes = "a,y\n";
  for (int i = 0; i < 4096; ++i) classes += "1,c" + std::to_string(i) + "\n";
  CHECK(LoadCsv(classes).has_value());
  CHECK(RefusedCsv(classes + "1,more\n") == "column \"y\": more than 4096 classes");
}

TEST_CASE("a label of quantities is a task that this build lacks", "[unit]") {
  CHECK(
      Has(RefusedCsv("a,y\n1,0.5\n2,1.5\n", {}, 1019), "column \"y\" holds numbers, not classes"));
  std::string many = "a,y\n";
  for (int i = 0; i <= 1000; ++i) many += "1," + std::to_string(i) + "\n";
  CHECK(Has(RefusedCsv(many, {}, 1019), "column \"y\" holds numbers, not classes"));
  DataOptions options;
  options.task = "classification";
  CHECK(LoadCsv(many, options).value().spec.classes.size() == 1001);
  options.task = "regression";
  CHECK(RefusedCsv(many, options, 1019) == "this build has no task \"regression\"");
}

TEST_CASE("formats and data sets that this build lacks are named", "[unit]") {
  CHECK(RefusedCsv(std::string_view("PK\x03\x04...."), {}, 1019) ==
        "pump.csv: this build does not read npz");
  CHECK(RefusedCsv("{\"x\": [1], \"y\": 0}\n", {}, 1019) ==
        "pump.csv: this build does not read JSON lines");
  CHECK(RefusedCsv(Idx(8, {1, 1, 1}, "a")) == "pump.csv is one idx file of a data set");
  DataOptions options;
  options.dataset = "synthetic";
  CHECK(MessageOf(Load(options), 1019) == "this build has no data set \"synthetic\"");
  options = {};
  options.format = "leaf";
  CHECK(RefusedCsv("a,y\n1,2\n", options, 1019) == "data.format: this build does not read leaf");
  CHECK(MessageOf(Load({}), 1201) == "neither data.dataset nor data.path is given");
}

TEST_CASE("a specification that contradicts itself is refused", "[unit]") {
  DataOptions options = With("y");
  options.classes = {"0", "0"};
  CHECK(RefusedCsv("a,y\n1,0\n", options) == "data.classes names \"0\" twice");
  options.classes = {""};
  CHECK(Has(RefusedCsv("a,y\n1,0\n", options), "data.classes: a name is 1 to 64 bytes"));
  options.classes = {};
  options.features = {"a", "y"};
  CHECK(RefusedCsv("a,y\n1,0\n", options) ==
        "label, client column and features must be different columns");
  options.features = {};
  options.scaling = {{"a", {0, 0}}};
  CHECK(Has(RefusedCsv("a,y\n1,0\n", options, 1102), "data.scaling of \"a\""));
}

TEST_CASE("a table of the label alone has no inputs", "[unit]") {
  CHECK(RefusedCsv("y\n1\n2\n") == "pump.csv: no columns are left as inputs");
}

TEST_CASE("a table cut at any byte is read or refused, never more than that", "[unit]") {
  const std::string whole = "a;b;y\r\n1.5;\"x;\"\"\";0\r\n2,5;z;1\r\n";
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const auto loaded = LoadCsv(std::string_view(whole).substr(0, size));
    if (!loaded) CHECK((loaded.error().code == 1202 || loaded.error().code == 1019));
  }
}

TEST_CASE("any byte of a table flipped is read or refused, never more than that", "[unit]") {
  const std::string whole = "a,b,y\n1.5,\"x\",0\n2,z,1\n";
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto loaded = LoadCsv(damaged);
      if (!loaded) REQUIRE((loaded.error().code == 1202 || loaded.error().code == 1019));
    }
  }
}

}  // namespace
}  // namespace skep::data
