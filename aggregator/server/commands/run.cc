#include "aggregator/server/commands/run.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <filesystem>

#include "aggregator/server/admin_json.h"
#include "aggregator/server/commands/run_text.h"
#include "aggregator/server/commands/text.h"
#include "shared/base/file.h"
#include "shared/config/reader.h"

namespace skep::aggregator {
namespace {

namespace json = boost::json;

std::string RunPath(const std::string& run) {
  return "/api/v1/runs/" + run;
}

std::string Bytes(const View& view, std::string_view key) {
  return BytesText(static_cast<std::uint64_t>(view.Number(key)));
}

std::string StartedText(const View& started, bool is_dry_run) {
  std::string text;
  if (is_dry_run) {
    text = fmt::format("run {} can start in population {}\n", started.Text("name"),
                       started.Text("population"));
  } else {
    text = fmt::format(
        "run {} ({}) {} in population {}\n", started.Text("name"), ShortId(started.Text("id")),
        started.Flag("existed") ? "was started before" : "started", started.Text("population"));
  }
  if (started.Flag("existed")) text += "  to train it anew give another --request-key\n";
  text += fmt::format("  plan {}, sha256 {} \u00b7 model {}, update {}, at most {} in a round\n",
                      Bytes(started, "plan_bytes"), ShortId(started.Text("plan_sha256")),
                      Bytes(started, "model_bytes"), Bytes(started, "update_bytes"),
                      BytesText(static_cast<std::uint64_t>(started.Number("update_bytes") *
                                                           started.Number("invited"))));
  return text + "  initial model sha256 " + started.Text("initial_model") + "\n";
}

AdminRequest StartMessage(const StartOptions& start, const std::string& text) {
  std::error_code ignored;
  const auto file = std::filesystem::absolute(start.file, ignored);
  json::array sets;
  for (const std::string& set : start.sets) sets.emplace_back(set);
  json::object body{{"text", text},
                    {"path", start.file},
                    {"folder", file.parent_path().string()},
                    {"sets", std::move(sets)},
                    {"dry_run", start.is_dry_run}};
  if (!start.population.empty()) body["population"] = start.population;
  AdminRequest request = Post("/api/v1/runs", body);
  request.idempotency_key = start.request_key;
  return request;
}

std::string ChangedText(const View& run, Change change) {
  const std::string name = run.Text("name");
  const std::string state = run.Text("state");
  if (run.Flag("was_over")) return fmt::format("run {}: already {}\n", name, state);
  switch (change) {
    case Change::kResume:
      return fmt::format("run {} goes on with round {}\n", name, run.Number("round"));
    case Change::kPause:
      if (state != "running") return fmt::format("run {} is paused\n", name);
      return fmt::format("run {} pauses when round {} has ended\n", name, run.Number("round"));
    default:
      break;
  }
  if (state != "running") return fmt::format("run {} is stopped\n", name);
  return fmt::format("run {} stops when round {} has ended; at once: --now\n", name,
                     run.Number("round"));
}

}  // namespace

int StartRunCommand(const GlobalOptions& options, const StartOptions& start) {
  const auto text = config::ReadConfigurationFile(start.file);
  if (!text) return Fail(options, text.problems());
  const auto daemon = Daemon::Find(options);
  if (!daemon) return Fail(options, daemon.problems());
  const auto answer = daemon->Ask(StartMessage(start, *text));
  if (!answer) return Fail(options, answer.problems());
  const View started(*answer);
  std::vector<config::Note> notes;
  for (const View& note : started.At("notes").Items()) notes.push_back(NoteFromJson(note.value()));
  Tell(options, notes);
  const bool follows = start.follows && !start.is_dry_run;
  const std::string shown = Shown(StartedText(started, start.is_dry_run));
  if (!follows) return Succeed(options, *answer, shown);
  Tell(options, shown);
  return FollowRun(options, *daemon, started.Text("id"));
}

int ShowRunCommand(const GlobalOptions& options, const ShowOptions& show) {
  const auto daemon = Daemon::Find(options);
  if (!daemon) return Fail(options, daemon.problems());
  const auto answer = daemon->Ask(Get(RunPath(show.run)));
  if (!answer) return Fail(options, answer.problems());
  const View run(*answer);
  if (show.follows) return FollowRun(options, *daemon, run.Text("id"));
  return Deliver(options, *answer, Shown(RunScreen(run)) + AttemptLines(run, show.rounds));
}

int ChangeRunCommand(const GlobalOptions& options, const std::string& run, Change change) {
  std::string verb = "/stop";
  if (change == Change::kPause) verb = "/pause";
  if (change == Change::kResume) verb = "/resume";
  json::object body;
  if (change == Change::kStopNow) body["now"] = true;
  return AskAndPrint(options, Post(RunPath(run) + verb, body), [&](const json::value& answer) {
    return Succeed(options, answer, ChangedText(answer, change));
  });
}

int ExportModel(const GlobalOptions& options, const ExportOptions& wanted) {
  const auto daemon = Daemon::Find(options);
  if (!daemon) return Fail(options, daemon.problems());
  std::map<std::string, std::string> query;
  if (wanted.round) query["round"] = std::to_string(*wanted.round);
  const auto answer = daemon->Fetch(Get(RunPath(wanted.run) + "/model", query));
  if (!answer) return Fail(options, answer.problems());
  const Status written = WriteFileAtomically(wanted.output, AsBytes(answer->body));
  if (!written) return Fail(options, written.error());
  const std::string hash =
      answer->etag.size() > 2 ? answer->etag.substr(1, answer->etag.size() - 2) : "";
  const json::object data{
      {"file", wanted.output}, {"bytes", answer->body.size()}, {"model_sha256", hash}};
  return Succeed(options, data,
                 fmt::format("{}  {}  model sha256 {}\n", wanted.output,
                             BytesText(answer->body.size()), hash));
}

}  // namespace skep::aggregator
