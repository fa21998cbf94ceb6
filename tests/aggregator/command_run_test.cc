// The commands of runs against a daemon whose answers are made up.
#include <boost/json/parse.hpp>

#include <atomic>
#include <mutex>

#include "aggregator/server/admin.h"
#include "aggregator/server/admin_socket.h"
#include "shared/model/layout.h"
#include "shared/model/safetensors.h"
#include "tests/aggregator/command_fixture.h"
#include "tests/aggregator/fake_control.h"

namespace skep::test {
namespace {

constexpr Milliseconds kLimit{60'000};

RoundView Ended(std::uint32_t round, RoundState state, std::vector<Metric> metrics) {
  RoundView view;
  view.row.key.round = round;
  view.row.key.attempt = 1;
  view.row.state = state;
  view.row.metrics = std::move(metrics);
  view.counts = AttemptCounts{.invited = 3, .started = 3, .ok = 2, .failed = 1};
  return view;
}

// A daemon that answers from a FakeControl.
class Daemon {
 public:
  Daemon() { Listen(); }

  std::atomic<int> looks = 0;  // how often a run was asked for

  void Listen() {
    auto started =
        AdminListener::Start({.path = socket(), .group = {}}, [this](const AdminRequest& request) {
          const std::scoped_lock lock(mutex_);
          return api_.Answer(request);
        });
    REQUIRE(started.has_value());
    listener_ = std::move(started).value();
  }
  void Die() { listener_.reset(); }
  // Its thread and the test's share the control: looks and changes are made under the lock.
  template <class F>
  auto With(F look) {
    const std::scoped_lock lock(mutex_);
    return look(control_);
  }
  std::vector<std::string> Calls() {
    return With([](const FakeControl& control) { return control.calls; });
  }
  // What FindRun says from now on.
  void Say(std::function<void(RunDetail&)> change) {
    const std::scoped_lock lock(mutex_);
    control_.find_run = [this, change = std::move(change)] {
      ++looks;
      RunDetail detail{control_.OneRun(), "", {}};
      detail.status.waiting = {};
      change(detail);
      return detail;
    };
  }
  void WaitForLooks(int count, Process& follower) const {
    const int from = looks;
    while (looks < from + count) REQUIRE_FALSE(follower.WaitFor(Milliseconds(5)).has_value());
  }

  [[nodiscard]] std::string socket() const { return (folder_.path() / "admin.sock").string(); }
  [[nodiscard]] std::string path(const char* name) const {
    return (folder_.path() / name).string();
  }
  [[nodiscard]] Command Words(std::vector<std::string> words) const {
    words.insert(words.begin(), {kAggregator, "--socket", socket()});
    return {.words = std::move(words)};
  }
  [[nodiscard]] Outcome Run(std::vector<std::string> words) const {
    return RunToEnd(Words(std::move(words)));
  }
  [[nodiscard]] Process Follow(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"run", "show", "pump", "--follow"};
    words.insert(words.end(), more.begin(), more.end());
    return Process(Words(words), path("follow.err"));
  }
  [[nodiscard]] std::string Write(const char* name, const std::string& text) const {
    return folder_.Write(name, text).string();
  }

 private:
  TemporaryFolder folder_;
  std::mutex mutex_;
  FakeControl control_;
  AdminApi api_{control_, {}};
  std::unique_ptr<AdminListener> listener_;
};

const std::string kZeros(64, '0');

void Over(RunDetail& run, RunState state, int code, const std::string& reason) {
  run.status.view.state = state;
  run.status.view.code = code;
  run.status.view.reason = reason;
}

TEST_CASE("a follower tells each attempt once and ends with the run's own result", "[unit]") {
  Daemon daemon;
  daemon.Say([&](RunDetail& run) {
    run.rounds.push_back(
        Ended(1, RoundState::kPublished, {{"train_loss", 0.5, 3}, {"accuracy", 0.75, 0}}));
    if (daemon.looks > 2) run.rounds.push_back(Ended(2, RoundState::kPublished, {}));
    if (daemon.looks > 3) Over(run, RunState::kFinished, 0, "finished after 2 rounds");
  });
  const Outcome outcome = daemon.Run({"run", "show", "pump", "--follow"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err ==
        "round=1/3 attempt=1 state=published train_loss=0.5 accuracy=0.75 ok=2 rejected=0 "
        "failed=1 dropped=0 late=0\n"
        "round=2/3 attempt=1 state=published ok=2 rejected=0 failed=1 dropped=0 late=0\n");
  CHECK(outcome.out == "run pump finished after 2 rounds\n  model sha256 " + kZeros + "\n");
}

TEST_CASE("a round is told with its evaluation, not before", "[unit]") {
  Daemon daemon;
  daemon.Say([&](RunDetail& run) {
    const bool is_evaluated = daemon.looks > 3;
    run.status.view.phase = is_evaluated ? "selecting" : "evaluating";
    run.rounds.push_back(
        Ended(1, RoundState::kPublished,
              is_evaluated ? std::vector<Metric>{{"accuracy", 0.75, 0}} : std::vector<Metric>{}));
    if (daemon.looks > 4) Over(run, RunState::kFinished, 0, "target reached");
  });
  const Outcome outcome = daemon.Run({"run", "show", "pump", "--follow"});
  CHECK(outcome.err.find("accuracy=0.75") != std::string::npos);
  CHECK(outcome.out.rfind("run pump finished after 1 round: target reached\n", 0) == 0);
}

TEST_CASE("a run that did not finish is exit 1 for its follower, with and without --json",
          "[unit]") {
  struct Case {
    RunState state;
    int code;
    int reported;
  };
  for (const Case& one : {Case{RunState::kStopped, 0, 2213}, Case{RunState::kHalted, 4008, 4008},
                          Case{RunState::kPaused, 2201, 2201}}) {
    Daemon daemon;
    daemon.Say([&](RunDetail& run) { Over(run, one.state, one.code, "because"); });
    const Outcome plain = daemon.Run({"run", "show", "pump", "--follow"});
    CHECK(plain.code == 1);
    CHECK(plain.out.find(": because\n") != std::string::npos);
    const Outcome json = daemon.Run({"run", "show", "pump", "--follow", "--json"});
    CHECK(json.code == 1);
    const auto object = boost::json::parse(json.out);
    CHECK(object.at("status") == "error");
    CHECK(object.at("exit_code") == 1);
    CHECK(object.at("error").at("code") == one.reported);
    CHECK(json.err.empty());
  }
}

TEST_CASE("a run that an operator has paused is followed until it goes on and ends", "[unit]") {
  Daemon daemon;
  daemon.Say([&](RunDetail& run) {
    Over(run, daemon.looks > 3 ? RunState::kFinished : RunState::kPaused, 0, "");
  });
  CHECK(daemon.Run({"run", "show", "pump", "--follow"}).code == 0);
}

TEST_CASE("Ctrl-C ends the follower, not the run", "[unit]") {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    Daemon daemon;
    daemon.Say([](RunDetail&) {});
    Process follower = daemon.Follow();
    daemon.WaitForLooks(3, follower);
    follower.Signal(signal);
    CHECK(follower.WaitFor(kLimit) == code);
    CHECK(follower.Errors() == "run pump goes on; stop it: skep-aggregator --socket " +
                                   daemon.socket() + " run stop pump\n");
    const std::vector<std::string> calls = daemon.Calls();
    CHECK(std::find(calls.begin(), calls.end(), "ChangeRun 2") == calls.end());
  }
}

TEST_CASE("a follower outlives a restart of the daemon and says so once", "[unit]") {
  Daemon daemon;
  daemon.Say([](RunDetail&) {});
  Process follower = daemon.Follow();
  daemon.WaitForLooks(2, follower);
  daemon.Die();
  CHECK_FALSE(follower.WaitFor(Milliseconds(700)).has_value());
  daemon.Say([](RunDetail& run) { Over(run, RunState::kFinished, 0, ""); });
  daemon.Listen();
  CHECK(follower.WaitFor(kLimit) == 0);
  const std::string expected = "daemon not reachable at " + daemon.socket() + " (not running?)\n";
  CHECK(follower.Errors() == expected);
}

TEST_CASE("a follower gives up on a daemon that stays away for --timeout: exit 4", "[unit]") {
  Daemon daemon;
  daemon.Say([](RunDetail&) {});
  Process follower = daemon.Follow({"--timeout", "500ms"});
  daemon.WaitForLooks(2, follower);
  daemon.Die();
  CHECK(follower.WaitFor(kLimit) == 4);
  CHECK(follower.Errors().find("error[SKEP-5401]: daemon not reachable") != std::string::npos);
}

TEST_CASE("stopping twice is exit 0 both times, and says so", "[unit]") {
  Daemon daemon;
  const Outcome first = daemon.Run({"run", "stop", "pump"});
  CHECK(first.code == 0);
  CHECK(first.out == "run pump is stopped\n");
  const Outcome second = daemon.Run({"run", "stop", "pump"});
  CHECK(second.code == 0);
  CHECK(second.out == "run pump: already stopped\n");
}

TEST_CASE("a pause or stop that waits for the open round says what it waits for", "[unit]") {
  Daemon daemon;
  daemon.Say([](RunDetail& run) { run.status.view.state = RunState::kRunning; });
  CHECK(daemon.Run({"run", "stop", "pump"}).out ==
        "run pump stops when round 2 has ended; at once: --now\n");
  CHECK(daemon.Run({"run", "pause", "pump"}).out == "run pump pauses when round 2 has ended\n");
  CHECK(daemon.Run({"run", "resume", "pump"}).out == "run pump goes on with round 2\n");
  CHECK(daemon.Run({"run", "stop", "pump", "--now"}).code == 0);
  CHECK(daemon.Calls().at(1) == "ChangeRun 2");
  CHECK(daemon.Calls().at(10) == "ChangeRun 3");
}

TEST_CASE("run show has the place, the wait, the counts, the seed and the model", "[unit]") {
  Daemon daemon;
  daemon.Say([](RunDetail& run) {
    RunView& view = run.status.view;
    view.phase = "collecting";
    view.population = "valves";
    view.attempt.attempt = 1;
    view.counts = {.invited = 8, .declined = 4, .started = 4, .ok = 2, .rejected = 1};
    run.status.codes = {{AssignmentState::kDeclined, 7413, 3},
                        {AssignmentState::kDeclined, 7401, 1},
                        {AssignmentState::kRefused, 2104, 1}};
    view.reports_wanted = 4;
    view.min_reports = 2;
    view.waiting_for = "waiting for 1 of 4: north";
    view.last_metrics = {{"accuracy", 0.8125, 0}};
    run.status.waiting = std::chrono::seconds(40);
    run.status.closes_in = std::chrono::seconds(190);
  });
  const Outcome outcome = RunToEnd(
      {.words = daemon.Words({"run", "show", "pump"}).words, .variables = {"LC_ALL=C.UTF-8"}});
  CHECK(outcome.out ==
        "run pump (00000000)  round 2/3, attempt 1  collecting  2/4 reported, needs 2  closes in "
        "3 m 10 s\n"
        "  waiting for 1 of 4: north, since 40 s\n"
        "  invited 8 \u00b7 declined 4 (3 SKEP-7413, 1 SKEP-7401) \u00b7 started 4 \u00b7 ok 2 "
        "\u00b7 "
        "rejected 1 (SKEP-2104) \u00b7 at work 1\n"
        "  accuracy 0.8125\n"
        "  population valves \u00b7 seed 42\n"
        "  model sha256 " +
            kZeros + "\n");
}

TEST_CASE("an attempt that has ended shows who declined, and why", "[unit]") {
  Daemon daemon;
  daemon.Say([](RunDetail& run) {
    RoundView ended = Ended(1, RoundState::kAbandoned, {});
    ended.codes = {{AssignmentState::kDeclined, 7413, 3}, {AssignmentState::kFailed, 7201, 1}};
    run.status.codes = ended.codes;
    run.rounds.push_back(ended);
    Over(run, RunState::kStopped, 0, "");
  });
  const Outcome outcome =
      RunToEnd({.words = daemon.Words({"run", "show", "pump", "--rounds", "1"}).words,
                .variables = {"LC_ALL=C.UTF-8"}});
  CHECK(outcome.out.rfind("run pump (00000000)  round 2/3  stopped\n"
                          "  last attempt: declined 3 (SKEP-7413) \u00b7 failed 1 (SKEP-7201)\n",
                          0) == 0);
  CHECK(outcome.out.find(" late=0 declined_codes=7413:3 failed_codes=7201:1\n") !=
        std::string::npos);
}

TEST_CASE("a start sends the file with its folder and prints what it will take", "[unit]") {
  Daemon daemon;
  daemon.With([](FakeControl& control) {
    control.notes = {{5314, "\"seed\" is given", "leave it out"}};
  });
  const std::string file = daemon.Write("pump.toml", "seed = 1\n");
  const Outcome outcome = daemon.Run({"run", "start", file, "--set", "training.rounds=5", "--set",
                                      "seed=7", "--population", "valves", "--request-key", "k"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "warning[SKEP-5314]: \"seed\" is given\n   leave it out\n");
  CHECK(outcome.out.find("started in population pump\n") != std::string::npos);
  CHECK(outcome.out.find("at most 3.5 KiB in a round\n") != std::string::npos);
  const StartRequest started =
      daemon.With([](const FakeControl& control) { return control.started; });
  CHECK(started.text == "seed = 1\n");
  CHECK(started.path == file);
  CHECK(started.folder == std::filesystem::path(file).parent_path().string());
  CHECK(started.sets == std::vector<std::string>{"training.rounds=5", "seed=7"});
  CHECK(started.population == "valves");
  CHECK(started.request_key == "k");
  CHECK_FALSE(started.is_dry_run);
}

TEST_CASE("--quiet prints nothing of a start, --json one object and nothing else", "[unit]") {
  Daemon daemon;
  daemon.With([](FakeControl& control) {
    control.notes = {{5314, "\"seed\" is given", "leave it out"}};
  });
  const std::string file = daemon.Write("pump.toml", "");
  const Outcome quiet = daemon.Run({"run", "start", file, "--quiet"});
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
  const Outcome json = daemon.Run({"run", "start", file, "--json", "--dry-run"});
  CHECK(boost::json::parse(json.out).at("data").at("seed") == 42);
  CHECK(json.err.empty());
  CHECK(daemon.With([](const FakeControl& control) { return control.started.is_dry_run; }));
}

TEST_CASE("a start with --follow gives the run's result", "[unit]") {
  Daemon daemon;
  daemon.Say([](RunDetail& run) { Over(run, RunState::kPaused, 2201, "3 attempts abandoned"); });
  const Outcome outcome = daemon.Run({"run", "start", daemon.Write("pump.toml", ""), "--follow"});
  CHECK(outcome.code == 1);
  CHECK(outcome.out.find("run pump paused after 0 rounds: 3 attempts abandoned\n") == 0);
}

TEST_CASE("an exported model is complete or absent", "[unit]") {
  Daemon daemon;
  const std::string file = daemon.path("model.safetensors");
  const Outcome missing = daemon.Run({"export", "pump", "-o", file});
  CHECK(missing.code == 1);
  CHECK(missing.err.rfind("error[SKEP-5403]: no model of that round\n", 0) == 0);
  CHECK_FALSE(std::filesystem::exists(file));

  const auto layout = model::Layout::Make({{.name = "fc1.weight", .shape = {2, 3}}}).value();
  auto params = std::make_shared<model::Params>(layout);
  params->values()[4] = 0.5F;
  daemon.With([&](FakeControl& control) { control.model = params; });
  const Outcome written = daemon.Run({"export", "pump", "--round", "2", "-o", file});
  CHECK(written.code == 0);
  CHECK(written.out.find(params->ModelHash().Hex()) != std::string::npos);
  const auto read = model::ReadModel(file, layout);
  REQUIRE(read.has_value());
  CHECK(read->ModelHash() == params->ModelHash());
  CHECK(daemon.Calls().back() == "Model 2");

  const Outcome unwritable = daemon.Run({"export", "pump", "-o", daemon.path("none/model")});
  CHECK(unwritable.code == 1);
  CHECK(unwritable.err.rfind("error[SKEP-4001]", 0) == 0);
}

TEST_CASE("a result that could not be written is no success", "[unit]") {
  const Outcome outcome = RunToEnd({.words = {"sh", "-c", kAggregator + " version > /dev/full"}});
  CHECK(outcome.code == 1);
}

}  // namespace
}  // namespace skep::test
