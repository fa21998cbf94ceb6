#include "client/cli/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "shared/base/file.h"

namespace skep::cli {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr int kSignalExit = 128;
constexpr int kNotStarted = 127;

// Between fork and exec: only calls that are safe there.
[[noreturn]] void Become(char* const* words, pid_t parent, int input, int output, int errors) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotStarted);  // it died before it could be followed
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)::signal(SIGPIPE, SIG_DFL);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execv(words[0], words);
  ::_exit(kNotStarted);
}

Error CannotStart(const std::string& program) {
  return Error{4001, "cannot start " + program + ": " + SystemReason(errno), ""};
}

void Close(int& file) {
  if (file >= 0) ::close(file);
  file = -1;
}

// Whether it has ended within the patience.
bool HasEnded(pid_t id) {
  int event = static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
  if (event < 0) return false;
  pollfd wait{.fd = event, .events = POLLIN, .revents = 0};
  int ready = -1;
  do {
    ready = ::poll(&wait, 1, kPatienceMs);
  } while (ready < 0 && errno == EINTR);
  Close(event);
  return ready == 1;
}

}  // namespace

void Children::EndAll() {
  Stop();
  for (Child& child : children_) End(child);
}

void Children::End(Child& child) {
  Close(child.output);
  if (child.id < 0) return;
  if (!HasEnded(child.id)) ::kill(child.id, SIGKILL);
  Reap(child);
}

Result<std::size_t> Children::Start(std::vector<std::string> words, const std::string& error_file) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> pipe{-1, -1};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return CannotStart(words.front());
  int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  int errors = error_file.empty()
                   ? -1
                   : ::open(error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t parent = ::getpid();
  const std::lock_guard lock(mutex_);
  pid_t id = -1;
  if (!is_stopped_) id = ::fork();
  if (id == 0) Become(pointers.data(), parent, input, pipe[1], errors < 0 ? pipe[1] : errors);
  const Error failure = is_stopped_ ? Error{5407, "interrupted", ""} : CannotStart(words.front());
  Close(pipe[1]);
  Close(input);
  Close(errors);
  if (id < 0) {
    Close(pipe[0]);
    return failure;
  }
  children_.push_back({.id = id, .output = pipe[0], .text = {}, .code = 0});
  return children_.size() - 1;
}

std::optional<std::string> Children::ReadLine(std::size_t child) {
  Child& from = children_[child];
  while (true) {
    if (const std::size_t end = from.text.find('\n'); end != std::string::npos) {
      std::string line = from.text.substr(0, end);
      from.text.erase(0, end + 1);
      return line;
    }
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(from.output, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    from.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (from.text.empty()) return std::nullopt;
  return std::exchange(from.text, {});
}

int Children::Wait(std::size_t child) {
  Child& own = children_[child];
  return own.id < 0 ? own.code : Reap(own);
}

int Children::Reap(Child& child) {
  siginfo_t facts{};
  while (::waitid(P_PID, static_cast<id_t>(child.id), &facts, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);
  int status = 0;
  ::waitpid(child.id, &status, 0);
  child.id = -1;
  child.code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalExit + WTERMSIG(status);
  return child.code;
}

void Children::Stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  for (const Child& child : children_) {
    if (child.id > 0) ::kill(child.id, SIGTERM);
  }
}

}  // namespace skep::cli
