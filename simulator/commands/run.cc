#include "simulator/commands/run.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "simulator/command_line.h"
#include "simulator/network_folder.h"
#include "simulator/plan.h"
#include "simulator/progress.h"
#include "simulator/report.h"
#include "simulator/run_files.h"
#include "simulator/signals.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

// Says once that a stop was asked for, as soon as the simulation gives a sign of life.
class StopNotice final : public Recorder {
 public:
  StopNotice(const StopRequest& stop, Progress& progress) : stop_(stop), progress_(progress) {}

  void On(const ClientRecord&) override { Look(); }
  void On(const RoundRecord& round) override {
    if (round.published) round_ = round.round + 1;
    Look();
  }
  void On(const Activity&) override { Look(); }
  void On(const RunEnd&) override { Look(); }
  using Recorder::On;

 private:
  void Look() {
    const StopLevel level = stop_.load();
    if (level == told_) return;
    told_ = level;
    if (level == StopLevel::kAfterRound)
      progress_.Say(fmt::format(
          "finishing round {}, then writing the report (Ctrl-C again stops now)", round_));
  }

  const StopRequest& stop_;
  Progress& progress_;
  StopLevel told_ = StopLevel::kNone;
  std::uint32_t round_ = 1;
};

RunId MakeRunId(const std::string& file, WallMs now) {
  const std::string text = fmt::format("skep-run\n{}\n{}\n{}", file, now, ::getpid());
  return RunId::From(Sha256::Of(AsBytes(text)).view().first(RunId::kBytes)).value();
}

bool IsEmpty(const std::string& file) {
  std::error_code failed;
  return fs::is_empty(file, failed) && !failed;
}

bool Sets(const std::vector<std::string>& sets, std::string_view key) {
  return std::any_of(sets.begin(), sets.end(), [&](const std::string& set) {
    return set.starts_with(key) && set.substr(key.size()).starts_with("=");
  });
}

// Where the experiment is read from; of a resumed run that is its own copy, unless a file is given.
Result<PlanSource> SourceOf(const RunOptions& options, std::optional<MetricsHistory>& history) {
  PlanSource source{.file = options.file, .sets = options.sets, .folder = ""};
  if (options.resume.empty()) return source;
  const std::string metrics = options.resume + "/metrics.jsonl";
  if (!Exists(metrics)) return NoRunIn(options.resume, "metrics.jsonl");
  Result<MetricsHistory> read = ReadMetrics(metrics);
  if (!read.has_value())
    return Error{4001,
                 fmt::format("{} cannot be resumed: {}", options.resume, read.error().message),
                 IsEmpty(metrics) ? "it was ended before it began; nothing is lost: start it anew"
                                  : "give the folder of a run"};
  history = std::move(read).value();
  if (source.file.empty()) {
    source.file = options.resume + "/experiment.toml";
    source.folder = (fs::path(options.resume) / history->folder).lexically_normal().string();
  }
  // Last bits depend on the instruction set and the device: the rest of the run must use those it
  // began with.
  if (!Sets(source.sets, "run.isa")) source.sets.push_back("run.isa=" + history->isa);
  const std::string device = history->device.substr(0, history->device.find(','));
  if (!Sets(source.sets, "run.device") && !device.empty())
    source.sets.push_back("run.device=" + device);
  return source;
}

void TellNotes(const Plan& plan, const std::string& folder, Recorder& recorder) {
  const auto tell = [&](const std::string& text, int code, NoteLevel level) {
    NoteRecord note;
    note.level = level;
    note.code = code;
    note.text = text;
    recorder.On(note);
  };
  for (const config::Note& note : plan.prepared.loaded.notes) {
    const std::string text = note.hint.empty() ? note.text : note.text + "; " + note.hint;
    tell(text, note.code, note.code == 0 ? NoteLevel::kInfo : NoteLevel::kWarning);
  }
  if (plan.device.api != nullptr || !plan.device.why.empty())
    tell(std::string(kDeviceNote) + DeviceText(plan.device), 0, NoteLevel::kInfo);
  for (const std::string& text : plan.prepared.data.notes) tell(text, 0, NoteLevel::kWarning);
  for (const std::string& text : plan.prepared.partition.notes) tell(text, 0, NoteLevel::kWarning);
  if (IsOnNetworkFolder(folder + "/run.db"))
    tell(folder + " is on a network file system: run.db is slower there", 4003,
         NoteLevel::kWarning);
  if (plan.prepared.data.test == nullptr)
    tell("the data have no test part: there is no central evaluation", 0, NoteLevel::kInfo);
}

ProgressMode ModeOf(const Console& console) {
  if (console.options().is_json) return ProgressMode::kJson;
  if (console.options().is_quiet) return ProgressMode::kQuiet;
  return IsTerminal(STDERR_FILENO) ? ProgressMode::kDisplay : ProgressMode::kLines;
}

struct Opened {
  std::unique_ptr<RunFiles> files;
  std::optional<ResumeState> resume;
  std::vector<std::string> notes;
};

Result<Opened> OpenFiles(const RunOptions& options, const Plan& plan, WallMs now) {
  Opened opened;
  if (options.resume.empty()) {
    const config::Experiment& experiment = plan.experiment();
    auto folder = MakeRunFolder(experiment.run.output, experiment.name, now);
    if (!folder.has_value()) return std::move(folder).error();
    auto files = RunFiles::Create(*folder, plan);
    if (!files.has_value()) return std::move(files).error();
    opened.files = std::move(files).value();
    return opened;
  }
  auto state = ReadResumeState(options.resume, plan, opened.notes);
  if (!state.has_value()) return std::move(state).error();
  opened.resume = std::move(state).value();
  auto files = RunFiles::Resume(options.resume, plan, *opened.resume, opened.notes);
  if (!files.has_value()) return std::move(files).error();
  opened.files = std::move(files).value();
  return opened;
}

// A run ends in metrics.jsonl first; a crash may have kept the rest of its directory from being
// finished, which the resumed run then does.
bool IsClosed(const std::string& folder) {
  return Exists(folder + "/model.safetensors") && !RunDbDamage(folder + "/run.db") &&
         !Exists(folder + "/run.db-wal") && !Exists(folder + "/report.html.partial");
}

// A finished run has nothing to go on with, unless other keys are asked of it.
int TellFinished(const RunOptions& options, const Console& console, const Plan* plan,
                 const MetricsHistory& history) {
  if (plan != nullptr) {
    const Status same = CheckSameConfiguration(options.resume, history, *plan);
    if (!same.has_value()) return console.Fail(same.error());
  }
  console.Say({.code = 0, .text = options.resume + " holds a run that has finished", .hint = ""});
  console.PrintLine(history.end_line);
  return kExitDone;
}

RunStart StartOf(const RunOptions& options, const Plan& plan, const PlanSource& source,
                 const Opened& opened, WallMs now) {
  RunStart start = MakeRunStart(plan);
  start.command = options.command;
  start.time = now;
  const fs::path folder =
      source.folder.empty() ? fs::path(source.file).parent_path() : fs::path(source.folder);
  std::error_code failed;
  start.folder =
      fs::relative(folder.empty() ? "." : folder, opened.files->folder(), failed).string();
  if (opened.resume && opened.resume->point) start.resumed_from = opened.resume->point->round;
  return start;
}

// The run itself; the plan is ready and the files are open.
int Simulate(const RunOptions& options, const Console& console, const Plan& plan,
             const RunStart& start, Opened opened) {
  const StopRequest& stop = InstallSignals();
  Progress progress({.mode = ModeOf(console),
                     .error_style = console.error_style(),
                     .output_style = console.output_style()});
  StopNotice notice(stop, progress);
  RunFiles& files = *opened.files;
  files.Follow(progress);
  files.Follow(notice);
  files.On(start);
  SimulationSetup setup = MakeSetup(plan);
  setup.keep_going = options.keeps_going;
  if (opened.resume) {
    for (const std::string& note : opened.notes) progress.Say("note: " + note);
    progress.Say(start.resumed_from ? fmt::format("resumed after round {}", *start.resumed_from)
                                    : "no checkpoint: the run begins anew");
    setup.resume = opened.resume->point;
    std::vector<RoundRecord> before;
    for (std::uint32_t i = 0; i < start.resumed_from.value_or(0); ++i)
      before.push_back(opened.resume->history.published[i].record);
    progress.Restore(before);
  } else {
    TellNotes(plan, files.folder(), files);
  }
  model::ParamsPtr model;
  RunEnd end;
  {
    Simulation simulation(std::move(setup), files, files.checkpoints(), stop);
    end = simulation.Run(&model);
  }
  const bool is_stopped_now = stop.load() == StopLevel::kNow;
  if (end.state == EndState::kInterrupted) end.exit_code = InterruptedExitCode();
  const Status finished = files.Finish(end, *model, is_stopped_now);
  bool has_report = options.has_report && plan.experiment().run.report && !is_stopped_now;
  Status reported = Ok();
  if (has_report) reported = WriteReport({files.folder()}, files.folder() + "/report.html");
  has_report = has_report && reported.has_value();
  progress.Finish(end, files.folder(), has_report);
  if (end.state == EndState::kFailed && !console.options().is_json)
    (void)console.Fail(Error{end.code, end.text, ""});
  if (end.exit_code != 0) return end.exit_code;
  if (!finished.has_value()) return console.Fail(finished.error());
  if (!reported.has_value()) return console.Fail(reported.error());
  return kExitDone;
}

}  // namespace

int RunCommand(const RunOptions& options, const Console& console) {
  if (options.file.empty() && options.resume.empty())
    return RefuseCommandLine(console, "run needs FILE, or --resume DIR", "", "run");
  if (!options.resume.empty() && Sets(options.sets, "run.output"))
    return console.Fail(Error{1103, "--output contradicts --resume: a run goes on in its folder",
                              "give one of them"});
  const WallMs now = ReadClock().wall;
  std::optional<MetricsHistory> history;
  const Result<PlanSource> source = SourceOf(options, history);
  if (!source.has_value()) return console.Fail(source.error());
  const bool is_over = history && history->end_state == "finished" && IsClosed(options.resume);
  // Its data need not be there any more.
  if (is_over && options.file.empty() && options.sets.empty())
    return TellFinished(options, console, nullptr, *history);
  auto prepared = Prepare(*source);
  if (!prepared.has_value()) return console.Fail(prepared.problems());
  std::optional<RunId> id;
  if (history) id = RunId::FromHexText(history->run_id);
  auto plan = MakePlan(std::move(prepared).value(), id.value_or(MakeRunId(source->file, now)));
  if (!plan.has_value()) return console.Fail(plan.problems());
  if (is_over) return TellFinished(options, console, &*plan, *history);
  auto opened = OpenFiles(options, *plan, now);
  if (!opened.has_value()) return console.Fail(opened.error());
  const RunStart start = StartOf(options, *plan, *source, *opened, now);
  return Simulate(options, console, *plan, start, std::move(opened).value());
}

}  // namespace skep::simulator
