// Checks of what a program makes of a task: training, evaluating, stopping, and what it leaves.
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "client/conform/checks.h"
#include "client/conform/marks.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr const char* kLongTraining = "client.local_epochs=1000";

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Result<Finding> CheckTraining(Trial& trial) {
  SKEP_TRY(trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run, trial.StartRun({}));
  SKEP_ASSIGN(const json::value over, trial.WaitFinished(run));
  const json::value* attempt = LastAttempt(over, "train");
  const std::int64_t examples = attempt == nullptr ? 0 : NumberAt(*attempt, "total_weight");
  constexpr std::int64_t kMost = 1 << 20;
  if (examples < 1 || examples > kMost) {
    return Failed(std::to_string(examples) + " examples", "1 to " + std::to_string(kMost));
  }
  return Passed(std::to_string(examples) + " examples");
}

Result<Finding> CheckEvaluation(Trial& trial) {
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run,
              trial.StartRun({"training.client_eval_every=1", "training.client_min_test_examples=1",
                              "data.client_test_fraction=0.3"}));
  SKEP_ASSIGN(const json::value over, trial.WaitFinished(run));
  for (const json::value& attempt : over.at("attempts").as_array()) {
    if (TextAt(attempt, "kind") != "evaluate") continue;
    const json::value& counts = attempt.at("counts");
    if (NumberAt(counts, "ok") == 1) return Passed();
    if (NumberAt(counts, "declined") > 0 && !device->program().has_ended()) {
      return Skipped("the program declines to evaluate: it keeps no test data");
    }
    return Failed(std::to_string(NumberAt(counts, "ok")) + " devices reported metrics", "1");
  }
  return Skipped("the run had no evaluation by clients");
}

Result<Finding> CheckCancel(Trial& trial) {
  constexpr Milliseconds kAllowed{1500};  // a batch and a second
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run, trial.StartRun({kLongTraining}));
  SKEP_TRY(trial.WaitRun(run, "started to train", [](const json::value& seen) {
    return NumberAt(seen.at("counts"), "started") == 1;
  }));
  if (const auto early = device->program().WaitFor(Milliseconds(1500))) {
    return Failed("ended while it trained: " + TextOf(*early), "it trains until SIGTERM");
  }
  const SteadyTime begin = ReadClock().steady;
  const std::optional<Exit> exit = device->Stop(Milliseconds(15'000));
  if (!exit) return Failed("still runs 15 s after SIGTERM", "1.5 s");
  const auto took = std::chrono::duration_cast<Milliseconds>(ReadClock().steady - begin);
  // 143: how shells and services write "ended by SIGTERM", chosen by the program itself.
  if (exit->signal != 0 || (exit->code != 0 && exit->code != 143)) {
    return Failed(TextOf(*exit) + " after SIGTERM", "exit code 0 or 143");
  }
  if (took > kAllowed) return Failed(std::to_string(took.count()) + " ms to the end", "1500 ms");
  return Passed(std::to_string(took.count()) + " ms");
}

Result<Finding> CheckFiles(Trial& trial) {
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run, trial.StartRun({"client.local_epochs=3"}));
  std::string fault;
  std::string allowed;
  SKEP_TRY(trial.WaitUntil(
      "a finished run",
      [&]() -> Result<bool> {
        const Child::Sockets sockets = device->program().TcpSockets();
        if (!sockets.listening.empty()) {
          fault = "listens at " + sockets.listening.front();
          allowed = "no listening socket";
          return true;
        }
        const auto children = device->program().Children();
        if (!children.empty()) {
          fault = std::to_string(children.size()) + " child processes";
          allowed = "none";
          return true;
        }
        SKEP_ASSIGN(const json::value seen, trial.host().Ask({"run", "show", run}));
        return TextAt(seen, "state") != "running";
      },
      Milliseconds(60'000)));
  if (!fault.empty()) return Failed(fault, allowed);
  SKEP_TRY(trial.WaitFinished(run));
  const std::string root = device->den().Inside(device->storage());
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    struct stat as {};
    if (::lstat(at->path().c_str(), &as) != 0) continue;
    const unsigned mode = as.st_mode & 07777;
    const unsigned wanted = S_ISDIR(as.st_mode) ? 0700 : 0600;
    if ((mode & ~wanted) != 0) {
      std::ostringstream text;
      text << "{storage}" << at->path().string().substr(root.size()) << " has mode " << std::oct
           << mode;
      return Failed(text.str(), wanted == 0700 ? "700" : "600");
    }
  }
  for (const auto& entry : fs::directory_iterator(device->den().Inside(device->disk()), error)) {
    if (entry.path().filename() != "storage")
      return Failed("wrote " + entry.path().filename().string() + " beside {storage}", "nothing");
  }
  const std::vector<std::string> written = device->den().Written();
  if (!written.empty()) return Failed("wrote " + written.front(), "nothing outside of {storage}");
  if (device->den().is_open())
    return Skipped("files elsewhere cannot be seen (" + device->den().WhyOpen() +
                   "); the rest is in order");
  return Passed();
}

Result<Finding> CheckRepeatability(Trial& trial) {
  if (trial.world().request.is_nondeterministic) return Skipped("--allow-nondeterministic");
  SKEP_TRY(trial.AddHeldDevice());
  std::set<std::string> models;
  std::string started_from;
  for (int i = 0; i < 2; ++i) {
    // The same seed: the same first model and, with one device, a result that is its update alone.
    SKEP_ASSIGN(const std::string run, trial.StartRun({"seed=42"}));
    SKEP_ASSIGN(const json::value over, trial.WaitFinished(run));
    const json::value* attempt = LastAttempt(over, "train");
    if (attempt == nullptr) return Failed("no published round", "one");
    if (!started_from.empty() && started_from != TextAt(*attempt, "model_in")) {
      return Skipped("the experiment gives another first model each time");
    }
    started_from = TextAt(*attempt, "model_in");
    models.insert(TextAt(*attempt, "model_out"));
    SKEP_TRY(trial.WaitHeld(1));
  }
  if (models.size() != 1)
    return Failed("the same task gave two different updates", "the same bytes");
  return Passed();
}

Result<Finding> CheckMarks(Trial& trial) {
  if (!Mentions(trial.world().request.words, "data")) {
    return Skipped("the program does not train on {data}, where the marked values are");
  }
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  std::set<std::string> allowed{"127.0.0.1:" + std::to_string(trial.host().devices().port()),
                                "127.0.0.1:" + std::to_string(trial.host().enrolment().port())};
  SKEP_ASSIGN(const std::string run, trial.StartRun({}));
  std::string stranger;
  SKEP_TRY(trial.WaitUntil(
      "a finished run",
      [&]() -> Result<bool> {
        for (const std::string& peer : device->program().TcpSockets().peers) {
          if (!allowed.contains(peer)) stranger = peer;
        }
        if (!stranger.empty()) return true;
        SKEP_ASSIGN(const json::value seen, trial.host().Ask({"run", "show", run}));
        return TextAt(seen, "state") != "running";
      },
      Milliseconds(60'000)));
  if (!stranger.empty()) return Failed("talks to " + stranger, "the aggregator alone");
  SKEP_TRY(trial.WaitFinished(run));
  if (HoldsMark(device->Output()))
    return Failed("a value of the data stands in the output", "none");
  for (const std::string& name : device->Files()) {
    if (HoldsMark(ReadText(device->Inside(name))))
      return Failed("a value of the data stands in {storage}/" + name, "none");
  }
  return Passed();
}

}  // namespace skep::conform
