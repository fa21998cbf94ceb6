#include "client/agent/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { (void)Close(); }
  [[nodiscard]] int number() const { return number_; }
  // False with errno when the system reports a late error of a write.
  [[nodiscard]] bool Close() {
    const int number = number_;
    number_ = -1;
    return number < 0 || ::close(number) == 0;
  }

 private:
  int number_;
};

Error CannotWrite(const std::string& path) {
  return Error{4001, "cannot write " + path + ": " + SystemReason(errno), ""};
}

bool WriteAll(int file, BytesView content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content = content.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

Status SyncFolderOf(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() < 0 || ::fsync(opened.number()) != 0) return CannotWrite(folder);
  return Ok();
}

// The mode is right from the first byte: a new file, under a name that nobody has open.
bool WritePartial(const std::string& partial, BytesView content) {
  if (::unlink(partial.c_str()) != 0 && errno != ENOENT) return false;
  Descriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         S_IRUSR | S_IWUSR));
  return file.number() >= 0 && WriteAll(file.number(), content) &&
         ::fdatasync(file.number()) == 0 && file.Close();
}

}  // namespace

Status WritePrivateFile(const std::string& path, BytesView content) {
  const std::string partial = path + ".partial";
  if (!WritePartial(partial, content) || ::rename(partial.c_str(), path.c_str()) != 0) {
    const Error failure = CannotWrite(path);
    (void)::unlink(partial.c_str());
    return failure;
  }
  return SyncFolderOf(path);
}

Status AppendPrivateFile(const std::string& path, BytesView content) {
  const bool is_new = !Exists(path);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                         S_IRUSR | S_IWUSR));
  const bool is_written = file.number() >= 0 && WriteAll(file.number(), content) &&
                          ::fdatasync(file.number()) == 0 && file.Close();
  if (!is_written) return CannotWrite(path);
  return is_new ? SyncFolderOf(path) : Ok();
}

Status MovePrivateFile(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return CannotWrite(to);
  return SyncFolderOf(to);
}

Status MakePrivateFolder(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0) return SyncFolderOf(path);
  return errno == EEXIST ? Ok() : Status(CannotWrite(path));
}

Status RemovePrivate(const std::string& path) {
  std::error_code failure;
  if (fs::remove_all(path, failure) == 0 && !failure) return Ok();
  if (failure) return Error{4001, "cannot remove " + path + ": " + failure.message(), ""};
  return SyncFolderOf(path);
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

}  // namespace skep::agent
