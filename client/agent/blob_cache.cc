#include "client/agent/blob_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/sha256.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "cache";
constexpr std::string_view kPart = ".part";
constexpr std::int64_t kNanoseconds = 1'000'000'000;
constexpr std::size_t kLargestWrite = std::size_t{1} << 30U;

std::string PartOf(const Hash32& blob) {
  return blob.Hex() + std::string(kPart);
}

bool IsPart(std::string_view name) {
  return name.ends_with(kPart);
}

// A name that this cache gives; upper-case digits are not.
bool IsName(std::string_view name) {
  if (IsPart(name)) name.remove_suffix(kPart.size());
  const auto blob = Hash32::FromHexText(name);
  return blob && blob->Hex() == name;
}

// Facts of a regular file; nothing for links and whatever else.
std::optional<struct stat> FileAt(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return facts;
}

std::uint64_t SizeAt(const std::string& path) {
  const auto facts = FileAt(path);
  return facts ? static_cast<std::uint64_t>(facts->st_size) : 0;
}

std::int64_t UsedAt(const struct stat& facts) {
  return facts.st_mtim.tv_sec * kNanoseconds + facts.st_mtim.tv_nsec;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  Result<std::vector<std::string>> names = ListFolder(folder);
  return names.has_value() ? std::move(names).value() : std::vector<std::string>();
}

// All of it, at the end of what is there.
bool AppendTo(const std::string& path, BytesView bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                          S_IRUSR | S_IWUSR);
  if (file < 0) return false;
  bool is_well = true;
  while (is_well && !bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kLargestWrite));
    is_well = written > 0 || (written < 0 && errno == EINTR);
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ::close(file) == 0 && is_well;
}

}  // namespace

std::string BlobCache::PathOf(const std::string& name) const {
  return storage_.Path(std::string(kFolder) + "/" + name);
}

// A link in its place would lead out of the storage folder.
bool BlobCache::HasFolder() const {
  const std::string folder = storage_.Path(kFolder);
  struct stat facts {};
  return MakePrivateFolder(folder).has_value() && ::lstat(folder.c_str(), &facts) == 0 &&
         S_ISDIR(facts.st_mode);
}

// Oldest use first; equal ones by name.
std::vector<BlobCache::File> BlobCache::Files() const {
  std::vector<File> files;
  for (std::string& name : NamesIn(storage_.Path(kFolder))) {
    const auto facts = FileAt(PathOf(name));
    if (!facts || !IsName(name)) continue;
    files.push_back({std::move(name), static_cast<std::uint64_t>(facts->st_size), UsedAt(*facts)});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used, std::string_view(a.name)) <
           std::pair(b.used, std::string_view(b.name));
  });
  return files;
}

// What other versions put there, and what is no file.
void BlobCache::RemoveStrangers() const {
  for (const std::string& name : NamesIn(storage_.Path(kFolder))) {
    if (!IsName(name) || !FileAt(PathOf(name))) (void)RemoveWithContent(PathOf(name));
  }
}

void BlobCache::DropPartsBut(const std::string& kept) const {
  for (const File& file : Files()) {
    if (IsPart(file.name) && file.name != kept) ::unlink(PathOf(file.name).c_str());
  }
}

// For `more` bytes in the file `kept`, which itself stays.
bool BlobCache::MakeRoom(const std::string& kept, std::uint64_t more) const {
  const std::uint64_t limit = limit_();
  const std::vector<File> files = Files();
  std::uint64_t sum = 0;
  std::uint64_t own = 0;
  for (const File& file : files) {
    sum += file.size;
    if (file.name == kept) own = file.size;
  }
  // Then the others need not go in vain.
  if (own > limit || more > limit - own) return false;
  for (const File& file : files) {
    if (sum + more <= limit && more < storage_.BytesFree()) return true;
    if (file.name == kept || ::unlink(PathOf(file.name).c_str()) != 0) continue;
    sum -= file.size;
  }
  return sum + more <= limit && more < storage_.BytesFree();
}

// Later than all others, also where the clock went back, or stood still between two uses.
void BlobCache::Touch(const std::string& name) const {
  std::int64_t now = static_cast<std::int64_t>(ReadClock().wall) * (kNanoseconds / 1000);
  for (const File& file : Files()) {
    if (file.name != name) now = std::max(now, file.used + 1);
  }
  struct timespec stamp {};
  stamp.tv_sec = now / kNanoseconds;
  stamp.tv_nsec = now % kNanoseconds;
  const struct timespec both[] = {stamp, stamp};
  (void)::utimensat(AT_FDCWD, PathOf(name).c_str(), both, AT_SYMLINK_NOFOLLOW);
}

std::uint64_t BlobCache::Held(const Hash32& blob) const {
  const std::uint64_t size = SizeAt(PathOf(PartOf(blob)));
  return size <= limit_() ? size : 0;
}

Bytes BlobCache::Load(const Hash32& blob) const {
  const std::string path = PathOf(PartOf(blob));
  if (!FileAt(path)) return {};
  Result<Bytes> bytes = ReadFile(path, limit_(), 4001);
  return bytes.has_value() ? std::move(bytes).value() : Bytes();
}

void BlobCache::Append(const Hash32& blob, std::uint64_t offset, BytesView bytes) {
  if (!HasFolder()) return;
  const std::string name = PartOf(blob);
  const std::string path = PathOf(name);
  RemoveStrangers();
  DropPartsBut(name);
  if (offset == 0) ::unlink(path.c_str());
  const bool is_kept =
      SizeAt(path) == offset && MakeRoom(name, bytes.size()) && AppendTo(path, bytes);
  if (is_kept) {
    Touch(name);
  } else {
    ::unlink(path.c_str());
  }
}

void BlobCache::Complete(const Hash32& blob, BytesView bytes) {
  if (!HasFolder()) return;
  const std::string name = PartOf(blob);
  const std::string path = PathOf(name);
  RemoveStrangers();
  if (SizeAt(path) > bytes.size()) ::unlink(path.c_str());
  const BytesView rest = bytes.subspan(static_cast<std::size_t>(SizeAt(path)));
  const bool is_kept = MakeRoom(name, rest.size()) && AppendTo(path, rest) &&
                       ::rename(path.c_str(), PathOf(blob.Hex()).c_str()) == 0;
  if (is_kept) {
    Touch(blob.Hex());
  } else {
    ::unlink(path.c_str());
  }
}

Result<std::optional<Bytes>> BlobCache::Find(const Hash32& blob) {
  const std::string name = blob.Hex();
  const std::string path = PathOf(name);
  const auto facts = FileAt(path);
  const std::uint64_t limit = limit_();
  if (!facts || static_cast<std::uint64_t>(facts->st_size) > limit) return std::optional<Bytes>();
  Result<Bytes> bytes = ReadFile(path, limit, 4010);
  if (bytes.has_value() && Sha256::Of(*bytes) == blob) {
    Touch(name);
    return std::optional<Bytes>(std::move(bytes).value());
  }
  (void)::unlink(path.c_str());
  const std::string why = bytes.has_value() ? "" : ": " + bytes.error().message;
  return Error{4010, path + " was damaged and is removed" + why, "nothing: it is downloaded again"};
}

void BlobCache::ShrinkTo(std::uint64_t most) {
  const std::vector<File> files = Files();
  std::uint64_t sum = 0;
  for (const File& file : files) sum += file.size;
  for (const File& file : files) {
    if (sum <= most) return;
    if (::unlink(PathOf(file.name).c_str()) == 0) sum -= file.size;
  }
}

void BlobCache::DropParts() {
  DropPartsBut("");
}

}  // namespace skep::agent
