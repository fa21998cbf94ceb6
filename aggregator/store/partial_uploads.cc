#include "aggregator/store/partial_uploads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

namespace fs = std::filesystem;

// The file: "SKPU", version, what the body is for, CRC32C of that; then records of a length, the
// CRC32C of the data, the data. Little-endian.
constexpr std::uint32_t kMagic = 0x55504B53;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 100;
constexpr std::size_t kRecordHead = 8;
constexpr std::string_view kEnding = ".part";
constexpr std::uint64_t kLongestAgeS = 24 * 3600;

Bytes HeaderOf(const wire::UploadBegin& begin) {
  Bytes header;
  header.reserve(kHeaderBytes);
  AppendLittle(header, kMagic);
  AppendLittle(header, kVersion);
  Append(header, begin.task.run_id.view());
  AppendLittle(header, begin.task.round);
  AppendLittle(header, begin.task.attempt);
  AppendLittle(header, static_cast<std::uint32_t>(begin.task.kind));
  Append(header, begin.update_id.view());
  Append(header, begin.sha256.view());
  AppendLittle(header, begin.size);
  AppendLittle(header, static_cast<std::uint32_t>(begin.encoding));
  AppendLittle(header, Crc32c(header));
  return header;
}

bool IsHeader(BytesView file) {
  if (file.size() < kHeaderBytes) return false;
  constexpr std::size_t kChecked = kHeaderBytes - 4;
  return LoadLittle<std::uint32_t>(file.data()) == kMagic &&
         LoadLittle<std::uint32_t>(file.data() + 4) == kVersion &&
         LoadLittle<std::uint32_t>(file.data() + kChecked) == Crc32c(file.first(kChecked));
}

AttemptKey AttemptOf(BytesView header) {
  AttemptKey key;
  std::copy_n(header.begin() + 8, RunId::kBytes, key.run.bytes.begin());
  key.round = LoadLittle<std::uint32_t>(header.data() + 24);
  key.attempt = LoadLittle<std::uint32_t>(header.data() + 28);
  key.kind = static_cast<TaskKind>(LoadLittle<std::uint32_t>(header.data() + 32));
  return key;
}

std::uint64_t SizeOf(BytesView header) {
  return LoadLittle<std::uint64_t>(header.data() + 84);
}

// The data of the whole records at the beginning; stops at the first that is not sound.
Bytes BodyOf(BytesView file) {
  const std::uint64_t most = SizeOf(file);
  BytesView rest = file.subspan(kHeaderBytes);
  Bytes body;
  while (rest.size() > kRecordHead) {
    const auto length = LoadLittle<std::uint32_t>(rest.data());
    const auto crc = LoadLittle<std::uint32_t>(rest.data() + 4);
    rest = rest.subspan(kRecordHead);
    if (length > rest.size() || length > most - body.size()) break;
    const BytesView data = rest.first(length);
    if (Crc32c(data) != crc) break;
    Append(body, data);
    rest = rest.subspan(length);
  }
  return body;
}

std::optional<DeviceId> DeviceOf(const fs::path& path) {
  if (path.extension() != kEnding) return std::nullopt;
  return DeviceId::FromHexText(path.stem().string());
}

bool IsOld(const std::string& path, WallMs now) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return true;
  return now / 1000 > static_cast<std::uint64_t>(status.st_mtime) + kLongestAgeS;
}

}  // namespace

PartialUploads::PartialUploads(std::string folder, std::uint64_t limit)
    : folder_(std::move(folder)), limit_(limit) {}

std::string PartialUploads::PathOf(const DeviceId& device) const {
  return folder_ + "/" + device.Hex() + std::string(kEnding);
}

Result<std::vector<PartialUploads::Kept>> PartialUploads::Open(WallMs now) {
  SKEP_TRY(MakePrivateFolder(folder_));
  std::vector<Kept> kept;
  std::vector<std::string> useless;
  std::error_code failure;
  for (fs::directory_iterator at(folder_, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string path = at->path().string();
    const std::optional<DeviceId> device = DeviceOf(at->path());
    const Result<Bytes> file = ReadFile(path, limit_, 4001);
    if (!device || IsOld(path, now) || !file.has_value() || !IsHeader(*file)) {
      useless.push_back(path);
      continue;
    }
    const std::uint64_t held = BodyOf(*file).size();
    files_[*device] = {.held = held, .size = file->size()};
    total_ += file->size();
    kept.push_back({.device = *device, .attempt = AttemptOf(*file), .bytes = held});
  }
  for (const std::string& path : useless) SKEP_TRY(RemoveWithContent(path));
  return kept;
}

// All or nothing: after a part of it the file would not end where it is said to.
bool PartialUploads::Write(const DeviceId& device, File& file, BytesView head, BytesView bytes) {
  const std::size_t size = head.size() + bytes.size();
  if (total_ + size > limit_) return false;
  const int descriptor =
      ::open(PathOf(device).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return false;
  // const_cast: the system's structure serves reading, too.
  const std::array<iovec, 2> parts{iovec{const_cast<std::uint8_t*>(head.data()), head.size()},
                                   iovec{const_cast<std::uint8_t*>(bytes.data()), bytes.size()}};
  const ssize_t written = ::writev(descriptor, parts.data(), static_cast<int>(parts.size()));
  ::close(descriptor);
  if (written != static_cast<ssize_t>(size)) return false;
  file.size += size;
  total_ += size;
  return true;
}

bool PartialUploads::Append(const DeviceId& device, const wire::UploadBegin& begin,
                            std::uint64_t offset, BytesView bytes) {
  if (offset == 0) Drop(device);
  Bytes head = offset == 0 ? HeaderOf(begin) : Bytes();
  AppendLittle(head, static_cast<std::uint32_t>(bytes.size()));
  AppendLittle(head, Crc32c(bytes));
  File& file = files_[device];
  if (file.held != offset || !Write(device, file, head, bytes)) {
    Drop(device);
    return false;
  }
  file.held += bytes.size();
  return true;
}

Bytes PartialUploads::Load(const DeviceId& device, const wire::UploadBegin& begin) const {
  if (files_.count(device) == 0) return {};
  const Result<Bytes> file = ReadFile(PathOf(device), limit_, 4001);
  if (!file.has_value() || !IsHeader(*file)) return {};
  const Bytes header = HeaderOf(begin);
  if (!std::equal(header.begin(), header.end(), file->begin())) return {};
  return BodyOf(*file);
}

void PartialUploads::Drop(const DeviceId& device) {
  const auto found = files_.find(device);
  if (found == files_.end()) return;
  total_ -= found->second.size;
  files_.erase(found);
  // Not synced: a file that comes back after a power cut is as good as any other.
  ::unlink(PathOf(device).c_str());
}

}  // namespace skep::aggregator
