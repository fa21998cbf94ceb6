// Ctrl-C: the round ends, files and report are written, and the run goes on later.
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <cstdio>
#include <filesystem>

#include "tests/simulator/fixture.h"
#include "tests/simulator/program.h"

namespace skep::simulator {
namespace {

// Starts the program in `folder` with its standard error in a pipe, waits for the third round, then
// sends `signal`; returns the exit code.
int RunAndSignal(const test::TemporaryFolder& folder, int signal, const char* rounds,
                 std::string& error) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::dup2(ends[1], STDERR_FILENO);
    (void)!::freopen("/dev/null", "w", stdout);
    ::close(ends[0]);
    if (::chdir(folder.path().c_str()) != 0) ::_exit(99);
    ::execl(SKEP_BINARY_DIR "/bin/skep-simulator", "skep-simulator", "run", "experiment.toml",
            "--output", "out", "--set", rounds, static_cast<char*>(nullptr));
    ::_exit(99);
  }
  ::close(ends[1]);
  char buffer[4096];
  bool is_sent = false;
  for (ssize_t read = 0; (read = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    if (error.size() < 100'000) error.append(buffer, static_cast<std::size_t>(read));
    if (is_sent || error.find("round=3/") == std::string::npos) continue;
    is_sent = ::kill(child, signal) == 0;
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("a first interrupt ends the run after the round with everything written", "[unit]") {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const ExperimentFolder experiment;
    std::string error;
    CHECK(RunAndSignal(experiment.folder(), signal, "training.rounds=100000", error) == code);
    CHECK(error.find("then writing the report (Ctrl-C again stops now)") != std::string::npos);
    const std::string metrics = ReadText(experiment.path("out/metrics.jsonl"));
    CHECK(metrics.find("\"state\":\"interrupted\",\"exit_code\":" + std::to_string(code)) !=
          std::string::npos);
    CHECK(std::filesystem::exists(experiment.path("out/report.html")));
    CHECK(std::filesystem::exists(experiment.path("out/model.safetensors")));
  }
}

TEST_CASE("a killed run resumes to the result of an undisturbed one", "[unit]") {
  const ExperimentFolder experiment;
  std::string error;
  REQUIRE(RunAndSignal(experiment.folder(), SIGKILL, "training.rounds=150", error) ==
          128 + SIGKILL);
  CHECK(RunProgram(experiment.folder(), "skep-simulator runs .").output.find("interrupted") !=
        std::string::npos);
  const ProgramResult resumed =
      RunProgram(experiment.folder(), "skep-simulator run --resume out --jobs 1");
  INFO(resumed.error);
  REQUIRE(resumed.exit_code == 0);
  CHECK(resumed.error.find("resumed after round ") != std::string::npos);
  REQUIRE(RunProgram(experiment.folder(),
                     "skep-simulator run experiment.toml --output fresh --quiet --no-report "
                     "--set training.rounds=150")
              .exit_code == 0);
  const auto hash = [&](const std::string& run) {
    const std::string text = ReadText(experiment.path(run + "/metrics.jsonl"));
    return text.substr(text.rfind("\"result_sha256\":"), 82);
  };
  CHECK(hash("out") == hash("fresh"));
}

}  // namespace
}  // namespace skep::simulator
