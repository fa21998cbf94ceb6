// Reading a configuration file, and saying why it cannot be read.
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/config/reader.h"
#include "shared/config/toml_reader.h"

namespace skep::config {
namespace {

std::string UserName(uid_t user) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(user);
}

std::vector<Problem> Unreadable(const std::string& path, std::string message,
                                std::string hint = {}) {
  return {Problem{.code = 1010,
                  .place = {.file = path},
                  .message = std::move(message),
                  .hint = std::move(hint)}};
}

std::vector<Problem> CannotOpen(const std::string& path, int error) {
  struct stat facts {};
  if (error != EACCES || ::stat(path.c_str(), &facts) != 0) {
    return Unreadable(path, "cannot be read: " + SystemReason(error));
  }
  return Unreadable(
      path,
      fmt::format("cannot be read by user {} (mode {:04o}, owner {})", UserName(geteuid()),
                  facts.st_mode & 07777U, UserName(facts.st_uid)),
      "give this user's group the file and mode 0640");
}

std::vector<Problem> NoFile(const std::string& path, mode_t mode) {
  const char* what = S_ISDIR(mode)    ? "a folder"
                     : S_ISFIFO(mode) ? "a pipe"
                     : S_ISSOCK(mode) ? "a socket"
                                      : "a device";
  return Unreadable(path, fmt::format("cannot be read: it is {}", what));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

Validated<std::string> ReadConfigurationFile(const std::string& path) {
  // Without O_NONBLOCK opening a pipe would wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  // A socket cannot be opened at all.
  if (file.number() < 0 && errno == ENXIO) return NoFile(path, S_IFSOCK);
  if (file.number() < 0) return CannotOpen(path, errno);
  struct stat facts {};
  if (::fstat(file.number(), &facts) != 0) return CannotOpen(path, errno);
  if (!S_ISREG(facts.st_mode)) return NoFile(path, facts.st_mode);

  // Read until one byte beyond the limit: the file may grow meanwhile.
  std::string text;
  std::array<char, 65'536> block{};
  while (text.size() <= kLargestFile) {
    const ssize_t count = ::read(file.number(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unreadable(path, "cannot be read: " + SystemReason(errno));
    if (count == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  return Unreadable(path, "is larger than 1 MiB");
}

}  // namespace skep::config
