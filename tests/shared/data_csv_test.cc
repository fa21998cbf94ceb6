#include "shared/data/csv.h"
#include "tests/support/catch.h"

namespace skep::data {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows RowsOf(std::string_view text, char separator = ',') {
  CsvRows rows(text, separator, "f.csv");
  Rows all;
  while (rows.Next().value()) all.emplace_back(rows.fields().begin(), rows.fields().end());
  return all;
}

std::string RefusalOf(std::string_view text) {
  CsvRows rows(text, ',', "f.csv");
  for (;;) {
    const auto next = rows.Next();
    if (!next) {
      CHECK(next.error().code == 1202);
      return next.error().message;
    }
    REQUIRE(*next);
  }
}

TEST_CASE("rows end with LF, CRLF or the text", "[unit]") {
  const Rows expected{{"a", "b"}, {"1", "2"}};
  CHECK(RowsOf("a,b\n1,2\n") == expected);
  CHECK(RowsOf("a,b\r\n1,2\r\n") == expected);
  CHECK(RowsOf("a,b\n1,2") == expected);
  CHECK(RowsOf("a,b\n1,\n") == Rows{{"a", "b"}, {"1", ""}});
}

TEST_CASE("spaces around fields that are not quoted are dropped", "[unit]") {
  CHECK(RowsOf(" a , \"b \" ,c d\n") == Rows{{"a", "b ", "c d"}});
}

TEST_CASE("quoted fields hold separators, line ends and doubled quotes", "[unit]") {
  CHECK(RowsOf("\"a,b\",\"c\nd\",\"e\"\"f\"\"\"\n1,2,3\n") ==
        Rows{{"a,b", "c\nd", "e\"f\""}, {"1", "2", "3"}});
  CHECK(RowsOf("\"\",\"\"\"\"\n") == Rows{{"", "\""}});
}

TEST_CASE("line numbers count the lines inside quotes", "[unit]") {
  CsvRows rows("a,b\n\"x\ny\",1\n\n2,3\n", ',', "f.csv");
  REQUIRE(rows.Next().value());
  REQUIRE(rows.Next().value());
  CHECK(rows.line() == 2);
  REQUIRE(rows.Next().value());
  CHECK(rows.line() == 5);
}

TEST_CASE("empty lines and rows of separators are skipped, the latter counted", "[unit]") {
  CsvRows rows("a,b\n\n , \n1,2\n,,,\n\n", ',', "f.csv");
  REQUIRE(rows.Next().value());
  REQUIRE(rows.Next().value());
  CHECK(rows.fields()[0] == "1");
  CHECK_FALSE(rows.Next().value());
  CHECK(rows.rows_of_separators() == 2);
}

TEST_CASE("malformed rows are refused by line", "[unit]") {
  CHECK(RefusalOf("a,b\n1,2\n1,2,3\n") == "f.csv, line 3: 3 fields, the first row has 2");
  CHECK(RefusalOf("a,b\n1\n") == "f.csv, line 2: 1 fields, the first row has 2");
  CHECK(RefusalOf("a,b\n\"1,2\n3,4\n") == "f.csv, line 2: a quote does not end");
  CHECK(RefusalOf("a,b\n\"1\"x,2\n") == "f.csv, line 2: text after a closing quote");
  CHECK(RefusalOf("a,b\r1,2\r") == "f.csv, line 1: a carriage return without a line feed");
}

TEST_CASE("a line has at most 1 MiB, a row at most 65536 fields", "[unit]") {
  CHECK(RowsOf(std::string((1 << 20) - 1, 'a') + "\n").size() == 1);
  CHECK(RefusalOf("a\n" + std::string((1 << 20) + 1, 'a')) == "f.csv, line 2: longer than 1 MiB");
  CHECK(RefusalOf("\"" + std::string((1 << 20) + 1, 'a') + "\"") ==
        "f.csv, line 1: longer than 1 MiB");
  CHECK(RowsOf("1" + std::string(65535, ',') + "\n")[0].size() == 65536);
  CHECK(RefusalOf("1" + std::string(65536, ',') + "\n") == "f.csv, line 1: more than 65536 fields");
}

TEST_CASE("the separator is found on the first line outside quotes", "[unit]") {
  CHECK(FindSeparator("a,b\n1;2;3\n") == ',');
  CHECK(FindSeparator("a;b;c\n") == ';');
  CHECK(FindSeparator("a\tb\n") == '\t');
  CHECK(FindSeparator("\"a,b,c\";d\n") == ';');
  CHECK(FindSeparator("3,5;2,25;7,125\n") == ';');
  CHECK(FindSeparator("name,\"x\",remark; more\n") == ',');
  CHECK(FindSeparator("\n\na;b\n") == ';');
  CHECK(FindSeparator("alone\n") == ',');
}

TEST_CASE("a byte order mark is skipped, other encodings are named", "[unit]") {
  const auto refusal = [](std::string_view text) {
    const auto plain = PlainText(text, "f.csv");
    REQUIRE_FALSE(plain.has_value());
    CHECK(plain.error().code == 1202);
    return plain.error().message;
  };
  CHECK(PlainText("\xEF\xBB\xBF"
                  "a,b",
                  "f.csv")
            .value() == "a,b");
  CHECK(refusal(std::string_view("\xFF\xFE"
                                 "a\0",
                                 4)) == "f.csv is UTF-16 (little-endian) text");
  CHECK(refusal(std::string_view("\xFE\xFF\0a", 4)) == "f.csv is UTF-16 (big-endian) text");
  CHECK(refusal(std::string_view("a\0,\0", 4)) == "f.csv is UTF-16 (little-endian) text");
  CHECK(refusal(std::string_view("\0a\0,", 4)) == "f.csv is UTF-16 (big-endian) text");
  CHECK(refusal(std::string_view("\xFF\xFE\0\0"
                                 "a\0\0\0",
                                 8)) == "f.csv is UTF-32 text");
}

TEST_CASE("fields are numbers, missing, of the other decimal sign, not finite, or text", "[unit]") {
  const auto kind = [](std::string_view field, char decimal = '.') {
    return ReadField(field, decimal).kind;
  };
  CHECK(ReadField("-1.5e3", '.').number == -1500);
  CHECK(ReadField(".7", '.').number == 0.7);
  CHECK(ReadField("-3,25", ',').number == -3.25);
  CHECK(ReadField("12", ',').number == 12);
  for (const char* field : {"", "NA", "nan", "NaN", "-nan", "?"}) {
    INFO(field);
    CHECK(kind(field) == FieldKind::kMissing);
    CHECK(kind(field, ',') == FieldKind::kMissing);
  }
  CHECK(kind("3,5") == FieldKind::kOtherDecimal);
  CHECK(kind("3.5", ',') == FieldKind::kOtherDecimal);
  CHECK(kind("inf") == FieldKind::kNotFinite);
  CHECK(kind("1e999") == FieldKind::kNotFinite);
  for (const char* field : {"1.2.3", "1,2,3", "1.234,5", "abc", "1x", "0x10", "--1", "1 2", ","}) {
    INFO(field);
    CHECK(kind(field) == FieldKind::kText);
    CHECK(kind(field, ',') == FieldKind::kText);
  }
}

}  // namespace
}  // namespace skep::data
