#include "simulator/checkpoint.h"

#include <filesystem>
#include <fstream>

#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

model::LayoutPtr SmallLayout() {
  return model::Layout::Make({{.name = "w", .shape = {2, 2}}}).value();
}

model::Params ModelOf(float value) {
  model::Params params(SmallLayout());
  for (float& one : params.values()) one = value;
  return params;
}

Hash32 ConfigHash() {
  Hash32 hash;
  hash.bytes[5] = 1;
  return hash;
}

CheckpointRules RulesIn(const test::TemporaryFolder& folder) {
  CheckpointRules rules;
  rules.folder = folder.path().string();
  rules.target_metric = "test/accuracy";
  rules.metadata = {{"format", "pt"}, {"skep.config_sha256", ConfigHash().Hex()}};
  return rules;
}

// Publishes rounds with these accuracies; the model of round r holds r everywhere.
void Publish(Checkpoints& checkpoints, const std::vector<double>& accuracies) {
  for (std::uint32_t i = 0; i < accuracies.size(); ++i) {
    RoundRecord round = SampleRound(i + 1);
    round.metrics = {{"test/accuracy", accuracies[i]}};
    checkpoints.On(round);
    const model::Params model = ModelOf(static_cast<float>(i + 1));
    REQUIRE(checkpoints.Write({.round = i + 1, .model = model}).has_value());
  }
}

float ValueIn(const std::string& path) {
  const auto params = model::ReadModel(path, SmallLayout());
  REQUIRE(params.has_value());
  return params->values()[0];
}

MetricsHistory HistoryOf(std::uint32_t rounds) {
  MetricsHistory history;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    RoundRecord record = SampleRound(round);
    record.model = ModelOf(static_cast<float>(round)).ModelHash();
    history.published.push_back({.record = record, .end_bytes = 0});
  }
  return history;
}

TEST_CASE("the last checkpoints are kept, and the best model beside them", "[unit]") {
  const test::TemporaryFolder folder;
  Recording recording;
  Checkpoints checkpoints(RulesIn(folder), recording, [] { return Ok(); });
  Publish(checkpoints, {0.5, 0.9, 0.7, 0.8});
  CHECK(CheckpointRounds(folder.path().string()) == std::vector<std::uint32_t>{4, 3});
  CHECK(ValueIn((folder.path() / "best.safetensors").string()) == 2.0F);
  REQUIRE(recording.checkpoints.size() == 4);
  CHECK(recording.checkpoints[3].path == "checkpoints/round-000004.safetensors");
  CHECK(recording.checkpoints[3].model == ModelOf(4).ModelHash());
  REQUIRE(checkpoints.Finish(4, ModelOf(4)).has_value());
  CHECK(ValueIn((folder.path() / "model.safetensors").string()) == 4.0F);
}

TEST_CASE("a best round between two checkpoints is written with the next one", "[unit]") {
  const test::TemporaryFolder folder;
  CheckpointRules rules = RulesIn(folder);
  rules.every = 3;
  Recording recording;
  Checkpoints checkpoints(rules, recording, [] { return Ok(); });
  Publish(checkpoints, {0.5, 0.9});
  CHECK_FALSE(fs::exists(folder.path() / "best.safetensors"));
  Publish(checkpoints, {0.5, 0.9, 0.8});
  CHECK(CheckpointRounds(folder.path().string()) == std::vector<std::uint32_t>{3});
  CHECK(ValueIn((folder.path() / "best.safetensors").string()) == 2.0F);
}

TEST_CASE("with checkpoint_every = 0 there is one checkpoint, at the end", "[unit]") {
  const test::TemporaryFolder folder;
  CheckpointRules rules = RulesIn(folder);
  rules.every = 0;
  Recording recording;
  Checkpoints checkpoints(rules, recording, [] { return Ok(); });
  Publish(checkpoints, {0.5, 0.6});
  CHECK(CheckpointRounds(folder.path().string()).empty());
  REQUIRE(checkpoints.Finish(2, ModelOf(2)).has_value());
  CHECK(CheckpointRounds(folder.path().string()) == std::vector<std::uint32_t>{2});
}

TEST_CASE("a run goes on at the latest checkpoint that is whole", "[unit]") {
  const test::TemporaryFolder folder;
  Recording recording;
  Checkpoints checkpoints(RulesIn(folder), recording, [] { return Ok(); });
  Publish(checkpoints, {0.1, 0.2, 0.3});
  const std::string path = folder.path().string();
  std::vector<std::string> notes;
  const auto latest = FindResumePoint(path, HistoryOf(3), ConfigHash(), SmallLayout(), notes);
  REQUIRE(latest.has_value());
  CHECK(latest->round == 3);
  CHECK(latest->published.size() == 3);
  CHECK(notes.empty());

  // Every cut of the last file leads back to the one before.
  const std::string last = CheckpointPath(path, 3);
  const auto size = fs::file_size(last);
  for (const auto cut : {std::uintmax_t{0}, std::uintmax_t{5}, size / 2, size - 1}) {
    fs::resize_file(last, cut);
    notes.clear();
    const auto point = FindResumePoint(path, HistoryOf(3), ConfigHash(), SmallLayout(), notes);
    REQUIRE(point.has_value());
    CHECK(point->round == 2);
    CHECK(point->model->values()[0] == 2.0F);
    CHECK(notes.size() == 1);
  }
}

TEST_CASE("checkpoints of another configuration or beyond the metrics are passed over", "[unit]") {
  const test::TemporaryFolder folder;
  Recording recording;
  Checkpoints checkpoints(RulesIn(folder), recording, [] { return Ok(); });
  Publish(checkpoints, {0.1, 0.2});
  const std::string path = folder.path().string();
  std::vector<std::string> notes;
  CHECK_FALSE(FindResumePoint(path, HistoryOf(2), Hash32{}, SmallLayout(), notes).has_value());
  CHECK(notes.size() == 2);
  CHECK(FindResumePoint(path, HistoryOf(1), ConfigHash(), SmallLayout(), notes)->round == 1);
}

TEST_CASE("a file of the run that failed ends it at the next checkpoint", "[unit]") {
  const test::TemporaryFolder folder;
  Recording recording;
  Checkpoints checkpoints(RulesIn(folder), recording, [] {
    return Status(Error{4001, "disk full", ""});
  });
  const Status written = checkpoints.Write({.round = 1, .model = ModelOf(1)});
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().code == 4001);
  CHECK(CheckpointRounds(folder.path().string()).empty());
}

}  // namespace
}  // namespace skep::simulator
