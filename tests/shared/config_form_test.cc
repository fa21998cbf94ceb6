#include <string>

#include "shared/config/experiment.h"
#include "tests/support/catch.h"

namespace skep::config {
namespace {

std::string Shown(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto loaded = ParseExperiment(text, "experiment.toml", {.sets = sets});
  return FormatProblems(loaded.problems(), {.program = "skep-simulator"});
}

TEST_CASE("an unknown key is shown with its line, a caret and what was meant", "[unit]") {
  const std::string text = std::string(16, '\n') + "[training]\nround             = 50\n";
  CHECK(Shown(text) ==
        "error[SKEP-1012]: experiment.toml:18:1: unknown key \"training.round\"\n"
        "   18 | round             = 50\n"
        "      | ^^^^^ did you mean \"rounds\"?\n"
        "   skep-simulator explain SKEP-1012   ·   skep-simulator explain training\n");
}

TEST_CASE("a conflict names both places", "[unit]") {
  const std::string text =
      std::string(17, '\n') + "[training]\nclients_per_round = 10\nclient_fraction = 0.1\n";
  const auto loaded = ParseExperiment(text, "experiment.toml", {});
  REQUIRE(loaded.problems().size() == 1);
  const Problem& problem = loaded.problems()[0];
  CHECK(problem.place.Text() + ": " + problem.message ==
        "experiment.toml:20:1: \"client_fraction\" contradicts \"clients_per_round\" (line 19): "
        "give one");
  CHECK(problem.code == 1103);
}

TEST_CASE("all problems are reported, in file order, whatever their kind", "[unit]") {
  const auto loaded = ParseExperiment(
      "seed = -1\n[training]\nrounds = 5\neval_every = 9\nzzz = 1\n[client]\nbatch_size = "
      "1.5\n[data]\npath = 1\n",
      "e.toml", {.sets = {"training.target=x", "zzz"}});
  std::vector<std::pair<int, std::string>> found;
  for (const Problem& problem : loaded.problems())
    found.emplace_back(problem.code, problem.place.Text());
  CHECK(found == std::vector<std::pair<int, std::string>>{{1102, "e.toml:1:8"},
                                                          {1103, "e.toml:4:1"},
                                                          {1012, "e.toml:5:1"},
                                                          {1101, "e.toml:7:14"},
                                                          {1101, "e.toml:9:8"},
                                                          {1101, "--set:1:17"},
                                                          {1015, "--set:2:1"}});
}

TEST_CASE("columns count code points, tabs and control characters take one", "[unit]") {
  const std::string shown =
      Shown("name = \"\u00e9\u4e16\"\n\t\"k\u00e9y\\u001b[2J\" = 1 # \u00e9\n");
  CHECK(shown.find("experiment.toml:1:8: \"name\"") != std::string::npos);
  CHECK(shown.find("    2 |  \"k\u00e9y\\u001b[2J\" = 1 # \u00e9\n      |  ^^^^^^^^^^^^^^\n") !=
        std::string::npos);
  CHECK(shown.find('\x1b') == std::string::npos);
}

TEST_CASE("of a very long line only the surroundings of the place are shown", "[unit]") {
  const std::string shown =
      Shown("name = [" + std::string(5000, ' ') + "1]\nseed = nan # " + std::string(5000, 'x'));
  for (std::size_t at = 0; at < shown.size();) {
    const std::size_t end = shown.find('\n', at);
    CHECK(end - at < 200);
    at = end + 1;
  }
}

TEST_CASE("a caret stands even at the end of a line", "[unit]") {
  CHECK(Shown("seed =\n") ==
        "error[SKEP-1015]: experiment.toml:1:7: not valid TOML: expected a value\n"
        "    1 | seed =\n"
        "      |       ^\n"
        "   skep-simulator explain SKEP-1015\n");
}

TEST_CASE("problems with the same explanation share its line", "[unit]") {
  const std::string shown = Shown("[training]\naaa = 1\nbbb = 2\n");
  const std::string explanation =
      "   skep-simulator explain SKEP-1012   ·   skep-simulator explain training\n";
  CHECK(shown.find(explanation) == shown.rfind(explanation));
  CHECK(shown.ends_with(explanation));
}

TEST_CASE("without UTF-8 no text leaves ASCII", "[unit]") {
  const auto loaded = ParseExperiment("[training]\nround = 1\n", "experiment.toml", {});
  const std::string shown =
      FormatProblems(loaded.problems(), {.program = "skep-simulator", .is_utf8 = false});
  CHECK(shown.find("explain SKEP-1012   -   skep-simulator") != std::string::npos);
}

TEST_CASE("JSON holds one error or a list of them", "[unit]") {
  const auto one = ParseExperiment("[training]\nround = 50\n", "experiment.toml", {});
  CHECK(
      ProblemsAsJson(one.problems()) ==
      R"({"schema":1,"status":"error","exit_code":2,"error":{"code":1012,"message":"unknown key \"training.round\"",)"
      R"("file":"experiment.toml","line":2,"column":1,"suggestion":"rounds"}})");
  const auto two = ParseExperiment("a = 1\nb = 2\n", "experiment.toml", {});
  CHECK(ProblemsAsJson(two.problems()).find(R"("errors":[{"code":1012,)") != std::string::npos);
  CHECK(ProblemsAsJson(one.problems(), 1).find(R"("exit_code":1,)") != std::string::npos);
}

TEST_CASE("control characters of a path or a value do not reach the terminal", "[unit]") {
  const Problem problem{.code = 1201, .place = {.file = "a\x1b[2J"}, .message = "no \x1b[31mred\a"};
  CHECK(FormatProblems({problem}, {.program = "skep-simulator"}) ==
        "error[SKEP-1201]: a?[2J: no ?[31mred?\n   skep-simulator explain SKEP-1201\n");
}

TEST_CASE("no text of a user turns round what is shown, wherever it is echoed", "[unit]") {
  // Right-to-left override, isolate, zero width space, C1, byte order mark, line separator, tag.
  const std::string hidden = "\u202e\u2067\u200b\u009b\ufeff\u2028\U000e0041";
  const std::string shown = "???????";
  const Problem problem{.code = 1201,
                        .place = {.file = "f" + hidden,
                                  .line = 1,
                                  .column = 1,
                                  .width = 3,
                                  .source_line = "key" + hidden},
                        .message = "m" + hidden,
                        .hint = "h" + hidden};
  CHECK(FormatProblems({problem}, {.program = "p"}) ==
        "error[SKEP-1201]: f" + shown + ":1:1: m" + shown + "\n    1 | key" + shown +
            "\n      | ^^^ h" + shown + "\n   p explain SKEP-1201\n");
  CHECK(FormatNote({.code = 0, .text = "n" + hidden, .hint = "h" + hidden}) ==
        "note: n" + shown + "\n   h" + shown + "\n");
  CHECK(ProblemsAsJson({{.code = 1201, .message = "m\u202e\U000e0041"}})
            .find(R"("message":"m\u202e\udb40\udc41")") != std::string::npos);
  const std::string value = Shown("[data]\ndataset = \"a\u202eb\"\n");
  CHECK(value.find(R"("data.dataset" is "a\u202Eb")") != std::string::npos);
  CHECK(value.find("\u202e") == std::string::npos);
  // Letters of every script, and the joiners between them, stay.
  CHECK(FormatNote({.code = 0, .text = "\u05d0\u0646\u200c\u4e16 \U0001f41d", .hint = ""}) ==
        "note: \u05d0\u0646\u200c\u4e16 \U0001f41d\n");
}

TEST_CASE("a value with hidden characters reads back as the same", "[unit]") {
  const std::string text = "[data]\npath = \"a\u202e\U000e0041\\u0007\u009bb.csv\"\n";
  const auto first = ParseExperiment(text, "e.toml", {});
  REQUIRE(first.has_value());
  const auto again = ParseExperiment(first.value().effective.AsToml(), "e.toml", {});
  REQUIRE(again.has_value());
  CHECK(again.value().value.data.path == first.value().value.data.path);
  CHECK(again.value().value.data.path.find("\u202e") != std::string::npos);
}

TEST_CASE("an error for callers of one Result names the place", "[unit]") {
  const auto loaded = ParseExperiment("[training]\nround = 50\n", "experiment.toml", {});
  const Error error = AsError(loaded.problems());
  CHECK(error.code == 1012);
  CHECK(error.message == "experiment.toml:2:1: unknown key \"training.round\"");
  CHECK(error.hint == "did you mean \"rounds\"?");
}

TEST_CASE("an option is shown as what was typed", "[unit]") {
  CHECK(Shown("", {"seed=1", "training.round = 5"}) ==
        "error[SKEP-1012]: --set:2:1: unknown key \"training.round\"\n"
        "    2 | training.round = 5\n"
        "      | ^^^^^^^^^^^^^^ did you mean \"rounds\"?\n"
        "   skep-simulator explain SKEP-1012   ·   skep-simulator explain training\n");
}

}  // namespace
}  // namespace skep::config
