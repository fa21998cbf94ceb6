// Rules, scripts and orders: what is read, and what is refused with which number.
#include "client/faultproxy/rule.h"

#include "client/faultproxy/event.h"
#include "client/faultproxy/line_reader.h"
#include "tests/support/catch.h"

namespace skep::faultproxy {
namespace {

int CodeOf(const std::string& rule) {
  const auto parsed = ParseRule(rule);
  return parsed ? 0 : parsed.error().code;
}

TEST_CASE("a rule without keys holds for every connection, both directions, from the start") {
  const auto rule = ParseRule("  cut ");
  REQUIRE(rule);
  CHECK(rule->verb == Verb::kCut);
  CHECK(rule->connections == Range{.first = 1});
  CHECK((rule->is_up && rule->is_down));
  CHECK_FALSE(rule->at.has_value());
  CHECK(rule->chance == 1);
}

TEST_CASE("each key of a rule is read") {
  const auto stall = ParseRule(
      "stall connection=2..7 direction=down at=4096..8191 after=5s for=250ms chance=0.25");
  REQUIRE(stall);
  CHECK(stall->connections == Range{2, 7});
  CHECK((!stall->is_up && stall->is_down));
  CHECK(stall->at == Range{4096, 8191});
  CHECK(stall->after == std::chrono::seconds(5));
  CHECK(stall->lasting == Milliseconds(250));
  CHECK(stall->chance == 0.25);
  const auto delay = ParseRule("delay\ttime=200ms jitter=50ms connection=3..");
  REQUIRE(delay);
  CHECK(delay->time == Milliseconds(200));
  CHECK(delay->jitter == Milliseconds(50));
  CHECK(delay->connections == Range{.first = 3});
  CHECK(ParseRule("rate limit=64KiB/s")->bytes_per_second == 65536);
  CHECK(ParseRule("rate limit=1B/s")->bytes_per_second == 1);
  CHECK(ParseRule("corrupt at=5 bit=7 connection=9")->bit == 7);
  CHECK(ParseRule("refuse connection=all")->connections == Range{.first = 1});
}

TEST_CASE("a rule of the wrong form is refused with its number") {
  for (const char* rule : {"", "cut at", "cut at=", "cut at=-1", "cut at=4096..1", "cut at=5..",
                           "cut at=99999999999999999999", "cut direction=left", "cut connection=x",
                           "cut after=5", "cut chance=often", "cut chance=nan", "delay time=fast",
                           "rate limit=64KiB", "corrupt bit=x"}) {
    CAPTURE(rule);
    CHECK(CodeOf(rule) == 1101);
  }
  for (const char* rule : {"cut connection=0", "cut chance=1.5", "cut chance=-0.1", "corrupt bit=8",
                           "rate limit=0KiB/s", "rate limit=0B/s", "cut after=366d"}) {
    CAPTURE(rule);
    CHECK(CodeOf(rule) == 1102);
  }
  for (const char* rule : {"cut at=1 at=2", "cut for=2s", "refuse at=5", "blackhole for=1s at=5",
                           "delay", "rate", "blackhole after=5s", "stall limit=1B/s"}) {
    CAPTURE(rule);
    CHECK(CodeOf(rule) == 1103);
  }
}

TEST_CASE("an unknown word is refused with the nearest known one") {
  const auto verb = ParseRule("hafl-close at=5");
  REQUIRE_FALSE(verb);
  CHECK(verb.error().code == 1012);
  CHECK(verb.error().hint == "did you mean \"half-close\"?");
  const auto key = ParseRule("cut conection=5");
  REQUIRE_FALSE(key);
  CHECK(key.error().code == 1012);
  CHECK(key.error().hint == "did you mean \"connection\"?");
  CHECK(CodeOf("cut =5") == 1012);
}

TEST_CASE("a script has a rule a line, and its errors name the line") {
  const auto rules = ParseScript("# slow, then gone\n\ndelay time=1s  # each way\r\ncut at=9");
  REQUIRE(rules);
  REQUIRE(rules->size() == 2);
  CHECK((*rules)[1].verb == Verb::kCut);
  const auto bad = ParseScript("cut\n\ncut bit=1\n");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == 1103);
  CHECK(bad.error().message.starts_with("line 3: "));
  CHECK(ParseScript("")->empty());
}

TEST_CASE("an order is a rule or a word with its own keys") {
  CHECK(ParseOrder("reset connection=4")->kind == Order::Kind::kRule);
  CHECK(ParseOrder("clear")->number == std::nullopt);
  CHECK(ParseOrder("clear rule=3")->number == 3);
  const auto release = ParseOrder("release connection=2 direction=up");
  REQUIRE(release);
  CHECK(release->rule.connections == Range{2, 2});
  CHECK_FALSE(release->rule.is_down);
  CHECK(ParseOrder("stop")->kind == Order::Kind::kStop);
  CHECK(ParseOrder("close at=5").error().code == 1103);
  CHECK(ParseOrder("clear rule=x").error().code == 1101);
  CHECK(ParseOrder("clear rule=4294967296").error().code == 1101);
  CHECK(ParseOrder("").error().code == 1101);
  CHECK(ParseOrder("relaese").error().hint == "did you mean \"release\"?");
}

TEST_CASE("an event is one line of JSON, whatever text it holds") {
  CHECK(EventLine({.kind = Event::Kind::kFault,
                   .time = std::chrono::microseconds(12345),
                   .connection = 2,
                   .rule = 1,
                   .verb = Verb::kHalfClose,
                   .direction = Direction::kUp,
                   .at = 0}) ==
        R"({"event":"fault","ms":12.345,"connection":2,"rule":1,"fault":"half-close",)"
        R"("direction":"up","at":0})");
  CHECK(EventLine({.kind = Event::Kind::kClosed,
                   .connection = 1,
                   .counters = Counters{1, 2, 3, 4},
                   .how = "ended"}) ==
        R"({"event":"closed","ms":0.000,"connection":1,"how":"ended","up_in":1,"up_out":2,)"
        R"("down_in":3,"down_out":4})");
  CHECK(EventLine({.kind = Event::Kind::kProblem, .code = 1012, .text = "a\"b\\\n\xC3"}) ==
        "{\"event\":\"problem\",\"ms\":0.000,\"code\":1012,\"text\":\"a\\\"b\\\\\\u000a\\u00c3\"}");
}

TEST_CASE("lines are the same however their bytes are cut, and bounded") {
  const std::string text = "count\n\n" + std::string(kLongestLine, 'x') + "\n" +
                           std::string(kLongestLine + 1, 'y') + "\nstop";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, text.size()}) {
    CAPTURE(piece);
    LineReader reader;
    std::vector<std::string> lines;
    int too_long = 0;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      reader.Feed(
          std::string_view(text).substr(at, piece),
          [&](std::string_view line) { lines.emplace_back(line); }, [&] { ++too_long; });
    }
    CHECK(lines == std::vector<std::string>{"count", "", std::string(kLongestLine, 'x')});
    CHECK(too_long == 1);
    CHECK(reader.TakeRest() == "stop");
  }
}

}  // namespace
}  // namespace skep::faultproxy
