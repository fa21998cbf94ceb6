#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <utility>

#include "shared/base/check.h"
#include "tests/support/temporary_folder.h"

namespace skep::test {
namespace {

int CodeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What the child does between fork and exec: only calls that are safe there.
[[noreturn]] void Become(const Command& command, char* const* words, char* const* variables,
                         int input, int output, int errors) {
  ::setpgid(0, 0);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  if (!command.folder.empty() && ::chdir(command.folder.c_str()) != 0) ::_exit(126);
  ::execvpe(words[0], words, variables);
  ::_exit(127);
}

int InputFile(const std::string& text) {
  std::string name = "/tmp/skep-input-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  SKEP_CHECK(file >= 0);
  (void)::unlink(name.c_str());
  SKEP_CHECK(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::lseek(file, 0, SEEK_SET);
  return file;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Process::Process(const Command& command, const std::string& error_file) : error_file_(error_file) {
  std::array<int, 2> pipe{};
  SKEP_CHECK(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const int input = InputFile(command.input);
  const int errors = ::open(error_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  SKEP_CHECK(errors >= 0);
  std::vector<std::string> words = command.words;
  std::vector<std::string> variables = command.variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  const std::vector<char*> word_pointers = Pointers(words);
  const std::vector<char*> variable_pointers = Pointers(variables);
  id_ = ::fork();
  SKEP_CHECK(id_ >= 0);
  if (id_ == 0) {
    Become(command, word_pointers.data(), variable_pointers.data(), input, pipe[1], errors);
  }
  ::close(pipe[1]);
  ::close(input);
  ::close(errors);
  output_ = pipe[0];
  exit_event_ = static_cast<int>(::syscall(SYS_pidfd_open, id_, 0));
  SKEP_CHECK(exit_event_ >= 0);
}

Process::Process(Process&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      exit_event_(std::exchange(other.exit_event_, -1)),
      output_(std::exchange(other.output_, -1)),
      error_file_(std::move(other.error_file_)),
      pending_(std::move(other.pending_)),
      code_(other.code_) {}

Process::~Process() {
  if (id_ < 0) return;
  if (!code_) {
    (void)::kill(id_, SIGKILL);
    (void)::waitpid(id_, nullptr, 0);
  }
  ::close(exit_event_);
  ::close(output_);
}

std::optional<int> Process::WaitFor(Milliseconds limit) {
  if (code_) return code_;
  pollfd event{.fd = exit_event_, .events = POLLIN, .revents = 0};
  if (::poll(&event, 1, static_cast<int>(limit.count())) <= 0) return std::nullopt;
  int status = 0;
  SKEP_CHECK(::waitpid(id_, &status, 0) == id_);
  code_ = CodeOf(status);
  return code_;
}

bool Process::Fill(Milliseconds limit) {
  pollfd event{.fd = output_, .events = POLLIN, .revents = 0};
  if (::poll(&event, 1, static_cast<int>(limit.count())) <= 0) return false;
  std::array<char, 4096> block{};
  const ssize_t count = ::read(output_, block.data(), block.size());
  if (count <= 0) return false;
  pending_.append(block.data(), static_cast<std::size_t>(count));
  return true;
}

std::optional<std::string> Process::ReadLine(Milliseconds limit) {
  const SteadyTime until = ReadClock().steady + limit;
  std::size_t end = pending_.find('\n');
  while (end == std::string::npos) {
    const auto left = std::chrono::duration_cast<Milliseconds>(until - ReadClock().steady);
    if (left.count() <= 0 || !Fill(left)) return std::nullopt;
    end = pending_.find('\n');
  }
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

void Process::Signal(int number) const {
  if (!code_) SKEP_CHECK(::kill(id_, number) == 0);
}

std::string Process::RestOfOutput() {
  while (Fill(Milliseconds(0))) continue;
  return std::exchange(pending_, {});
}

std::string Process::Errors() const {
  std::ifstream file(error_file_, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome RunToEnd(const Command& command, Milliseconds limit) {
  const TemporaryFolder folder;
  const SteadyTime begin = ReadClock().steady;
  Process process(command, (folder.path() / "stderr").string());
  Outcome outcome;
  // Its output may be more than a pipe holds.
  while (const auto line = process.ReadLine(limit)) outcome.out += *line + "\n";
  outcome.out += process.RestOfOutput();
  outcome.code = process.WaitFor(limit).value_or(-1);
  outcome.took = ReadClock().steady - begin;
  outcome.err = process.Errors();
  return outcome;
}

}  // namespace skep::test
