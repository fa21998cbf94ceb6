// skep-faultproxy: reads the command line and runs the proxy.
#include <unistd.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "client/faultproxy/proxy.h"
#include "shared/base/file.h"
#include "shared/base/suggest.h"
#include "shared/base/try.h"
#include "shared/config/value.h"

namespace skep::faultproxy {
namespace {

constexpr std::uint64_t kLargestScript = 1UL << 20U;
constexpr std::uint64_t kSmallestBuffer = 1024;
constexpr std::uint64_t kLargestBuffer = 64UL << 20U;
constexpr std::size_t kMostConnections = 100'000;
constexpr std::size_t kHelpColumn = 30;

enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2 };

constexpr const char* kFooter = R"(Faults, as in --fault "cut direction=up at=4096":
  cut         both sides see an orderly end
  reset       both sides see a reset
  half-close  this direction ends, the other goes on
  stall       nothing passes [for=2s]; without for= until released
  corrupt     flips one bit [bit=0] of the byte at=
  delay       time=200ms [jitter=50ms]
  rate        limit=64KiB/s
  refuse      resets a connection as soon as it is accepted
  duplicate   a second upstream connection gets the same bytes
  blackhole   for=60s [after=5s]: nothing passes on any connection

Where and when (refuse, duplicate: connection, chance; blackhole: after):
  connection=  N, N..M, N.. or all (default); counted from 1
  direction=   up, down or both (default)
  at=          bytes passed before it happens; N..M draws one by --seed
  after=       time since the connection was accepted
  chance=      0.5: only so large a part of them, drawn by --seed

Orders, with --control: a fault; clear [rule=N]; release [connection=N]
[direction=D]; close and open (the listener); count; stop.

Events are lines of JSON on standard output; the first is "ready" with the
address. Exit codes: 0 stopped, 1 failed, 2 usage. Manual:
docs/reference/faultproxy.md; error numbers: skep-client explain SKEP-1012.)";

struct Line {
  std::string listen = "127.0.0.1:0";
  std::string upstream;
  std::vector<std::string> faults;
  std::string script;
  std::string buffer;
  std::uint64_t seed = 0;
  std::size_t connections = kDefaultConnections;
  bool has_control = false;
  bool allows_remote = false;
};

void AddOptions(CLI::App& app, Line& line) {
  app.add_option("--upstream", line.upstream, "Where connections lead to")
      ->type_name("HOST:PORT")
      ->required();
  app.add_option("--listen", line.listen, "Where clients connect to (127.0.0.1, a free port)")
      ->type_name("ADDRESS:PORT");
  app.add_option("--fault", line.faults, "A fault, repeatable")
      ->type_name("RULE")
      ->allow_extra_args(false);
  app.add_option("--script", line.script, "Faults, one a line; # begins a comment")
      ->type_name("FILE");
  app.add_option("--seed", line.seed, "For what is drawn (0)")->type_name("N");
  app.add_option("--buffer", line.buffer, "Most bytes held back, per direction (256KiB)")
      ->type_name("SIZE");
  app.add_option("--connections", line.connections, "Most at a time; others wait (1024)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMostConnections));
  app.add_flag("--control", line.has_control, "Take orders from standard input, until its end");
  app.add_flag("--allow-remote", line.allows_remote, "Allow a --listen that others can reach");
}

int Fail(const Error& error) {
  std::string text = "error[SKEP-" + std::to_string(error.code) + "]: " + error.message + "\n";
  if (!error.hint.empty()) text += "   " + error.hint + "\n";
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  const bool is_usage = error.code < 2000 || error.code == 5202;
  return is_usage ? kUsage : kFailed;
}

// CLI11 says only that something was not expected.
Error FindFault(const CLI::App& app, const std::vector<std::string>& words,
                const std::string& complaint) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const CLI::Option* const option =
        name.starts_with("-") ? app.get_option_no_throw(name) : nullptr;
    if (option == nullptr) {
      const std::string meant = Suggest(name, {names.begin(), names.end()});
      return {1012, "unknown option \"" + name.substr(0, 100) + "\"",
              meant.empty() ? "skep-faultproxy --help" : "did you mean \"" + meant + "\"?"};
    }
    if (option->get_items_expected_max() != 0 && name == words[i]) ++i;
  }
  return {1101, complaint, "skep-faultproxy --help"};
}

// The script's rules first, then those of --fault.
Result<std::vector<Rule>> ReadRules(const Line& line) {
  std::vector<Rule> rules;
  if (!line.script.empty()) {
    SKEP_ASSIGN(const Bytes content, ReadFile(line.script, kLargestScript, 1010));
    auto script = ParseScript(AsText(content));
    if (!script) return std::move(script).error().Within(line.script);
    rules = std::move(*script);
  }
  for (const std::string& fault : line.faults) {
    auto rule = ParseRule(fault);
    if (!rule) return std::move(rule).error().Within("--fault");
    rules.push_back(*rule);
  }
  return rules;
}

Result<ProxyOptions> ReadOptions(const Line& line) {
  ProxyOptions options{.listen = line.listen,
                       .upstream = line.upstream,
                       .allows_remote = line.allows_remote,
                       .seed = line.seed,
                       .most_connections = line.connections,
                       .control = line.has_control ? STDIN_FILENO : -1};
  SKEP_ASSIGN(options.rules, ReadRules(line));
  if (line.buffer.empty()) return options;
  const auto buffer = config::ParseSize(line.buffer);
  if (!buffer) return Error{1101, "--buffer " + line.buffer + " is not a size", "as in 256KiB"};
  if (*buffer < kSmallestBuffer || *buffer > kLargestBuffer) {
    return Error{1102, "--buffer lies between 1KiB and 64MiB", ""};
  }
  options.buffer = static_cast<std::size_t>(*buffer);
  return options;
}

std::atomic<FaultProxy*> running{nullptr};
static_assert(std::atomic<FaultProxy*>::is_always_lock_free);

void OnSignal(int) {
  const int saved = errno;
  if (FaultProxy* const proxy = running.load()) proxy->Stop();
  errno = saved;
}

void InstallSignals() {
  // A reader that leaves must not end a test's network: the lines are lost, the bytes go on.
  (void)std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  (void)::sigaction(SIGTERM, &action, nullptr);
  (void)::sigaction(SIGINT, &action, nullptr);
}

void Print(const Event& event) {
  const std::string line = EventLine(event) + "\n";
  (void)std::fwrite(line.data(), 1, line.size(), stdout);
  (void)std::fflush(stdout);
}

int Main(const std::vector<std::string>& words) {
  Line line;
  CLI::App app("A TCP proxy that makes network faults on purpose, for tests", "skep-faultproxy");
  app.set_version_flag("--version", "skep-faultproxy " SKEP_VERSION);
  app.get_formatter()->column_width(kHelpColumn);
  app.footer(kFooter);
  AddOptions(app, line);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return Fail(FindFault(app, words, error.what()));
  }
  auto options = ReadOptions(line);
  if (!options) return Fail(options.error());
  options->report = Print;
  const auto proxy = FaultProxy::Make(std::move(*options));
  if (!proxy) return Fail(proxy.error());
  running = proxy->get();
  InstallSignals();
  (*proxy)->Run();
  running = nullptr;
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? kDone : kFailed;
}

}  // namespace
}  // namespace skep::faultproxy

int main(int count, char** words) {
  skep::HoldStandardStreams();
  return skep::faultproxy::Main({words + 1, words + count});
}
