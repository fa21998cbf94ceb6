#include "shared/base/log.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace skep {
namespace {

// 2026-11-30T18:04:05.123Z
constexpr WallMs kWall = 1'796'061'845'123;

struct Lines {
  std::vector<std::string> lines;
  Now now{.steady = SteadyTime(std::chrono::hours(1)), .wall = kWall};

  LogOptions Options(LogFormat format, LogLevel level = LogLevel::kInfo, std::uint32_t rate = 0) {
    return {.format = format,
            .level = level,
            .rate = rate,
            .sink = [this](LogLevel, std::string_view line) { lines.emplace_back(line); },
            .clock = [this] { return now; }};
  }
};

const LogRecord kRejected{.level = LogLevel::kWarning,
                          .code = 2104,
                          .event = "update.rejected",
                          .message = "update rejected",
                          .fields = {{"run", "pump"}, {"round", 12}, {"tensor", "fc1 \"x\""}}};

TEST_CASE("a text line holds time, level, number, message and fields", "[unit]") {
  Lines out;
  Log(out.Options(LogFormat::kText)).Write(kRejected);
  REQUIRE(out.lines.size() == 1);
  CHECK(out.lines[0] ==
        "2026-11-30T18:04:05.123Z warning SKEP-2104 update rejected run=pump round=12 tensor=\"fc1 "
        "\\\"x\\\"\"");
}

TEST_CASE("a short text line holds the time of day alone", "[unit]") {
  Lines out;
  Log(out.Options(LogFormat::kShortText)).Info("round 12: trained 412 examples in 0.31 s");
  CHECK(out.lines ==
        std::vector<std::string>{"18:04:05 info round 12: trained 412 examples in 0.31 s"});
}

TEST_CASE("a JSON line is one object with numbers as numbers", "[unit]") {
  Lines out;
  Log(out.Options(LogFormat::kJson)).Write(kRejected);
  CHECK(
      out.lines[0] ==
      R"({"time":"2026-11-30T18:04:05.123Z","level":"warning","code":2104,"event":"update.rejected",)"
      R"("message":"update rejected","run":"pump","round":12,"tensor":"fc1 \"x\""})");
}

TEST_CASE("nothing in a record can end its line or steer a terminal", "[unit]") {
  for (const LogFormat format : {LogFormat::kShortText, LogFormat::kText, LogFormat::kJson}) {
    Lines out;
    Log(out.Options(format)).Write({.message = "a\nb\x1b[2J", .fields = {{"x", "c\r\nd"}}});
    REQUIRE(out.lines.size() == 1);
    CHECK(out.lines[0].find_first_of("\n\r\x1b") == std::string::npos);
  }
}

TEST_CASE("records below the level are dropped until the level changes", "[unit]") {
  Lines out;
  Log log(out.Options(LogFormat::kShortText, LogLevel::kWarning));
  log.Info("no");
  CHECK_FALSE(log.IsEnabled(LogLevel::kInfo));
  log.SetLevel(LogLevel::kDebug);
  log.Info("yes");
  CHECK(out.lines == std::vector<std::string>{"18:04:05 info yes"});
}

TEST_CASE("lines above the rate are counted per number and summed up", "[unit]") {
  Lines out;
  Log log(out.Options(LogFormat::kShortText, LogLevel::kInfo, 2));
  for (int i = 0; i < 5; ++i) log.Warning(2104, "refused");
  log.Warning(2105, "another number");
  CHECK(out.lines.size() == 3);
  out.now.steady += std::chrono::seconds(1);
  log.Warning(2104, "refused again");
  CHECK(out.lines.size() == 5);
  CHECK(out.lines[3] == "18:04:05 warning SKEP-2104 3 more lines of this kind were not written");
}

TEST_CASE("what a peer said is escaped and cut to 64 characters", "[unit]") {
  CHECK(EscapePeerText("agg.example") == "agg.example");
  CHECK(EscapePeerText("a\nb\\\xff") == "a\\x0ab\\x5c\\xff");
  CHECK(EscapePeerText(std::string(100, 'x')) == std::string(64, 'x'));
  CHECK(EscapePeerText(std::string(62, 'x') + "\n").size() == 62);
}

TEST_CASE("levels are read by name", "[unit]") {
  CHECK(ParseLogLevel("warning") == LogLevel::kWarning);
  CHECK_FALSE(ParseLogLevel("Warn").has_value());
}

}  // namespace
}  // namespace skep
