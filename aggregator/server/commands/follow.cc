#include <csignal>
#include <ctime>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <optional>
#include <set>

#include "aggregator/server/commands/run.h"
#include "aggregator/server/commands/run_text.h"
#include "aggregator/server/commands/text.h"

namespace skep::aggregator {
namespace {

namespace json = boost::json;

constexpr Milliseconds kBetweenLooks{150};
// A signal is answered after at most one look.
constexpr Milliseconds kLongestLook{900};
// Without a terminal nobody sees a line change: a wait is told once it has lasted.
constexpr std::int64_t kWorthTellingMs = 5000;

// SIGINT and SIGTERM arrive as values while this exists.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // The signal that came within `span`, or 0.
  [[nodiscard]] int WaitFor(Milliseconds span) const {
    const timespec limit{.tv_sec = span.count() / 1000,
                         .tv_nsec = static_cast<long>(span.count() % 1000 * 1'000'000)};
    const int signal = ::sigtimedwait(&set_, nullptr, &limit);
    return std::max(signal, 0);
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

// Prints what is new since the last look.
class Screen {
 public:
  explicit Screen(const GlobalOptions& options) : options_(options), is_live_(IsLive(options)) {}
  ~Screen() { Erase(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void Update(const View& run) {
    Erase();
    TellAttempts(run);
    if (IsOver(run)) return;
    if (is_live_) {
      Draw(run);
    } else {
      TellWait(run);
    }
  }
  void TellLost(const std::string& why) {
    Erase();
    if (why != last_wait_) Tell(options_, why + "\n");
    last_wait_ = why;
  }

 private:
  // An attempt is told once, when its evaluation is in too.
  void TellAttempts(const View& run) {
    const auto attempts = run.At("attempts").Items();
    const std::string phase = run.Text("phase");
    const bool is_settling = !IsOver(run) && (phase == "publishing" || phase == "evaluating");
    for (std::size_t i = told_; i < attempts.size(); ++i) {
      const std::string state = attempts[i].Text("state");
      if (state != "published" && state != "abandoned") break;
      if (i + 1 == attempts.size() && is_settling) break;
      Tell(options_, AttemptLine(attempts[i], run.Number("rounds")));
      told_ = i + 1;
    }
  }
  void TellWait(const View& run) {
    const std::string wait = run.Text("waiting_for");
    if (wait.empty() || wait == last_wait_ || run.Number("waiting_ms") < kWorthTellingMs) return;
    last_wait_ = wait;
    Tell(options_,
         RunLine(run) + "\n  " + wait + ", since " + SpanText(run.Number("waiting_ms")) + "\n");
  }
  void Draw(const View& run) {
    std::string line = PlaceLine(run);
    if (const std::string wait = run.Text("waiting_for"); !wait.empty()) {
      line += "  " + wait + ", since " + SpanText(run.Number("waiting_ms"));
    }
    PrintError(Shown(line.substr(0, TerminalWidth() - 1)));
    is_drawn_ = true;
  }
  void Erase() {
    if (is_drawn_) PrintError("\r\x1b[K");
    is_drawn_ = false;
  }

  const GlobalOptions& options_;
  bool is_live_;
  bool is_drawn_ = false;
  std::size_t told_ = 0;
  std::string last_wait_;
};

int Report(const GlobalOptions& options, const View& run) {
  if (HasSucceeded(run)) return Deliver(options, run.value(), EndText(run));
  const int number = run.Has("code") ? static_cast<int>(run.Number("code")) : 2213;
  if (!options.is_json) {
    PrintOut(EndText(run));
    (void)std::fflush(stdout);
    return kFailed;
  }
  json::object object{{"schema", 1}, {"status", "error"}, {"exit_code", int{kFailed}}};
  object["error"] = {
      {"code", number},
      {"message", "run " + run.Text("name") + " " + run.Text("state") + ": " + run.Text("reason")}};
  object["data"] = run.value();
  PrintOut(json::serialize(object) + "\n");
  return kFailed;
}

int Interrupted(const GlobalOptions& options, const std::string& name, int signal) {
  PrintError("run " + name +
             " goes on; stop it: " + Runnable(options, "skep-aggregator run stop " + name) + "\n");
  const int code = signal == SIGTERM ? kTerminated : kInterrupted;
  if (options.is_json) {
    PrintOut(json::serialize(json::object{
                 {"schema", 1},
                 {"status", "error"},
                 {"exit_code", code},
                 {"error", {{"code", 5407}, {"message", "interrupted; the run goes on"}}}}) +
             "\n");
  }
  return code;
}

bool IsPassing(const config::Problem& problem) {
  return problem.code == 5401 || problem.code == 5407;
}

}  // namespace

int FollowRun(const GlobalOptions& options, const Daemon& daemon, const std::string& run) {
  const Signals signals;
  std::string name = ShortId(run);
  SteadyTime last_contact = ReadClock().steady;
  Screen screen(options);
  while (true) {
    const auto answer = daemon.Ask(Get("/api/v1/runs/" + run), kLongestLook);
    const SteadyTime now = ReadClock().steady;
    if (answer) {
      last_contact = now;
      const View view(*answer);
      name = view.Text("name");
      screen.Update(view);
      if (IsOver(view)) return Report(options, view);
    } else if (!IsPassing(answer.problems().front()) || now - last_contact > options.timeout) {
      return Fail(options, answer.problems());
    } else {
      // A restart: the run is resumed, and so is this.
      screen.TellLost(answer.problems().front().message);
    }
    if (const int signal = signals.WaitFor(kBetweenLooks); signal != 0) {
      return Interrupted(options, name, signal);
    }
  }
}

}  // namespace skep::aggregator
