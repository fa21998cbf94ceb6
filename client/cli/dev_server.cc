#include "client/cli/dev_server.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "client/cli/dev_aggregator.h"
#include "client/cli/signals.h"
#include "crypto/pki/join_string.h"
#include "shared/base/bytes.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::cli {
namespace {

constexpr std::size_t kLongestJoinString = 4096;
constexpr std::uint32_t kMostRounds = 1'000'000;

// Of the applications that new-app makes: a layer that every own trainer can do, too. Time is no
// matter: the application may have to be built first.
constexpr const char* kExperiment = R"(schema = 1
name = "dev"

[data]
path = "readings.csv"
label = "bearing"
normalize = "none"
num_clients = 1
partition = "iid"

[model]
architecture = "softmax"

[training]
rounds = {}
clients_per_round = 1
selection_window = "1d"
max_attempts = 1000
client_eval_every = 0

[client]
local_epochs = 1
batch_size = 32
learning_rate = 0.5

[run]
device = "cpu"
)";

// The readings of the examples: columns, classes, and rows to measure the model with.
std::string Readings() {
  constexpr int kRows = 412;
  std::string text = "a,b,c,d,bearing\n";
  for (int i = 0; i < kRows; ++i) {
    const bool is_worn = i % 2 != 0;
    for (int j = 0; j < 4; ++j) {
      text += fmt::format("{:.2f},", (i * 37 + j * 11) % 100 / 100.0 + (is_worn ? 0.5 : 0.0));
    }
    text += is_worn ? "worn\n" : "good\n";
  }
  return text;
}

// The file of the join string: there from the moment when the aggregator is ready, and gone with
// it.
class JoinFile {
 public:
  explicit JoinFile(std::string path) : path_(std::move(path)) {}
  ~JoinFile() {
    if (is_written_) static_cast<void>(Remove());
  }
  JoinFile(const JoinFile&) = delete;
  JoinFile& operator=(const JoinFile&) = delete;

  // One of before serves nobody any more, and must not be taken for the new one.
  Status Prepare() {
    if (path_.empty() || !Exists(path_)) return Ok();
    SKEP_ASSIGN(Bytes content, ReadFile(path_, kLongestJoinString, 1010));
    const bool is_join_string = crypto::ParseJoinString(std::string(AsText(content))).has_value();
    crypto::Wipe(content);
    if (is_join_string) return Remove();
    return Error{4004, path_ + " is there and holds no join string: it stays as it is",
                 "give another name with --join-file"};
  }
  Status Write(const std::string& join_string) {
    if (path_.empty()) return Ok();
    is_written_ = true;
    return WriteFileAtomically(path_, AsBytes(join_string + "\n"), FileMode::kPrivate);
  }

 private:
  Status Remove() {
    if (::unlink(path_.c_str()) == 0 || errno == ENOENT) return Ok();
    return Error{4001, "cannot remove " + path_ + ": " + SystemReason(errno), ""};
  }

  std::string path_;
  bool is_written_ = false;
};

Status CheckOptions(const GlobalOptions& options, const DevServerOptions& dev) {
  if (dev.rounds < 1 || dev.rounds > kMostRounds) {
    return Error{1102, "--rounds takes a number from 1 to 1000000", ""};
  }
  if (options.is_json && dev.join_file.empty()) {
    return Error{1103, "--json needs --join-file: the join string has no other way out", ""};
  }
  if (::geteuid() == 0 && !dev.allows_root) {
    return Error{5210, "root should not run an aggregator",
                 "be another user, or give --allow-root in a container"};
  }
  return Ok();
}

std::string Trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

void Print(const GlobalOptions& options, const std::string& line) {
  if (options.is_json || options.is_quiet) return;
  PrintOut(line + "\n");
  (void)std::fflush(stdout);
}

// From the start of the aggregator to the end of the run.
Status Serve(const GlobalOptions& options, const DevServerOptions& dev, DevAggregator& aggregator,
             JoinFile& join_file) {
  SKEP_TRY(join_file.Prepare());
  SKEP_TRY(aggregator.Start());
  SKEP_TRY(aggregator.WriteInFolder("readings.csv", Readings()));
  SKEP_TRY(aggregator.WriteInFolder("dev.toml", fmt::format(kExperiment, dev.rounds)));
  SKEP_ASSIGN(const std::string created, aggregator.Ask({"population", "create", "dev"}));
  SKEP_ASSIGN(std::string tokens,
              aggregator.Ask({"--quiet", "token", "create", "--population", "dev"}));
  const std::string join_string = Trimmed(std::move(tokens));
  SKEP_ASSIGN(
      const std::string started,
      aggregator.Ask({"run", "start", aggregator.PathOf("dev.toml"), "--population", "dev"}));
  SKEP_TRY(join_file.Write(join_string));
  Print(options, "ready  " + aggregator.devices() + "   waiting for 1 client");
  if (dev.join_file.empty()) Print(options, "join   " + join_string);
  std::string last;
  SKEP_ASSIGN(const int code,
              aggregator.Follow({"run", "show", "dev", "--follow"}, [&](const std::string& line) {
                if (line.starts_with("round=")) Print(options, line);
                last = line;
              }));
  if (code == 0) return Ok();
  return Error{2213, "the run ended early: " + last,
               "the aggregator's log:\n" + aggregator.LastLines()};
}

}  // namespace

int RunDevServer(const GlobalOptions& options, const DevServerOptions& dev) {
  if (const Status fit = CheckOptions(options, dev); !fit.has_value()) {
    return Fail(options, fit.error());
  }
  const Result<std::string> program = FindAggregator();
  if (!program.has_value()) return Fail(options, program.error());
  JoinFile join_file(dev.join_file);
  DevAggregator aggregator(*program, ::geteuid() == 0);
  Signals signals;
  signals.OnSignal([&aggregator](int) { aggregator.Stop(); });
  const Status served = Serve(options, dev, aggregator, join_file);
  if (signals.number() != 0) return 128 + signals.number();
  if (!served.has_value()) return Fail(options, served.error());
  return Succeed(options, {{"rounds", dev.rounds}},
                 fmt::format("done   {} rounds; the aggregator ends\n", dev.rounds));
}

}  // namespace skep::cli
