#include "simulator/metrics_log.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "simulator/json.h"
#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string WriteRun(const test::TemporaryFolder& folder, std::uint32_t rounds) {
  const std::string path = (folder.path() / "metrics.jsonl").string();
  const auto log = std::move(MetricsLog::Create(path)).value();
  log->On(SampleStart());
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    log->On(SampleRound(round));
    CheckpointRecord checkpoint;
    checkpoint.round = round;
    checkpoint.path = "checkpoints/x";
    log->On(checkpoint);
  }
  return path;
}

TEST_CASE("a round is one line with the documented keys in order", "[unit]") {
  std::string line;
  MetricsLines lines([&](const std::string& text, bool is_flush_due) {
    line = text;
    CHECK(is_flush_due);
  });
  RoundRecord round = SampleRound(31);
  round.time_s = 7.4140004;
  round.metrics = {{"test/accuracy", 0.811}, {"test/loss", std::nullopt}, {"train/loss", 0.412}};
  lines.On(round);
  CHECK(line ==
        "{\"event\":\"round\",\"round\":31,\"attempt\":1,\"state\":\"published\",\"time_s\":7.414,"
        "\"virtual_s\":null,\"clients\":{\"invited\":10,\"started\":10,\"ok\":10,\"rejected\":0,"
        "\"failed\":0,\"dropped\":0,\"late\":0},\"metrics\":{\"test/accuracy\":0.811,"
        "\"test/loss\":null,\"train/loss\":0.412},\"metric_clients\":{\"train/loss\":10},"
        "\"bytes_up\":7968400,\"bytes_down\":7968400,\"phases_s\":{\"select\":0.001,"
        "\"train\":0.131,\"aggregate\":0.011,\"evaluate\":0.024},\"privacy\":null,"
        "\"model_sha256\":\"1f00000000000000000000000000000000000000000000000000000000000000\"}");
}

TEST_CASE("every event has its required keys", "[unit]") {
  std::vector<JsonValue> events;
  MetricsLines lines([&](const std::string& text, bool) {
    auto value = ParseJson(text);
    REQUIRE(value.has_value());
    events.push_back(std::move(value).value());
  });
  lines.On(SampleStart());
  ClientRecord client;
  client.outcome = aggregator::Outcome::kRejected;
  client.code = 2104;
  lines.On(client);
  lines.On(NoteRecord{});
  lines.On(CheckpointRecord{});
  lines.On(RunEnd{});
  const std::vector<std::vector<std::string>> required{
      {"event", "schema", "run", "time", "version", "seed", "config_sha256", "data_sha256",
       "algorithm", "rounds", "clients", "clients_per_round", "device", "isa", "jobs",
       "model_parameters", "memory_plan_bytes", "resumed_from"},
      {"event", "round", "client", "attempt", "outcome", "code", "text"},
      {"event", "round", "attempt", "level", "code", "text"},
      {"event", "round", "path", "file_sha256", "model_sha256"},
      {"event", "state", "exit_code", "code", "text", "rounds", "time_s", "final", "best",
       "rounds_to_target", "result_sha256", "reproducible"}};
  REQUIRE(events.size() == required.size());
  for (std::size_t i = 0; i < required.size(); ++i) {
    CHECK(events[i].members()->front().first == "event");
    for (const std::string& key : required[i]) {
      INFO(key);
      CHECK(events[i].Find(key) != nullptr);
    }
  }
}

TEST_CASE("clients that succeeded have no line, and a round has at most a thousand", "[unit]") {
  std::size_t count = 0;
  MetricsLines lines([&](const std::string&, bool) { ++count; });
  ClientRecord client;
  client.round = 1;
  lines.On(client);
  CHECK(count == 0);
  client.outcome = aggregator::Outcome::kDropped;
  for (int i = 0; i < 1500; ++i) lines.On(client);
  CHECK(count == 1000);
  client.round = 2;
  lines.On(client);
  CHECK(count == 1001);
}

TEST_CASE("what was written reads back", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string path = WriteRun(folder, 3);
  const auto history = ReadMetrics(path);
  REQUIRE(history.has_value());
  CHECK(history->run_id == SampleStart().run_id);
  CHECK(history->isa == "avx2");
  REQUIRE(history->published.size() == 3);
  const RoundRecord& record = history->published[1].record;
  CHECK(record.metrics == SampleRound(2).metrics);
  CHECK(record.metric_clients == SampleRound(2).metric_clients);
  CHECK(record.model == SampleRound(2).model);
  CHECK(record.counts.ok == 10);
  CHECK(record.phases.train == 0.131);
  CHECK(history->published[2].end_bytes == std::filesystem::file_size(path));
}

TEST_CASE("a last line without its end is ignored, as a crash leaves it", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string path = WriteRun(folder, 2);
  const auto size = std::filesystem::file_size(path);
  std::ofstream(path, std::ios::app) << "{\"event\":\"round\",\"rou";
  const auto history = ReadMetrics(path);
  REQUIRE(history.has_value());
  CHECK(history->published.size() == 2);
  CHECK(history->published.back().end_bytes == size);
}

TEST_CASE("a file cut anywhere never reads as more than it holds", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string whole = ReadAll(WriteRun(folder, 2));
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    const std::string path = folder.Write("cut.jsonl", whole.substr(0, size)).string();
    const auto history = ReadMetrics(path);
    if (!history.has_value()) {
      CHECK(history.error().code == 4001);
      continue;
    }
    CHECK(history->published.size() <= 2);
    CHECK(history->start_bytes <= size);
  }
}

TEST_CASE("resume cuts the file after the checkpoint's round", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string path = WriteRun(folder, 3);
  const auto history = std::move(ReadMetrics(path)).value();
  {
    const auto log = std::move(MetricsLog::Resume(path, history.published[1].end_bytes)).value();
    RunStart start = SampleStart();
    start.resumed_from = 2;
    log->On(start);
    log->On(SampleRound(3));
  }
  const std::vector<std::string> lines = Lines(ReadAll(path));
  REQUIRE(lines.size() == 7);
  CHECK(lines[4].find("\"event\":\"checkpoint\",\"round\":2") != std::string::npos);
  CHECK(lines[5].find("\"resumed_from\":2") != std::string::npos);
  CHECK(lines[6].find("\"round\":3") != std::string::npos);
  CHECK(std::move(ReadMetrics(path)).value().published.size() == 3);
}

TEST_CASE("a file that a process writes is not resumed by another", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "metrics.jsonl").string();
  const auto log = std::move(MetricsLog::Create(path)).value();
  log->On(SampleStart());
  CHECK(MetricsLog::IsBeingWritten(path));
  const std::string before = ReadAll(path);
  const auto second = MetricsLog::Resume(path, 0);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == 4001);
  CHECK(ReadAll(path) == before);
}

TEST_CASE("lines that are not of the format are refused with their number", "[unit]") {
  const test::TemporaryFolder folder;
  const std::string good = ReadAll(WriteRun(folder, 1));
  for (const std::string& bad :
       {std::string("not json\n"), std::string("{\"event\":\"round\",\"round\":0}\n"),
        std::string("{\"event\":\"round\",\"round\":9,\"state\":\"published\"}\n"),
        std::string("{\"event\":\"round\",\"event\":\"round\"}\n"), std::string("[[[[\n")}) {
    const auto history = ReadMetrics(folder.Write("bad.jsonl", good + bad).string());
    INFO(bad);
    REQUIRE_FALSE(history.has_value());
    CHECK(history.error().code == 4001);
    CHECK(history.error().message.find(":4:") != std::string::npos);
  }
}

}  // namespace
}  // namespace skep::simulator
