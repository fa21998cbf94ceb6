#include "simulator/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"
#include "simulator/own_states.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "round-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 30U;

std::string RelativePath(std::uint32_t round) {
  return fmt::format("checkpoints/{}{:06}{}", kPrefix, round, kSuffix);
}

Error CannotWrite(const std::string& path, const std::error_code& reason) {
  return Error{4001, fmt::format("cannot write {}: {}", path, reason.message()),
               "look at the free space and the permissions of its folder"};
}

}  // namespace

Checkpoints::Checkpoints(CheckpointRules rules, Recorder& recorder, std::function<Status()> health)
    : rules_(std::move(rules)), recorder_(recorder), health_(std::move(health)) {}

void Checkpoints::Restore(const std::vector<PublishedRound>& published) {
  for (const PublishedRound& round : published) {
    RoundRecord record;
    record.round = round.round;
    record.published = true;
    record.metrics = round.metrics;
    On(record);
  }
  if (!published.empty()) last_written_ = published.back().round;
}

void Checkpoints::On(const RoundRecord& round) {
  const auto value = round.metrics.find(rules_.target_metric);
  if (!round.published || value == round.metrics.end() || !value->second) return;
  const double now = *value->second;
  if (best_ && (rules_.maximise ? now <= *best_ : now >= *best_)) return;
  best_ = now;
  best_round_ = round.round;
}

Status Checkpoints::Write(const RoundState& state) {
  SKEP_TRY(health_());
  // Kept in memory until a checkpoint makes its round final: a crash goes back behind it.
  if (best_round_ == state.round) best_model_ = state.model;
  own_ = state.own;
  if (!state.is_last && (rules_.every == 0 || state.round % rules_.every != 0)) return Ok();
  return WriteCheckpoint(state.round, state.model);
}

Status Checkpoints::WriteCheckpoint(std::uint32_t round, const model::Params& model) {
  std::error_code failed;
  fs::create_directories(fs::path(rules_.folder) / "checkpoints", failed);
  const std::string path = CheckpointPath(rules_.folder, round);
  if (failed) return CannotWrite(path, failed);
  const Hash32 hash = model.ModelHash();
  // First: a checkpoint with its model is whole.
  if (model.layout()->private_values() > 0) {
    SKEP_TRY(WriteOwnStates(OwnStatesPath(path), *model.layout(), own_, MetadataOf(round, hash)));
  }
  SKEP_TRY(model::WriteModel(path, model, MetadataOf(round, hash)));
  SKEP_ASSIGN(const Bytes bytes, ReadFile(path, kMostBytes, 4001));
  recorder_.On(CheckpointRecord{.round = round,
                                .path = RelativePath(round),
                                .file_sha256 = Sha256::Of(bytes),
                                .model = hash});
  last_written_ = round;
  if (best_model_) SKEP_TRY(WriteBest(round, path));
  ForgetOld();
  return Ok();
}

Status Checkpoints::WriteBest(std::uint32_t round, const std::string& checkpoint) {
  const std::string path = rules_.folder + "/best.safetensors";
  const model::Params best = std::move(*best_model_);
  best_model_.reset();
  if (round == best_round_) {
    // The same file under two names costs no second write.
    std::error_code failed;
    const std::string partial = path + ".partial";
    fs::remove(partial, failed);
    fs::create_hard_link(checkpoint, partial, failed);
    if (!failed) fs::rename(partial, path, failed);
    if (!failed) return Ok();
  }
  return model::WriteModel(path, best, MetadataOf(best_round_, best.ModelHash()));
}

void Checkpoints::ForgetOld() {
  const std::vector<std::uint32_t> rounds = CheckpointRounds(rules_.folder);
  for (std::size_t i = rules_.keep; i < rounds.size(); ++i) {
    std::error_code ignored;  // one file too many harms nobody
    const std::string path = CheckpointPath(rules_.folder, rounds[i]);
    fs::remove(path, ignored);
    fs::remove(OwnStatesPath(path), ignored);
  }
}

Status Checkpoints::Finish(std::uint32_t round, const model::Params& model) {
  if (round > 0 && round != last_written_) SKEP_TRY(WriteCheckpoint(round, model));
  return model::WriteModel(rules_.folder + "/model.safetensors", model,
                           MetadataOf(round, model.ModelHash()));
}

model::Metadata Checkpoints::MetadataOf(std::uint32_t round, const Hash32& hash) const {
  model::Metadata metadata = rules_.metadata;
  metadata["skep.round"] = std::to_string(round);
  metadata["skep.model_sha256"] = hash.Hex();
  return metadata;
}

std::string CheckpointPath(const std::string& folder, std::uint32_t round) {
  return folder + "/" + RelativePath(round);
}

std::vector<std::uint32_t> CheckpointRounds(const std::string& folder) {
  std::vector<std::uint32_t> rounds;
  std::error_code failed;
  for (fs::directory_iterator entry(fs::path(folder) / "checkpoints", failed), end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const char* const first = name.data() + kPrefix.size();
    const char* const last = name.data() + name.size() - kSuffix.size();
    std::uint32_t round = 0;
    const auto read = std::from_chars(first, last, round);
    if (read.ec == std::errc{} && read.ptr == last && round > 0) rounds.push_back(round);
  }
  std::sort(rounds.rbegin(), rounds.rend());
  return rounds;
}

namespace {

// The checkpoint of one round, if it is what the run's files say.
Result<ResumePoint> ReadCheckpoint(const std::string& folder, std::uint32_t round,
                                   const MetricsHistory& history, const Hash32& config,
                                   const model::LayoutPtr& layout) {
  if (round > history.published.size())
    return Error{4001, fmt::format("metrics.jsonl does not reach round {}", round), ""};
  model::Metadata metadata;
  SKEP_ASSIGN(model::Params params,
              model::ReadModel(CheckpointPath(folder, round), layout, &metadata));
  if (metadata["skep.config_sha256"] != config.Hex())
    return Error{4001, "it belongs to another configuration", ""};
  const RoundRecord& record = history.published[round - 1].record;
  if (params.ModelHash() != record.model)
    return Error{4001, fmt::format("its model is not that of round {}", round), ""};
  ResumePoint point;
  point.round = round;
  point.model = std::make_shared<const model::Params>(std::move(params));
  if (layout->private_values() > 0) {
    SKEP_ASSIGN(point.own,
                ReadOwnStates(OwnStatesPath(CheckpointPath(folder, round)), *layout, record.model));
  }
  point.time_s = record.time_s;
  point.virtual_s = record.virtual_s.value_or(0);
  for (std::uint32_t i = 0; i < round; ++i) {
    const RoundRecord& published = history.published[i].record;
    point.bytes += published.bytes_up + published.bytes_down;
    point.published.push_back(
        {.round = published.round, .model = published.model, .metrics = published.metrics});
  }
  for (const RoundRecord& abandoned : history.abandoned) {
    if (abandoned.round <= round) point.bytes += abandoned.bytes_up + abandoned.bytes_down;
  }
  return point;
}

}  // namespace

std::optional<ResumePoint> FindResumePoint(const std::string& folder, const MetricsHistory& history,
                                           const Hash32& config, const model::LayoutPtr& layout,
                                           std::vector<std::string>& notes) {
  for (const std::uint32_t round : CheckpointRounds(folder)) {
    Result<ResumePoint> point = ReadCheckpoint(folder, round, history, config, layout);
    if (point.has_value()) return std::move(point).value();
    notes.push_back(fmt::format("the checkpoint of round {} was passed over: {}", round,
                                point.error().message));
  }
  return std::nullopt;
}

}  // namespace skep::simulator
