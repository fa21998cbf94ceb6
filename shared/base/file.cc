#include "shared/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "shared/base/try.h"

namespace skep {
namespace {

constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // one write() never takes 2 GiB

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { (void)Close(); }
  [[nodiscard]] int number() const { return number_; }
  // False with errno when the system reports a late write error.
  [[nodiscard]] bool Close() {
    const int number = number_;
    number_ = -1;
    return number < 0 || ::close(number) == 0;
  }

 private:
  int number_;
};

bool WriteAll(int file, BytesView content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), std::min(content.size(), kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content = content.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool SyncFolderOf(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return file.number() >= 0 && ::fsync(file.number()) == 0;
}

bool WritePartial(const std::string& path, BytesView content) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  return file.number() >= 0 && WriteAll(file.number(), content) &&
         ::fdatasync(file.number()) == 0 && file.Close();
}

Result<Bytes> ReadExactly(int file, std::uint64_t size, const std::string& path, int code) {
  Bytes content(size);
  std::size_t have = 0;
  while (have < content.size()) {
    const ssize_t count = ::read(file, content.data() + have, content.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error{code, "cannot read " + path + ": " + SystemReason(errno), ""};
    if (count == 0) return Error{code, path + " was cut while it was read", ""};
    have += static_cast<std::size_t>(count);
  }
  return content;
}

}  // namespace

std::string SystemReason(int error) {
  return std::generic_category().message(error);
}

Result<Bytes> ReadFile(const std::string& path, std::uint64_t limit, int code) {
  // Without O_NONBLOCK opening a pipe would wait for its writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  if (file.number() < 0 || ::fstat(file.number(), &facts) != 0) {
    return Error{code, "cannot read " + path + ": " + SystemReason(errno), ""};
  }
  if (!S_ISREG(facts.st_mode)) return Error{code, path + " is no regular file", ""};
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (size > limit) {
    return Error{code,
                 path + " has " + std::to_string(size) + " bytes; at most " + std::to_string(limit),
                 ""};
  }
  return ReadExactly(file.number(), size, path, code);
}

Status WriteFileAtomically(const std::string& path, BytesView content) {
  const std::string partial = path + ".partial";
  if (!WritePartial(partial, content) || ::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(partial.c_str());
    return Error{4001, "cannot write " + path + ": " + SystemReason(error), ""};
  }
  if (!SyncFolderOf(path)) {
    return Error{4001, "cannot sync the folder of " + path + ": " + SystemReason(errno), ""};
  }
  return Ok();
}

void HoldStandardStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    // open() takes the lowest free number: this one.
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
}

}  // namespace skep
