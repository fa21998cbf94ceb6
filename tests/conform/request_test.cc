// The words of `skep-client check`.
#include "client/conform/request.h"
#include "client/conform/checks.h"
#include "client/conform/marks.h"
#include "tests/support/catch.h"

namespace skep::conform {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("placeholders are replaced wherever they stand, and only those", "[unit]") {
  const Words filled =
      Fill({"--storage={storage}/x", "{join_file}", "{other}", "{storage}:{storage}"},
           {{"storage", "/s"}, {"join_file", "/j"}, {"join", "secret"}});
  CHECK(filled == Words{"--storage=/s/x", "/j", "{other}", "/s:/s"});
}

TEST_CASE("what is put in is not looked at again", "[unit]") {
  CHECK(Fill({"{a}"}, {{"a", "{a}{a}"}}) == Words{"{a}{a}"});
}

TEST_CASE("a placeholder is found within a word", "[unit]") {
  CHECK(Mentions({"x", "--dir={storage}"}, "storage"));
  CHECK_FALSE(Mentions({"storage"}, "storage"));
}

TEST_CASE("--only takes numbers of checks and says what it does not take", "[unit]") {
  const std::set<int> known{1, 2, 20};
  CHECK(ParseOnly("1,20", known).value() == std::set<int>{1, 20});
  CHECK(ParseOnly("1,,2", known).error().code == 1101);
  CHECK(ParseOnly("1,two", known).error().code == 1101);
  CHECK(ParseOnly("", known).error().code == 1101);
  CHECK(ParseOnly("1,", known).error().code == 1101);
  CHECK(ParseOnly("23", known).error().code == 1102);
}

TEST_CASE("--forget-args are split at spaces", "[unit]") {
  CHECK(SplitWords("  forget --yes  {storage} ") == Words{"forget", "--yes", "{storage}"});
  CHECK(SplitWords("").empty());
}

TEST_CASE("a program is found by its path or in PATH, else named", "[unit]") {
  CHECK(FindProgram("sh").value().ends_with("/sh"));
  CHECK(FindProgram("/bin/sh").value() == "/bin/sh");
  CHECK(FindProgram("./no-such-program").error().code == 1102);
  CHECK(FindProgram("no-such-program").error().message.find("no-such-program") !=
        std::string::npos);
}

TEST_CASE("checks have ascending numbers and different names", "[unit]") {
  std::set<std::string> names;
  int last = 0;
  for (const Check& check : AllChecks()) {
    CHECK(check.number > last);
    last = check.number;
    names.insert(check.name);
  }
  CHECK(names.size() == AllChecks().size());
}

TEST_CASE("marks are found in the table, as text and as numbers, and nowhere else", "[unit]") {
  CHECK(HoldsMark(MarkedTable()));
  const double number = 41.7319519371;
  CHECK(HoldsMark({reinterpret_cast<const char*>(&number), sizeof number}));
  CHECK_FALSE(HoldsMark("vibration,temperature,current,state\n41.7319,calm\n"));
  CHECK_FALSE(HoldsMark(ExperimentFor("/data.csv")));
}

}  // namespace
}  // namespace skep::conform
