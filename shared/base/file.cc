#include "shared/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string_view>
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

mode_t BitsOf(FileMode mode) {
  return mode == FileMode::kPrivate ? 0600 : 0644;
}

// A new file, under a name that nobody has open.
bool WritePartial(const std::string& path, BytesView content, FileMode mode) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return false;
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, BitsOf(mode)));
  return file.number() >= 0 && WriteAll(file.number(), content) &&
         ::fdatasync(file.number()) == 0 && file.Close();
}

Error CannotWrite(const std::string& path, int error) {
  return Error{4001, "cannot write " + path + ": " + SystemReason(error), ""};
}

Status SyncAround(const std::string& path) {
  if (SyncFolderOf(path)) return Ok();
  return Error{4001, "cannot sync the folder of " + path + ": " + SystemReason(errno), ""};
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
  if (error == ELOOP) return "its symbolic links lead in a circle: correct or remove the link";
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

Status WriteFileAtomically(const std::string& path, BytesView content, FileMode mode) {
  const std::string partial = path + ".partial";
  if (!WritePartial(partial, content, mode) || ::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(partial.c_str());
    return CannotWrite(path, error);
  }
  return SyncAround(path);
}

Status AppendToFile(const std::string& path, BytesView content, FileMode mode) {
  const bool is_new = !Exists(path);
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, BitsOf(mode)));
  const bool is_written = file.number() >= 0 && WriteAll(file.number(), content) &&
                          ::fdatasync(file.number()) == 0 && file.Close();
  if (!is_written) return CannotWrite(path, errno);
  return is_new ? SyncAround(path) : Ok();
}

Status MoveFile(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return CannotWrite(to, errno);
  return SyncAround(to);
}

Status MakePrivateFolder(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0) return SyncAround(path);
  return errno == EEXIST ? Ok() : Status(CannotWrite(path, errno));
}

Status RemoveWithContent(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::remove_all(path, failure) == 0 && !failure) return Ok();
  if (failure) return Error{4001, "cannot remove " + path + ": " + failure.message(), ""};
  return SyncAround(path);
}

Result<std::vector<std::string>> ListFolder(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (folder == nullptr && errno == ENOENT) return names;
  const auto refused = [&] {
    return Error{4001, "cannot read the folder " + path + ": " + SystemReason(errno), ""};
  };
  if (folder == nullptr) return refused();
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return refused();
  std::sort(names.begin(), names.end());
  return names;
}

bool Exists(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0;
}

void HoldStandardStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    // open() takes the lowest free number: this one.
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
}

}  // namespace skep
