#include "client/agent/storage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormatPrefix = "skep-client ";
constexpr std::size_t kLongestFormat = 64;

// File systems on which a lock or a sync may not mean what it says.
bool IsNetworkFileSystem(const std::string& folder) {
  constexpr std::array<std::uint32_t, 4> kNetworkTypes{0x6969, 0x517B, 0xFF534D42,
                                                       0xFE534D42};  // NFS, SMB, CIFS, SMB2
  struct statfs facts {};
  if (::statfs(folder.c_str(), &facts) != 0) return false;
  const auto type = static_cast<std::uint32_t>(facts.f_type);
  return std::find(kNetworkTypes.begin(), kNetworkTypes.end(), type) != kNetworkTypes.end();
}

Error NotThere(const std::string& folder) {
  return Error{4004, folder + " is not there: this device is not enrolled",
               "skep-client join --join-file FILE"};
}

// Empty, or left by a creation that was interrupted.
bool HoldsOnlyOurs(const std::string& folder) {
  const auto names = ListFolder(folder);
  return names.has_value() &&
         std::all_of(names->begin(), names->end(), [](const std::string& name) {
           return name == "lock" || name == "FORMAT.partial" || name == "identity" ||
                  name == "work";
         });
}

// Of regular files, folders within it included. What goes meanwhile is not counted.
std::uint64_t BytesIn(const std::string& folder) {
  std::uint64_t sum = 0;
  const auto names = ListFolder(folder);
  if (!names.has_value()) return sum;
  for (const std::string& name : *names) {
    const std::string path = folder + "/" + name;
    struct stat facts {};
    if (::lstat(path.c_str(), &facts) != 0) continue;
    if (S_ISDIR(facts.st_mode)) sum += BytesIn(path);
    if (S_ISREG(facts.st_mode)) sum += static_cast<std::uint64_t>(facts.st_size);
  }
  return sum;
}

std::string FormatText() {
  return fmt::format("{}{}\n", kFormatPrefix, kStorageVersion);
}

}  // namespace

Storage::~Storage() {
  if (lock_ >= 0) ::close(lock_);
}

Storage::Storage(Storage&& other) noexcept
    : folder_(std::move(other.folder_)), lock_(std::exchange(other.lock_, -1)) {}

Storage& Storage::operator=(Storage&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(lock_, other.lock_);
  return *this;
}

Result<Storage> Storage::Create(const std::string& folder) {
  Storage storage(folder);
  if (!Exists(folder)) SKEP_TRY(MakePrivateFolder(folder));
  SKEP_TRY(storage.Check());
  const std::string format = storage.Path("FORMAT");
  const bool is_new = !Exists(format);
  if (is_new && !HoldsOnlyOurs(folder)) {
    return Error{4004, folder + " holds other files and is no storage folder",
                 "give an empty or new folder with --storage"};
  }
  SKEP_TRY(storage.Lock());
  SKEP_TRY(MakePrivateFolder(storage.Path("identity")));
  SKEP_TRY(MakePrivateFolder(storage.Path("work")));
  // Last: a folder with it is complete.
  if (is_new) SKEP_TRY(WriteFileAtomically(format, AsBytes(FormatText()), FileMode::kPrivate));
  SKEP_TRY(storage.CheckFormat());
  return storage;
}

Result<Storage> Storage::Open(const std::string& folder) {
  SKEP_ASSIGN(Storage storage, Look(folder));
  SKEP_TRY(storage.Lock());
  return storage;
}

Result<Storage> Storage::Look(const std::string& folder) {
  Storage storage(folder);
  SKEP_TRY(storage.Check());
  SKEP_TRY(storage.CheckFormat());
  return storage;
}

Status Storage::Check() const {
  struct stat facts {};
  if (::stat(folder_.c_str(), &facts) != 0) {
    if (errno == ENOENT) return NotThere(folder_);
    return Error{4004, folder_ + ": " + SystemReason(errno), ""};
  }
  if (!S_ISDIR(facts.st_mode)) return Error{4004, folder_ + " is not a folder", ""};
  if (facts.st_uid != ::geteuid()) {
    return Error{4004,
                 fmt::format("{} belongs to another user (uid {}, this is {})", folder_,
                             facts.st_uid, ::geteuid()),
                 "run as that user"};
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{4004,
                 fmt::format("{} is open to others (mode {:04o})", folder_,
                             static_cast<unsigned>(facts.st_mode) & 07777U),
                 "chmod 0700 " + folder_};
  }
  if (IsNetworkFileSystem(folder_)) {
    return Error{4003, folder_ + " lies on a network file system", "use a local disk"};
  }
  return Ok();
}

Status Storage::CheckFormat() const {
  const std::string path = Path("FORMAT");
  if (!Exists(path)) return NotThere(folder_);
  SKEP_ASSIGN(const Bytes content, ReadFile(path, kLongestFormat, 4004));
  std::string_view text = AsText(content);
  int version = 0;
  if (text.starts_with(kFormatPrefix)) text.remove_prefix(kFormatPrefix.size());
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), version);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (failure != std::errc() || version < 1 || rest != "\n") {
    return Error{4004, path + " is not that of a storage folder", ""};
  }
  if (version > kStorageVersion) {
    return Error{
        4012,
        fmt::format("{} has version {}, this program reads {}", folder_, version, kStorageVersion),
        "use the newer program"};
  }
  return Ok();
}

Status Storage::Lock() {
  const std::string path = Path("lock");
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (lock_ < 0) return Error{4001, "cannot open " + path + ": " + SystemReason(errno), ""};
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(std::exchange(lock_, -1));
    const auto holder = LockedBy();
    return Error{4002,
                 folder_ + " is in use" +
                     (holder ? " by process " + std::to_string(*holder) : std::string()),
                 "stop that process, or give each its own folder"};
  }
  // Who has it, for people; the lock itself is the system's.
  const std::string holder = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock_, 0) != 0 ||
      ::pwrite(lock_, holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
    return Error{4001, "cannot write " + path + ": " + SystemReason(errno), ""};
  }
  return Ok();
}

std::optional<int> Storage::LockedBy() const {
  const std::string path = Path("lock");
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 || is_locked()) {
    if (file >= 0) ::close(file);
    return std::nullopt;
  }
  const bool is_free = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  std::array<char, 32> text{};
  const ssize_t length = is_free ? 0 : ::pread(file, text.data(), text.size(), 0);
  ::close(file);
  int process = 0;
  if (length > 0) std::from_chars(text.data(), text.data() + length, process);
  return process > 0 ? std::optional<int>(process) : std::nullopt;
}

std::uint64_t Storage::BytesUsed() const {
  return BytesIn(folder_);
}

std::uint64_t Storage::BytesFree() const {
  std::error_code failure;
  const fs::space_info space = fs::space(folder_, failure);
  return failure ? 0 : static_cast<std::uint64_t>(space.available);
}

}  // namespace skep::agent
