#include <algorithm>
#include <numeric>

#include "shared/base/bytes.h"
#include "shared/base/sha256.h"
#include "shared/data/code_point.h"
#include "tests/shared/data_fixture.h"

namespace skep::data {
namespace {

using test::TemporaryFolder;
using Labels = std::vector<std::int32_t>;
using Names = std::vector<std::string>;

constexpr const char* kPlay =
    "BEE:\n"
    "ab\n"
    "ba\n"
    "\n"
    "Queen:\n"
    "a b\n"
    "\n"
    "BEE:\n"
    "b\n"
    "still speaking:\n"
    "\n"
    "Queen:\n"
    "aa\n"
    "\n"
    "Drone:\n"
    "\n"
    "Wasp:\n"
    "one line only\n";

DataOptions Pieces(std::uint32_t length) {
  DataOptions options;
  options.format = "plays";
  options.text_length = length;
  return options;
}

Result<LoadedData> LoadPlay(std::string_view text, DataOptions options = Pieces(4)) {
  const TemporaryFolder folder;
  options.path = folder.Write("play.txt", text).string();
  return Load(options);
}

std::string Refused(std::string_view text, const DataOptions& options = Pieces(4),
                    int code = 1202) {
  return MessageOf(LoadPlay(text, options), code);
}

// What an example asks: its inputs and labels as text, "/" for a newline, "." for no label.
std::string Shown(const LoadedData& loaded, const Dataset& data, std::size_t row) {
  const auto name = [&](std::int32_t symbol) {
    if (symbol < 0) return std::string(".");
    const std::string& of = loaded.spec.classes[static_cast<std::size_t>(symbol)];
    return of == "U+000A" ? std::string("/") : of == "U+0020" ? std::string(" ") : of;
  };
  std::string inputs;
  std::string labels;
  std::vector<float> x(data.values);
  Labels y(data.labels_per_row);
  const std::vector<std::uint32_t> rows{static_cast<std::uint32_t>(row)};
  data.Gather(rows, x.data(), y.data());
  for (const float symbol : x) inputs += name(static_cast<std::int32_t>(symbol));
  for (const std::int32_t label : y) labels += name(label);
  return inputs + " > " + labels;
}

Names AllShown(const LoadedData& loaded, const Dataset& data) {
  Names shown;
  for (std::size_t row = 0; row < data.rows; ++row) shown.push_back(Shown(loaded, data, row));
  return shown;
}

TEST_CASE("a line asks for each of its characters and its end, padded to the length", "[unit]") {
  const LoadedData loaded = LoadPlay(kPlay).value();
  const Dataset& train = *loaded.train;
  CHECK(AllShown(loaded, train) ==
        Names{"/ab/ > ab/.", "/ba/ > ba/.", "/a b > a b/", "/b// > b/.."});
  CHECK(train.input_shape == std::vector<std::uint32_t>{4});
  CHECK(train.values == 4);
  CHECK(train.labels_per_row == 4);
  CHECK(train.bytes.size() == 16);
  CHECK(train.byte_scale == 1);
  CHECK(loaded.spec.task == Task::kNextToken);
  CHECK(loaded.spec.IsUnnamedArray());
  CHECK(loaded.spec.classes == Names{"U+000A", "U+0020", "a", "b"});
}

TEST_CASE("a role with fewer than two lines is left out and named", "[unit]") {
  const LoadedData loaded = LoadPlay(kPlay).value();
  CHECK(loaded.train->owner_names == Names{"BEE", "Queen"});
  CHECK(loaded.train->owner == std::vector<std::uint32_t>{0, 0, 1, 0});
  REQUIRE_FALSE(loaded.notes.empty());
  CHECK(loaded.notes[0] == "left out, with fewer than two lines: the roles \"Drone\", \"Wasp\"");
}

TEST_CASE("the last fifth of a role's lines, rounded up, is its test part", "[unit]") {
  std::string play = "Nine:\n";
  for (char c = 'a'; c < 'j'; ++c) play += std::string(1, c) + "\n";
  play += "\nTen:\n";
  for (char c = 'a'; c < 'k'; ++c) play += std::string(1, c) + "\n";
  play += "\nEleven:\n";
  for (char c = 'a'; c < 'l'; ++c) play += std::string(1, c) + "\n";
  const LoadedData loaded = LoadPlay(play, Pieces(2)).value();
  const auto count = [](const Dataset& data) {
    std::vector<std::size_t> rows(3);
    for (const std::uint32_t owner : data.owner) ++rows[owner];
    return rows;
  };
  CHECK(count(*loaded.train) == std::vector<std::size_t>{7, 8, 8});
  CHECK(count(*loaded.test) == std::vector<std::size_t>{2, 2, 3});
  CHECK(Shown(loaded, *loaded.test, 0) == "/h > h/");
}

TEST_CASE("a line that ends with a colon but follows another one is text", "[unit]") {
  const LoadedData loaded = LoadPlay(kPlay, Pieces(16)).value();
  CHECK(loaded.test->rows == 2);
  CHECK(loaded.test->owner_names == Names{"BEE", "Queen"});
  CHECK(loaded.test->LabelsOf(0)[15] == 0);  // 15 characters and the end of "still speaking:"
}

TEST_CASE("a line longer than a piece goes on in the next one", "[unit]") {
  const LoadedData loaded = LoadPlay("A:\nabcdefg\nabc\na\n", Pieces(4)).value();
  CHECK(AllShown(loaded, *loaded.train) == Names{"/abc > abcd", "defg > efg/", "/abc > abc/"});
  CHECK(AllShown(loaded, *loaded.test) == Names{"/a// > a/.."});
}

TEST_CASE("a character that only the test part has is no label, and is noted", "[unit]") {
  const LoadedData loaded = LoadPlay("A:\nab\na&&b\n", Pieces(5)).value();
  CHECK(loaded.spec.classes == Names{"U+000A", "a", "b"});
  CHECK(AllShown(loaded, *loaded.test) == Names{"/a//b > a..b/"});
  CHECK(loaded.notes == Names{"characters of the test part that are no class are not predicted: "
                              "\"&\", in 2 places"});
}

TEST_CASE("CRLF, a byte order mark and a missing last newline change nothing", "[unit]") {
  const Hash32 plain = LoadPlay("A:\nab\nb\n\nB:\nba\na\n").value().hash;
  CHECK(LoadPlay("\xEF\xBB\xBF"
                 "A:\r\nab\r\nb\r\n\r\nB:\r\nba\r\na")
            .value()
            .hash == plain);
  CHECK(LoadPlay(Gzip("A:\nab\nb\n\nB:\nba\na\n")).value().hash == plain);
}

TEST_CASE("names and characters beyond ASCII are code points in their order", "[unit]") {
  const LoadedData loaded =
      LoadPlay("K\xC3\xB6nigin:\n\xF0\x9F\x90\x9D\xC3\xA9z\xC2\xA0\nz\n", Pieces(5)).value();
  CHECK(loaded.train->owner_names == Names{"K\xC3\xB6nigin"});
  CHECK(loaded.spec.classes == Names{"U+000A", "z", "U+00A0", "\xC3\xA9", "\xF0\x9F\x90\x9D"});
  for (const std::string& name : loaded.spec.classes) CHECK(IsLabel(name));
}

TEST_CASE("more symbols than a byte tells apart become floats", "[unit]") {
  std::string play = "A:\n";
  for (unsigned c = 0x400; c < 0x400 + 300; ++c) {
    play += static_cast<char>(0xC0U | (c >> 6U));
    play += static_cast<char>(0x80U | (c & 0x3FU));
  }
  const LoadedData loaded = LoadPlay(play + "\n\xD0\x80\n", Pieces(301)).value();
  CHECK(loaded.spec.classes.size() == 301);
  CHECK(loaded.train->bytes.empty());
  REQUIRE(loaded.train->floats.size() == 301);
  CHECK(loaded.train->floats[0] == 0);
  CHECK(loaded.train->floats[300] == 300);
}

TEST_CASE("each symbol has one name, and it is a label", "[unit]") {
  for (const char32_t symbol : {U'\n', U'\t', U' ', U'a', U'"', U'\u00A0', U'\u2028', U'\u00E9',
                                U'\uFFFD', U'\U0001F41D'}) {
    CHECK(IsLabel(SymbolName(symbol)));
    CHECK(SymbolOf(SymbolName(symbol)) == symbol);
  }
  CHECK(SymbolName(U' ') == "U+0020");
  for (const char* name : {"", "ab", "U+", "U+41", "U+0041", "U+000a", "u+000A", "U+D800",
                           "U+110000", "U+000A ", "\xFF"}) {
    INFO(name);
    CHECK_FALSE(SymbolOf(name).has_value());
  }
}

TEST_CASE("a text without a role is refused with its line", "[unit]") {
  CHECK(Refused("\nno role here\n") == "play.txt, line 2: text before the first role");
  CHECK(Refused("") == "play.txt: no role");
  CHECK(Refused("\n\n") == "play.txt: no role");
  CHECK(Refused("A:\na\n\nB:\nb\n") == "play.txt: no role has two lines");
}

TEST_CASE("a role without a name is refused with its line", "[unit]") {
  const std::string rule =
      "a role's name is 1 to 64 bytes of UTF-8 without control characters and white space at its "
      "ends";
  CHECK(Refused("A:\na\n\n:\nb\n") == "play.txt, line 4: " + rule);
  CHECK(Refused("A :\na\nb\n") == "play.txt, line 1: " + rule);
  CHECK(Refused(std::string(65, 'A') + ":\na\nb\n") == "play.txt, line 1: " + rule);
}

TEST_CASE("what is no UTF-8 text is refused with its line", "[unit]") {
  CHECK(Refused("A:\nab\n\xC3\n") == "play.txt, line 3: no UTF-8 text");
  CHECK(Refused("A:\nab\nb\xED\xA0\x80\n") == "play.txt, line 3: no UTF-8 text");
  CHECK(Refused(std::string_view("AB:\na\0b\n", 8)) == "play.txt, line 2: no UTF-8 text");
  CHECK(Refused(std::string_view("\xFF\xFE"
                                 "A\0:\0",
                                 6)) == "play.txt is UTF-16 (little-endian) text");
}

TEST_CASE("gzip that is cut at any byte is refused", "[unit]") {
  const std::string packed = Gzip("A:\nab\nb\n");
  for (std::size_t size = 3; size < packed.size(); ++size) {
    INFO("first " << size << " bytes");
    CHECK(Refused(packed.substr(0, size)) == "play.txt: gzip data ends too early");
  }
}

TEST_CASE("a play with any byte changed is read or refused, never more", "[unit]") {
  const std::string play = kPlay;
  for (std::size_t at = 0; at < play.size(); ++at) {
    for (const int bit : {1, 0x20, 0x80}) {
      std::string changed = play;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      const auto loaded = LoadPlay(changed, Pieces(20));
      if (!loaded.has_value()) CHECK(loaded.error().code == 1202);
    }
  }
}

TEST_CASE("the hash follows characters, roles and the length of a piece", "[unit]") {
  const Hash32 hash = LoadPlay("A:\nab\nb\n").value().hash;
  CHECK(LoadPlay("A:\nab\nb\n").value().hash == hash);
  CHECK(LoadPlay("A:\nab\na\n").value().hash != hash);
  CHECK(LoadPlay("B:\nab\nb\n").value().hash != hash);
  CHECK(LoadPlay("A:\nab\nb\n", Pieces(5)).value().hash != hash);
}

TEST_CASE("the data_sha256 of a play is over these bytes", "[unit]") {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const auto part = [&](const std::string& suffix, const std::string& inputs,
                        const Labels& labels) {
    std::string bytes =
        "x" + suffix + '\0' + "u1" + '\0' + number(2, 4) + number(1, 8) + number(3, 8) + inputs;
    bytes += "y" + suffix + '\0' + "i4" + '\0' + number(2, 4) + number(1, 8) + number(3, 8);
    for (const std::int32_t label : labels) bytes += number(static_cast<std::uint32_t>(label), 4);
    return bytes + "client" + suffix + '\0' + "str" + '\0' + number(1, 4) + number(1, 8) + "A" +
           '\0';
  };
  // Classes: newline 0, a 1, b 2. "ab", then "b".
  const std::string bytes = part("", std::string("\0\1\2", 3), {1, 2, 0}) +
                            part("_test", std::string("\0\2\0", 3), {2, 0, -1});
  CHECK(LoadPlay("A:\nab\nb\n", Pieces(3)).value().hash == Sha256::Of(AsBytes(bytes)));
}

}  // namespace
}  // namespace skep::data
