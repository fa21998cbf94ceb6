#include "simulator/run_files.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/config/utf8.h"
#include "simulator/json.h"
#include "simulator/names.h"
#include "simulator/signals.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFolders = 10'000;

void ReplaceAll(std::string& text, std::string_view what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

Error CannotMake(const std::string& path, const std::error_code& reason) {
  return Error{4001,
               fmt::format("cannot make the folder {}: {}", path, SystemReason(reason.value())),
               "set another one with --output"};
}

Status WriteText(const std::string& path, const std::string& text) {
  return WriteFileAtomically(path, AsBytes(text));
}

// metrics.jsonl does not have all that run.db had.
std::string RebuiltText(const std::string& database, const std::string& damage) {
  std::string text =
      fmt::format("{0} {1}: made anew from metrics.jsonl, without the figures of single clients",
                  database, damage);
  if (Exists(database + ".damaged")) text += fmt::format("; the old one is {}.damaged", database);
  return text;
}

}  // namespace

// log.txt: what happened, one line each, with the time of day.
class RunFiles::TextLog {
 public:
  explicit TextLog(const std::string& path) : file_(std::fopen(path.c_str(), "a")) {}
  ~TextLog() {
    if (file_ != nullptr) (void)std::fclose(file_);
  }
  TextLog(const TextLog&) = delete;
  TextLog& operator=(const TextLog&) = delete;

  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  void Add(std::string_view level, const std::string& text) {
    (void)std::fputs(
        fmt::format("{} {} {}\n", UtcText(ReadClock().wall), level, config::Printable(text))
            .c_str(),
        file_);
  }
  void Flush() { (void)std::fflush(file_); }

 private:
  std::FILE* file_;
};

Result<std::string> MakeRunFolder(const std::string& pattern, const std::string& name, WallMs now) {
  std::string path = pattern;
  ReplaceAll(path, "{name}", name);
  ReplaceAll(path, "{time}", UtcFileName(now));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const fs::path parent = fs::path(path).parent_path();
  std::error_code failed;
  if (!parent.empty()) fs::create_directories(parent, failed);
  if (failed) return CannotMake(parent.string(), failed);
  for (int number = 1; number < kMostFolders; ++number) {
    const std::string candidate = number == 1 ? path : fmt::format("{}-{}", path, number);
    // Whoever makes the folder owns it: two runs of the same second do not share one.
    if (fs::create_directory(candidate, failed)) return candidate;
    if (failed) return CannotMake(candidate, failed);
    if (fs::is_directory(candidate) && fs::is_empty(candidate, failed)) return candidate;
  }
  return Error{4001, path + " and its numbered successors exist already", "set --output"};
}

Error NoRunIn(const std::string& folder, const std::string& file) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed) && failed && failed.value() != ENOENT)
    return Error{1201, fmt::format("cannot read {}: {}", folder, SystemReason(failed.value())), ""};
  return Error{1201, folder + " holds no run", "give the folder of a run (it has a " + file + ")"};
}

std::string ModelJson(const model::ModelSpec& model, const std::string& architecture) {
  std::vector<std::string> input;
  for (const std::uint32_t size : model.input()) input.push_back(std::to_string(size));
  std::vector<std::string> lines;
  for (const std::string& line : model.lines()) lines.push_back(JsonText(line));
  JsonObject object;
  object.Add("architecture", architecture).Raw("input", JsonArray(input));
  object.Add("classes", model.outputs()).Raw("layers", JsonArray(lines));
  return object.Text();
}

RunFiles::RunFiles(std::string folder, const Plan& plan) : folder_(std::move(folder)) {
  const config::Experiment& experiment = plan.experiment();
  CheckpointRules rules;
  rules.folder = folder_;
  rules.every = experiment.run.checkpoint_every;
  rules.keep = experiment.run.keep_checkpoints;
  rules.target_metric = "test/" + experiment.training.target_metric;
  rules.maximise = experiment.training.target_mode == config::TargetMode::kMaximum;
  rules.metadata = {{"format", "pt"},
                    {"skep.version", SKEP_VERSION},
                    {"skep.run", plan.spec->id.Hex()},
                    {"skep.config_sha256", plan.config_sha256.Hex()},
                    {"skep.layout_sha256", plan.spec->model.layout()->hash().Hex()},
                    {"skep.model", ModelJson(plan.spec->model, experiment.model.architecture)}};
  checkpoints_ =
      std::make_unique<Checkpoints>(std::move(rules), *this, [this] { return Health(); });
}

RunFiles::~RunFiles() = default;

Result<std::unique_ptr<RunFiles>> RunFiles::Create(const std::string& folder, const Plan& plan) {
  std::unique_ptr<RunFiles> files(new RunFiles(folder, plan));
  const data::DataSpec& spec = plan.prepared.data.spec;
  SKEP_TRY(WriteText(folder + "/experiment.toml", plan.prepared.loaded.effective.AsToml()));
  SKEP_TRY(WriteText(folder + "/data_spec.toml", data::DataSpecToml(spec)));
  SKEP_TRY(WriteText(folder + "/partition.csv", data::PartitionCsv(plan.prepared.partition)));
  SKEP_ASSIGN(files->metrics_, MetricsLog::Create(folder + "/metrics.jsonl"));
  SKEP_ASSIGN(files->db_, RunDb::Create(folder + "/run.db"));
  files->log_ = std::make_unique<TextLog>(folder + "/log.txt");
  if (!files->log_->is_open())
    return Error{4001, fmt::format("cannot write {}/log.txt: {}", folder, SystemReason(errno)), ""};
  return files;
}

Result<std::unique_ptr<RunFiles>> RunFiles::Resume(const std::string& folder, const Plan& plan,
                                                   const ResumeState& state,
                                                   std::vector<std::string>& notes) {
  std::unique_ptr<RunFiles> files(new RunFiles(folder, plan));
  const std::uint32_t round = state.point ? state.point->round : 0;
  const std::uint64_t bytes =
      round == 0 ? state.history.start_bytes : state.history.published[round - 1].end_bytes;
  SKEP_ASSIGN(files->metrics_, MetricsLog::Resume(folder + "/metrics.jsonl", bytes));
  std::vector<RoundRecord> known;
  for (std::uint32_t i = 0; i < round; ++i) known.push_back(state.history.published[i].record);
  for (const RoundRecord& abandoned : state.history.abandoned) {
    if (abandoned.round <= round) known.push_back(abandoned);
  }
  const std::string database = folder + "/run.db";
  if (const std::optional<std::string> damage = RunDbDamage(database)) {
    SKEP_ASSIGN(LoggedRecords rest, ReadLoggedRecords(folder + "/metrics.jsonl"));
    SKEP_ASSIGN(files->db_, RunDb::Rebuild(database, std::move(known), std::move(rest)));
    notes.push_back(RebuiltText(database, *damage));
  } else {
    SKEP_ASSIGN(files->db_, RunDb::Resume(database, round, known));
  }
  files->log_ = std::make_unique<TextLog>(folder + "/log.txt");
  if (!files->log_->is_open())
    return Error{4001, fmt::format("cannot write {}/log.txt: {}", folder, SystemReason(errno)), ""};
  if (state.point) files->checkpoints_->Restore(state.point->published);
  return files;
}

Status RunFiles::Health() const {
  SKEP_TRY(metrics_->status());
  return db_->status();
}

template <class Record>
void RunFiles::Tell(const Record& record) {
  metrics_->On(record);
  db_->On(record);
  checkpoints_->On(record);
  for (Recorder* follower : followers_) follower->On(record);
}

void RunFiles::On(const RunStart& start) {
  log_->Add("info",
            fmt::format("run {} of {}: {}, seed {}, {} {}, {} jobs", start.run_id, start.name,
                        start.command, start.seed, start.device, start.isa, start.jobs));
  log_->Flush();
  Tell(start);
}

void RunFiles::On(const ClientRecord& client) {
  if (client.outcome != aggregator::Outcome::kOk)
    log_->Add("warning", fmt::format("round {} attempt {}: {} {} (SKEP-{}): {}", client.round,
                                     client.attempt, ClientName(client.client, client.name),
                                     OutcomeName(client.outcome), client.code, client.detail));
  Tell(client);
}

void RunFiles::On(const ClientMetric& metric) {
  Tell(metric);
}

void RunFiles::On(const RoundRecord& round) {
  const auto& counts = round.counts;
  std::string line = fmt::format(
      "round {} attempt {} {}: {} ok, {} rejected, {} failed, {} dropped, {} late, model {}",
      round.round, round.attempt, round.published ? "published" : "abandoned", counts.ok,
      counts.rejected, counts.failed, counts.dropped, counts.late, round.model.Hex());
  if (!round.reason.empty()) line += ": " + round.reason;
  log_->Add("info", line);
  log_->Flush();
  Tell(round);
}

void RunFiles::On(const NoteRecord& note) {
  log_->Add(NoteLevelName(note.level), note.text);
  Tell(note);
}

void RunFiles::On(const CheckpointRecord& checkpoint) {
  Tell(checkpoint);
}

void RunFiles::On(const RunEnd& end) {
  RunEnd told = end;
  if (told.state == EndState::kInterrupted) told.exit_code = InterruptedExitCode();
  log_->Add(told.exit_code == 0 ? "info" : "error",
            fmt::format("{} after {} rounds, result {} {}", EndStateName(told.state), told.rounds,
                        told.result_sha256.Hex(), told.text));
  log_->Flush();
  Tell(told);
}

void RunFiles::On(const Activity& activity) {
  for (Recorder* follower : followers_) follower->On(activity);
}

Status RunFiles::Finish(const RunEnd& end, const model::Params& model, bool is_stopped_now) {
  if (!is_stopped_now) SKEP_TRY(checkpoints_->Finish(end.rounds, model));
  db_->Close();
  return Health();
}

Status CheckSameConfiguration(const std::string& folder, const MetricsHistory& history,
                              const Plan& plan) {
  if (history.config_sha256 == plan.config_sha256.Hex()) return Ok();
  return Error{
      1103,
      fmt::format("{} holds a run of another configuration ({}\xE2\x80\xA6, not {}\xE2\x80\xA6)",
                  folder, history.config_sha256.substr(0, 12),
                  plan.config_sha256.Hex().substr(0, 12)),
      "a run is resumed with the keys that it was started with; only [run] may differ"};
}

Result<ResumeState> ReadResumeState(const std::string& folder, const Plan& plan,
                                    std::vector<std::string>& notes) {
  ResumeState state;
  SKEP_ASSIGN(state.history, ReadMetrics(folder + "/metrics.jsonl"));
  SKEP_TRY(CheckSameConfiguration(folder, state.history, plan));
  state.point =
      FindResumePoint(folder, state.history, plan.config_sha256, plan.spec->model.layout(), notes);
  return state;
}

}  // namespace skep::simulator
