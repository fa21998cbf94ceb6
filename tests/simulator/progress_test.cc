#include "simulator/progress.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "simulator/failure_lines.h"
#include "simulator/figures.h"
#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

constexpr TextStyle kPlain{.is_utf8 = true, .has_color = false};

ProgressText TextAfter(std::uint32_t rounds, const TextStyle& style = kPlain) {
  ProgressText text(style);
  RunStart start = SampleStart();
  start.clients.resize(100);
  text.On(start);
  for (std::uint32_t round = 1; round <= rounds; ++round)
    text.On(SampleRound(round), SteadyTime{} + Milliseconds(250 * round));
  return text;
}

// What was written to a temporary file.
class Captured {
 public:
  Captured() : file_(std::tmpfile()) {}
  ~Captured() { std::fclose(file_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  [[nodiscard]] std::FILE* file() const { return file_; }
  [[nodiscard]] std::string text() const {
    std::string all(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    const std::size_t read = std::fread(all.data(), 1, all.size(), file_);
    all.resize(read);
    return all;
  }

 private:
  std::FILE* file_;
};

TEST_CASE("the display has four lines that say where the run is", "[unit]") {
  const ProgressText text = TextAfter(21);
  const std::vector<std::string> lines = text.Display(120, SteadyTime{} + Milliseconds(5250));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] ==
        "sample   fedavg \xC2\xB7 100 clients, 10 per round \xC2\xB7 dirichlet \xCE\xB1 = 0.5 "
        "\xC2\xB7 2nn, 199,210 parameters \xC2\xB7 seed 42 \xC2\xB7 2 jobs \xC2\xB7 cpu avx2");
  CHECK(lines[1].starts_with("round 21/50  \xE2\x94\x81"));
  CHECK(lines[1].ends_with("  42 %   5.2 s   7.2 s left   4.0 rounds/s"));
  CHECK(lines[2].starts_with("  train loss  0.048  "));
  CHECK(lines[2].ends_with("best 0.710 @21"));
  CHECK(lines[3].find(
            "10 ok \xC2\xB7 0 rejected \xC2\xB7 0 failed \xC2\xB7 0 dropped \xC2\xB7 0 late") !=
        std::string::npos);
  CHECK(lines[3].ends_with("up 167 MB \xC2\xB7 down 167 MB"));
}

TEST_CASE("the display fits the terminal, and a narrow one gets the second line alone", "[unit]") {
  const ProgressText text = TextAfter(21);
  for (std::size_t width = 1; width < 200; ++width) {
    const auto lines = text.Display(width, SteadyTime{} + Milliseconds(5250));
    INFO("width " << width);
    CHECK(lines.size() == (width < 60 ? 1 : 4));
    for (const std::string& line : lines) CHECK(Columns(line) < width);
  }
}

TEST_CASE("an estimate is shown from the third round on", "[unit]") {
  const auto has_estimate = [](std::uint32_t rounds) {
    return TextAfter(rounds).Display(120, SteadyTime{})[1].find("left") != std::string::npos;
  };
  CHECK_FALSE(has_estimate(0));
  CHECK_FALSE(has_estimate(2));
  CHECK(has_estimate(3));
}

TEST_CASE("after two seconds without movement the last line is the reason", "[unit]") {
  ProgressText text = TextAfter(3);
  Activity activity;
  activity.waiting_for = "training client 17";
  text.On(activity, SteadyTime{} + Milliseconds(1000));
  CHECK(text.Display(100, SteadyTime{} + Milliseconds(2500))[3].find("waiting") ==
        std::string::npos);
  CHECK(text.Display(100, SteadyTime{} + Milliseconds(13500))[3] ==
        "  waiting: training client 17 for 12 s");
}

TEST_CASE("without UTF-8 the display is plain ASCII without sparklines", "[unit]") {
  const ProgressText text = TextAfter(21, {.is_utf8 = false, .has_color = false});
  for (const std::string& line : text.Display(120, SteadyTime{} + Milliseconds(5250))) {
    for (const char c : line) CHECK((c >= ' ' && c <= '~'));
  }
  const auto lines = text.Display(120, SteadyTime{} + Milliseconds(5250));
  CHECK(lines[0].find("dirichlet alpha = 0.5 - 2nn") != std::string::npos);
  CHECK(lines[1].find("####") != std::string::npos);
  CHECK(lines[1].find("....") != std::string::npos);
}

TEST_CASE("a plain line has stable keys, and new ones only at its end", "[unit]") {
  const ProgressText text = TextAfter(0);
  RoundRecord round = SampleRound(21);
  round.time_s = 5.0214;
  round.metrics["train/loss"] = 0.5121;
  CHECK(text.PlainLine(round) ==
        "round=21/50 attempt=1 state=published loss=0.512 accuracy=0.710 ok=10 rejected=0 failed=0 "
        "dropped=0 late=0 up=7968400 down=7968400 t=5.021");
  round.metrics["test/accuracy"] = std::nullopt;
  round.metric_clients["train/loss"] = 9;
  round.virtual_s = 1.5;
  CHECK(text.PlainLine(round) ==
        "round=21/50 attempt=1 state=published loss=0.512 ok=10 rejected=0 failed=0 dropped=0 "
        "late=0 up=7968400 down=7968400 t=5.021 virtual=1.500 loss_clients=9");
  RoundRecord abandoned;
  abandoned.round = 22;
  abandoned.attempt = 2;
  abandoned.code = 2204;
  CHECK(
      text.PlainLine(abandoned) ==
      "round=22/50 attempt=2 state=abandoned ok=0 rejected=0 failed=0 dropped=0 late=0 up=0 down=0 "
      "t=0.000 code=SKEP-2204");
}

TEST_CASE("the summary says how the run ended and what to do next", "[unit]") {
  const ProgressText text = TextAfter(28);
  RunEnd end;
  end.rounds = 28;
  end.time_s = 6.7;
  end.final_metrics = SampleRound(28).metrics;
  end.final_metrics["client/accuracy_p10"] = 0.66;
  end.final_metrics["client/accuracy_min"] = 0.47;
  end.best = 0.804;
  end.best_round = 28;
  end.rounds_to_target = 27.4;
  end.result_sha256.bytes[0] = 0xa8;
  const std::string summary = text.Summary(end, "runs/sample", true);
  CHECK(summary.starts_with("sample finished: target reached after 28 rounds in 6.7 s\n"));
  CHECK(summary.find("0.80 reached at round 27.4") != std::string::npos);
  CHECK(summary.find("100 clients: p10 0.66, worst 0.47") != std::string::npos);
  CHECK(summary.find("updates 280 ok") != std::string::npos);
  CHECK(summary.find("uploaded 223 MB") != std::string::npos);
  CHECK(summary.find("result sha256 a80000000000") != std::string::npos);
  CHECK(summary.find("report   runs/sample/report.html\n") != std::string::npos);
  end.state = EndState::kFailed;
  end.code = 2201;
  end.text = "3 attempts in a row were abandoned";
  CHECK(text.Summary(end, "", false)
            .starts_with("sample failed: after 28 rounds in 6.7 s (SKEP-2201)"));
}

TEST_CASE("the summary fits the terminal, but never cuts a command", "[unit]") {
  const ProgressText text = TextAfter(28);
  RunEnd end;
  end.rounds = 28;
  end.final_metrics = SampleRound(28).metrics;
  end.final_metrics["client/accuracy_p10"] = 0.66;
  end.final_metrics["client/accuracy_min"] = 0.47;
  end.rounds_to_target = 27.4;
  for (const std::size_t width : {70U, 80U, 100U}) {
    INFO("width " << width);
    const std::string summary = text.Summary(end, "runs/sample", true, width);
    std::istringstream lines(summary);
    for (std::string line; std::getline(lines, line);) CHECK(Columns(line) <= width);
    CHECK(summary.find("sqlite3 -box runs/sample/run.db 'select * from v_rounds'\n") !=
          std::string::npos);
  }
  const std::string narrow = text.Summary(end, "runs/sample", true, 20);
  CHECK(narrow.find("skep-simulator report runs/sample DIR") != std::string::npos);
}

TEST_CASE("text is broken between its parts alone", "[unit]") {
  const std::string dot = " \xC2\xB7 ";
  CHECK(WrapColumns("  a" + dot + "b" + dot + "c", 7, 4) == "  a" + dot + "b\n    c");
  CHECK(WrapColumns("  a" + dot + "b", 0, 4) == "  a" + dot + "b");
  CHECK(WrapColumns("one    two words", 9, 2) == "one\n  two words");
  CHECK(WrapColumns("", 9, 2).empty());
}

TEST_CASE("a sparkline has equal shares between its least and largest mean", "[unit]") {
  CHECK(Sparkline({}, 12).empty());
  CHECK(Sparkline({1}, 12) == "\xE2\x96\x85");
  CHECK(Sparkline({0, 1}, 12) == "\xE2\x96\x81\xE2\x96\x88");
  CHECK(Columns(Sparkline(std::vector<double>(1000, 0.5), 12)) == 12);
  CHECK(Sparkline({0, 0, 7, 7}, 2) == "\xE2\x96\x81\xE2\x96\x88");
}

ClientRecord Failed(std::uint32_t round, ClientNumber number, int code) {
  ClientRecord client;
  client.round = round;
  client.attempt = 1;
  client.client = number;
  client.outcome = aggregator::Outcome::kRejected;
  client.code = code;
  client.detail = "update holds NaN in \"fc1.weight\" (12 of 156,800, first 4,711)";
  return client;
}

RoundRecord Ended(std::uint32_t round) {
  RoundRecord record = SampleRound(round);
  record.attempt = 1;
  return record;
}

TEST_CASE("a failed client is named with its number and a hint", "[unit]") {
  FailureLines lines;
  lines.Start(SampleStart());
  CHECK(
      lines.On(Failed(3, 17, 2104)) ==
      "round 3: client 17 rejected (SKEP-2104): update holds NaN in \"fc1.weight\" (12 of 156,800, "
      "first 4,711); client.learning_rate = 10.0 is 100x the default");
}

TEST_CASE("a round has at most three lines, the rest folded by number", "[unit]") {
  FailureLines lines;
  lines.Start(SampleStart());
  std::size_t told = 0;
  for (ClientNumber i = 0; i < 10; ++i) told += lines.On(Failed(3, i, 2104)).empty() ? 0U : 1U;
  CHECK(lines.On(Failed(3, 10, 2105)).empty());
  const std::vector<std::string> rest = lines.On(Ended(3));
  CHECK(told == 2);
  REQUIRE(rest.size() == 1);
  CHECK(rest[0] == "round 3: \xE2\x80\xA6 and 9 more: 8 \xC3\x97 SKEP-2104, 1 \xC3\x97 SKEP-2105");
}

TEST_CASE("a third failure alone is told in full", "[unit]") {
  FailureLines lines;
  lines.Start(SampleStart());
  for (ClientNumber i = 0; i < 3; ++i) (void)lines.On(Failed(1, i, 2104));
  const std::vector<std::string> rest = lines.On(Ended(1));
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].starts_with("round 1: client 2 rejected"));
}

TEST_CASE("a number that keeps coming is told every tenth time", "[unit]") {
  FailureLines lines;
  lines.Start(SampleStart());
  std::vector<std::uint32_t> told;
  for (std::uint32_t round = 1; round <= 30; ++round) {
    if (!lines.On(Failed(round, 1, 2104)).empty()) told.push_back(round);
    (void)lines.On(Ended(round));
  }
  CHECK(told == std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30});
}

TEST_CASE("an abandoned attempt says why and that the model stays", "[unit]") {
  FailureLines lines;
  lines.Start(SampleStart());
  RoundRecord round;
  round.round = 4;
  round.attempt = 2;
  round.code = 2204;
  round.reason = "2 of at least 5 reports";
  const auto said = lines.On(round);
  REQUIRE(said.size() == 1);
  CHECK(said[0] ==
        "round 4: attempt 2 abandoned (SKEP-2204): 2 of at least 5 reports; the model stays");
}

TEST_CASE("text from clients cannot reach the terminal as control characters", "[unit]") {
  FailureLines lines;
  lines.Start(SampleStart());
  ClientRecord client = Failed(1, 1, 2104);
  client.name = "\x1b[2Jevil\n";
  client.detail = "\x1b]0;title\x07";
  const std::string line = lines.On(client);
  for (const char c : line) CHECK(static_cast<unsigned char>(c) >= 0x20);
}

TEST_CASE("the display is redrawn in place and leaves nothing behind", "[unit]") {
  Captured error;
  Captured output;
  {
    Progress progress({.mode = ProgressMode::kDisplay,
                       .error_style = kPlain,
                       .output_style = kPlain,
                       .output = output.file(),
                       .error = error.file(),
                       .width = 100});
    progress.On(SampleStart());
    progress.Say("note: hello");
    for (std::uint32_t round = 1; round <= 50; ++round) progress.On(SampleRound(round));
    progress.Finish(RunEnd{}, "runs/x", false);
  }
  const std::string text = error.text();
  CHECK(text.find("note: hello\n") != std::string::npos);
  // Cursor-up and erase-line only; fifty rounds in no time are not fifty redraws.
  std::size_t redraws = 0;
  for (auto at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b', at + 1)) {
    const char last = text[text.find_first_of("AKm", at)];
    CHECK((last == 'A' || last == 'K'));
    redraws += last == 'A' ? 1U : 0U;
  }
  CHECK(redraws < 20);
  CHECK(output.text().starts_with("sample finished"));
}

TEST_CASE("quiet mode prints nothing, JSON mode the lines of metrics.jsonl", "[unit]") {
  for (const ProgressMode mode : {ProgressMode::kQuiet, ProgressMode::kJson}) {
    Captured error;
    Captured output;
    Progress progress({.mode = mode,
                       .error_style = kPlain,
                       .output_style = kPlain,
                       .output = output.file(),
                       .error = error.file()});
    progress.On(SampleStart());
    progress.On(SampleRound(1));
    progress.On(RunEnd{});
    progress.Finish(RunEnd{}, "runs/x", true);
    CHECK(error.text().empty());
    const std::string text = output.text();
    if (mode == ProgressMode::kQuiet) CHECK(text.empty());
    if (mode == ProgressMode::kJson) CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  }
}

TEST_CASE("figures are short and independent of the locale", "[unit]") {
  CHECK(Significant(0.80412) == "0.804");
  CHECK(Significant(12.345) == "12.3");
  CHECK(Significant(1234.5) == "1234");
  CHECK(Significant(0.00012345) == "0.000123");
  CHECK(Significant(1.2e-7) == "1.20e-07");
  CHECK(Significant(0.0) == "0");
  CHECK(Significant(std::optional<double>{}) == kMissing);
  CHECK(ByteText(312) == "312 B");
  CHECK(ByteText(7'968'400) == "7.97 MB");
  CHECK(ByteText(223'115'200) == "223 MB");
  CHECK(ByteText(999'600) == "1.00 MB");
  CHECK(DurationText(0.031) == "31 ms");
  CHECK(DurationText(6.72) == "6.7 s");
  CHECK(DurationText(59.97) == "1 m 00 s");
  CHECK(DurationText(200) == "3 m 20 s");
  CHECK(DurationText(7500) == "2 h 05 m");
  CHECK(Plural(1, "round") == "1 round");
  CHECK(Plural(2000, "round") == "2,000 rounds");
}

}  // namespace
}  // namespace skep::simulator
