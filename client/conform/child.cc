#include "client/conform/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "shared/base/file.h"

namespace skep::conform {
namespace {

namespace fs = std::filesystem;

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Streams {
  int input;
  int output;
  int errors;
};

// Between fork and exec: only calls that are safe there.
[[noreturn]] void Become(char* const* words, char* const* variables, const Streams& streams,
                         const Den* den, pid_t parent, const char* folder) {
  (void)::setpgid(0, 0);
  if (den != nullptr && !den->is_open()) {
    if (::setns(den->user_namespace(), CLONE_NEWUSER) != 0) ::_exit(126);
    if (::setns(den->mount_namespace(), CLONE_NEWNS) != 0) ::_exit(126);
    if (::chdir(folder) != 0) ::_exit(126);
  }
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);
  (void)::dup2(streams.input, STDIN_FILENO);
  (void)::dup2(streams.output, STDOUT_FILENO);
  (void)::dup2(streams.errors, STDERR_FILENO);
  (void)::signal(SIGPIPE, SIG_DFL);
  ::execve(words[0], words, variables);
  ::_exit(127);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "0100007F:1F90" of /proc/net/tcp as "127.0.0.1:8080"; of IPv6 the hexadecimal words.
std::string AddressText(const std::string& hex) {
  const std::size_t colon = hex.find(':');
  const unsigned long port = std::strtoul(hex.c_str() + colon + 1, nullptr, 16);
  std::string host = hex.substr(0, colon);
  if (colon == 8) {
    const unsigned long word = std::strtoul(host.c_str(), nullptr, 16);
    host = std::to_string(word & 255) + "." + std::to_string(word >> 8 & 255) + "." +
           std::to_string(word >> 16 & 255) + "." + std::to_string(word >> 24 & 255);
  } else {
    host = "[" + host + "]";
  }
  return host + ":" + std::to_string(port);
}

}  // namespace

std::string TextOf(const Exit& exit) {
  if (exit.signal != 0) return "ended by signal " + std::to_string(exit.signal);
  return "exit code " + std::to_string(exit.code);
}

void Pause(Milliseconds limit) {
  (void)::poll(nullptr, 0, static_cast<int>(limit.count()));
}

Result<Child> Child::Spawn(const Start& start) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  const Streams streams{
      ::open("/dev/null", O_RDONLY | O_CLOEXEC),
      ::open((start.output.empty() ? start.log : start.output).c_str(), kFlags, 0600),
      ::open(start.log.c_str(), kFlags, 0600)};
  std::vector<std::string> words = start.words;
  std::vector<std::string> variables = start.variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  const std::vector<char*> word_pointers = Pointers(words);
  const std::vector<char*> variable_pointers = Pointers(variables);
  std::error_code ignored;
  const std::string folder = fs::current_path(ignored).string();
  const pid_t parent = ::getpid();
  Child child;
  child.id_ = ::fork();
  if (child.id_ == 0) {
    Become(word_pointers.data(), variable_pointers.data(), streams, start.den, parent,
           folder.c_str());
  }
  const int fault = errno;
  for (const int stream : {streams.input, streams.output, streams.errors}) ::close(stream);
  if (child.id_ < 0) return Error{5205, "a process: " + SystemReason(fault), ""};
  (void)::setpgid(child.id_, child.id_);  // also here: Kill may come before the child has done it
  child.end_ = static_cast<int>(::syscall(SYS_pidfd_open, child.id_, 0));
  if (child.end_ < 0) return Error{5205, "a process: " + SystemReason(errno), ""};
  return child;
}

Child::Child(Child&& other) noexcept
    : id_(std::exchange(other.id_, -1)), end_(std::exchange(other.end_, -1)), exit_(other.exit_) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    Kill();
    if (end_ >= 0) ::close(end_);
    id_ = std::exchange(other.id_, -1);
    end_ = std::exchange(other.end_, -1);
    exit_ = other.exit_;
  }
  return *this;
}

Child::~Child() {
  Kill();
  if (end_ >= 0) ::close(end_);
}

std::optional<Exit> Child::WaitFor(Milliseconds limit) {
  if (exit_ || id_ < 0) return exit_;
  pollfd event{.fd = end_, .events = POLLIN, .revents = 0};
  if (::poll(&event, 1, static_cast<int>(limit.count())) <= 0) return std::nullopt;
  // What it left behind, while the number of the group is still its own.
  (void)::kill(-id_, SIGKILL);
  int status = 0;
  if (::waitpid(id_, &status, 0) != id_) return std::nullopt;
  exit_ = WIFEXITED(status) ? Exit{.code = WEXITSTATUS(status), .signal = 0}
                            : Exit{.code = 0, .signal = WTERMSIG(status)};
  return exit_;
}

void Child::Signal(int number) const {
  if (id_ > 0 && !exit_) (void)::kill(id_, number);
}

void Child::Kill() {
  if (id_ < 0) return;
  // While its leader is not reaped the number of the group belongs to nobody else.
  if (!exit_) {
    (void)::kill(-id_, SIGKILL);
    (void)::kill(id_, SIGKILL);
    int status = 0;
    (void)::waitpid(id_, &status, 0);
    exit_ = WIFEXITED(status) ? Exit{.code = WEXITSTATUS(status), .signal = 0}
                              : Exit{.code = 0, .signal = WTERMSIG(status)};
  }
}

Nanoseconds Child::CpuTime() const {
  const std::string text = ReadAll("/proc/" + std::to_string(id_) + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 2));
  std::string word;
  constexpr int kBeforeUserTime = 11;
  for (int i = 0; i < kBeforeUserTime; ++i) fields >> word;
  std::int64_t user = 0;
  std::int64_t system = 0;
  fields >> user >> system;
  return Nanoseconds((user + system) * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
}

std::uint64_t Child::StatusBytes(const std::string& key) const {
  std::istringstream lines(ReadAll("/proc/" + std::to_string(id_) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key + ":"))
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

std::uint64_t Child::ResidentBytes() const {
  return StatusBytes("VmRSS");
}
std::uint64_t Child::PeakBytes() const {
  return StatusBytes("VmHWM");
}

std::vector<pid_t> Child::Children() const {
  std::vector<pid_t> found;
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator("/proc", fault)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string text = ReadAll(entry.path().string() + "/stat");
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 4 > text.size()) continue;
    // State, then the parent.
    if (std::strtol(text.c_str() + name_end + 4, nullptr, 10) == id_)
      found.push_back(std::stoi(name));
  }
  return found;
}

Child::Sockets Child::TcpSockets() const {
  Sockets sockets;
  const std::string base = "/proc/" + std::to_string(id_);
  std::set<std::string> own;
  std::error_code fault;
  for (fs::directory_iterator at(base + "/fd", fault), end; !fault && at != end;
       at.increment(fault)) {
    const std::string target = fs::read_symlink(at->path(), fault).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::istringstream lines(ReadAll(base + table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, skipped, inode;
      fields >> slot >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) fields >> skipped;
      fields >> inode;
      if (!own.contains(inode)) continue;
      if (state == "0A") {
        sockets.listening.push_back(AddressText(local));
      } else {
        sockets.peers.push_back(AddressText(remote));
      }
    }
  }
  return sockets;
}

}  // namespace skep::conform
