#include "simulator/report.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "simulator/chart.h"
#include "simulator/html.h"
#include "simulator/report_facts.h"
#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

constexpr const char* kHostile = "</title><script>alert(1)</script>&\"'\x01\xff<!--";

RunHistory SampleHistory(std::uint32_t rounds) {
  RunHistory run;
  const RunStart start = SampleStart();
  run.run_id = start.run_id;
  run.name = "sample";
  run.state = "finished";
  run.seed = 42;
  run.config_sha256 = std::string(64, 'c');
  run.result_sha256 = std::string(64, 'd');
  run.version = "0.1.0";
  run.command = "skep-simulator run sample.toml";
  run.device = "cpu";
  run.isa = "avx2";
  run.jobs = 2;
  run.rounds_planned = rounds;
  run.wall_s = 6.7;
  for (const auto& [key, value] : start.settings)
    run.settings.push_back({.key = key, .value = value.first, .source = value.second});
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    RoundRecord record = SampleRound(round);
    for (const auto& [name, value] : record.metrics)
      run.metrics[name].push_back({.round = round, .value = value, .clients = {}});
    run.rounds.push_back(std::move(record));
  }
  for (ClientNumber i = 0; i < 3; ++i) {
    ClientHistory client;
    client.number = i;
    client.examples = 10 * (i + 1);
    client.labels = {{"calm", 4 * (i + 1)}, {"storm", 6 * (i + 1)}};
    run.clients.push_back(std::move(client));
    run.client_metrics["accuracy"][i] = 0.3 * (i + 1);
  }
  return run;
}

RunHistory HostileHistory() {
  RunHistory run = SampleHistory(5);
  run.name = kHostile;
  run.command = kHostile;
  run.message = kHostile;
  run.state = "failed";
  for (ClientHistory& client : run.clients) {
    client.name = kHostile;
    client.labels = {{kHostile, 3}, {"b", 4}};
  }
  run.settings.push_back({.key = kHostile, .value = kHostile, .source = kHostile});
  run.codes.push_back({.code = 2104,
                       .outcome = "rejected",
                       .count = 3,
                       .first_round = 1,
                       .first_client = kHostile,
                       .message = kHostile});
  NoteRecord note;
  note.level = NoteLevel::kWarning;
  note.text = kHostile;
  run.notes.push_back(note);
  return run;
}

// Whether xmllint reads it; nothing where that program is not installed.
std::optional<bool> IsWellFormed(const std::string& html) {
  if (std::system("command -v xmllint > /dev/null 2>&1") != 0) return std::nullopt;
  const test::TemporaryFolder folder;
  const std::string path = folder.Write("report.html", html).string();
  return std::system(("xmllint --noout " + path).c_str()) == 0;
}

bool HasEventAttribute(const std::string& html) {
  for (auto at = html.find(" on"); at != std::string::npos; at = html.find(" on", at + 1)) {
    std::size_t end = at + 3;
    while (end < html.size() && html[end] >= 'a' && html[end] <= 'z') ++end;
    if (end > at + 3 && html[end] == '=') return true;
  }
  return false;
}

TEST_CASE("a report is well-formed, with one title and no way to run anything", "[unit]") {
  const std::string html = RenderReport(SampleHistory(30));
  CHECK(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
  CHECK(IsWellFormed(html).value_or(true));
  CHECK_FALSE(HasEventAttribute(html));
  CHECK(html.find("default-src &#39;none&#39;") != std::string::npos);
  for (const char* heading :
       {"Accuracy and loss", "Examples per client and class", "Accuracy per client", "Time",
        "Bytes", "Participation", "Update norms", "Configuration", "Run it again"}) {
    INFO(heading);
    CHECK(html.find(heading) != std::string::npos);
  }
}

TEST_CASE("names from data stay text", "[unit]") {
  const std::string html = RenderReport(HostileHistory());
  CHECK(IsWellFormed(html).value_or(true));
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("<!--") == std::string::npos);
  CHECK(html.find("href=") == std::string::npos);
  CHECK(html.find("src=") == std::string::npos);
  CHECK(html.find("url(") == std::string::npos);
  CHECK_FALSE(HasEventAttribute(html));
  CHECK(html.find("&lt;/title&gt;&lt;script&gt;") != std::string::npos);
  CHECK(html.find('\x01') == std::string::npos);
}

TEST_CASE("the same run gives the same bytes", "[unit]") {
  CHECK(RenderReport(SampleHistory(30)) == RenderReport(SampleHistory(30)));
}

TEST_CASE("a section without data is left out", "[unit]") {
  RunHistory run = SampleHistory(0);
  run.clients.clear();
  run.client_metrics.clear();
  const std::string html = RenderReport(run);
  CHECK(IsWellFormed(html).value_or(true));
  for (const char* heading :
       {"Accuracy and loss", "Examples per client", "<h2>Time", "Update norms", "Warnings"}) {
    INFO(heading);
    CHECK(html.find(heading) == std::string::npos);
  }
}

TEST_CASE("a thousand rounds and clients stay below two mebibytes", "[unit]") {
  RunHistory run = SampleHistory(1000);
  for (ClientNumber i = 3; i < 200; ++i) {
    ClientHistory client;
    client.number = i;
    client.examples = i;
    for (int label = 0; label < 10; ++label) client.labels[std::to_string(label)] = i;
    run.clients.push_back(std::move(client));
  }
  const std::string html = RenderReport(run);
  CHECK(html.size() < 2'097'152);
  CHECK(IsWellFormed(html).value_or(true));
}

TEST_CASE("a comparison groups runs that differ in their seed alone", "[unit]") {
  std::vector<ComparedRun> runs;
  for (const char* rate : {"0.1", "0.03"}) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      RunHistory run = SampleHistory(10);
      run.seed = seed;
      run.settings[0].value = rate;
      runs.push_back({.folder = "runs/" + std::string(rate), .run = std::move(run)});
    }
  }
  const std::string html = RenderComparison(runs, 2);
  CHECK(IsWellFormed(html).value_or(true));
  CHECK(html.find("learning_rate = 0.1</th><td class=\"n\">2</td>") != std::string::npos);
  CHECK(html.find("baseline") != std::string::npos);
  CHECK(html.find("client.learning_rate") != std::string::npos);
}

TEST_CASE("ticks are 4 to 7 round numbers that cover the range", "[unit]") {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 1}, {0, 0.83}, {1, 21}, {1, 1000}, {0, 3e7}, {-4, 3}, {0.5, 0.51}, {0, 0.0007}}) {
    const std::vector<double> ticks = TicksFor(low, high);
    INFO(low << " to " << high);
    CHECK(ticks.size() >= 4);
    CHECK(ticks.size() <= 7);
    CHECK(ticks.front() <= low + 1e-9);
    CHECK(ticks.back() >= high - 1e-9);
  }
  CHECK(TicksFor(0, 1).size() == 6);
  CHECK(TickText(0.2, 0.2) == "0.2");
  CHECK(TickText(25'000, 5'000) == "25k");
}

TEST_CASE("a long series keeps its extremes when it is thinned", "[unit]") {
  std::vector<Point> points;
  for (int i = 0; i < 50'000; ++i) points.push_back({.x = 1.0 * i, .y = i == 31'337 ? 9.0 : 1.0});
  const std::vector<Point> thinned = Thinned(points);
  CHECK(thinned.size() <= 1000);
  CHECK(std::any_of(thinned.begin(), thinned.end(), [](const Point& p) { return p.y == 9.0; }));
  CHECK(thinned.back().x == 49'999);
}

TEST_CASE("a loss over more than two decades is drawn on a logarithmic axis that says so",
          "[unit]") {
  LineChart chart;
  chart.text = {.title = "t", .finding = "f", .x_title = "round", .y_title = "loss"};
  chart.may_be_logarithmic = true;
  chart.lines = {{.name = "loss", .points = {{1, 100}, {2, 10}, {3, 0.1}}}};
  CHECK(Draw(chart).find("loss, logarithmic axis") != std::string::npos);
  chart.lines = {{.name = "loss", .points = {{1, 2.3}, {2, 1}, {3, 0.5}}}};
  CHECK(Draw(chart).find("logarithmic") == std::string::npos);
}

TEST_CASE("classes that are numbers stand in the order of their values", "[unit]") {
  RunHistory run = SampleHistory(1);
  run.clients[0].labels = {{"10", 1}, {"9", 1}, {"-1", 1}};
  run.clients[1].labels = {{"2", 1}};
  run.clients[2].labels = {};
  CHECK(ClassesOf(run) == std::vector<std::string>{"-1", "2", "9", "10"});
  run.clients[2].labels = {{"02", 1}};
  CHECK(ClassesOf(run) == std::vector<std::string>{"-1", "02", "10", "2", "9"});
}

}  // namespace
}  // namespace skep::simulator
