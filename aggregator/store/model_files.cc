#include "aggregator/store/model_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

namespace fs = std::filesystem;

Status SyncFolder(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool is_synced = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (is_synced) return Ok();
  return Error{4005, "cannot sync " + folder + ": " + SystemReason(error), "check the disk"};
}

// A new folder is there after a power cut only once its parent is synced.
Status MakeFolder(const std::string& folder, const std::string& parent) {
  if (::mkdir(folder.c_str(), 0700) == 0) return SyncFolder(parent);
  if (errno == EEXIST) return Ok();
  return Error{4001, "cannot make " + folder + ": " + SystemReason(errno), ""};
}

}  // namespace

std::string ModelFiles::FolderOf(const Hash32& hash) const {
  return folder_ + "/" + hash.Hex().substr(0, 2);
}

std::string ModelFiles::PathOf(const Hash32& hash) const {
  return FolderOf(hash) + "/" + hash.Hex() + ".bin";
}

Status ModelFiles::Put(const Hash32& hash, BytesView bytes) const {
  if (Sha256::Of(bytes) != hash) return Error{4008, "the model has another hash", ""};
  if (const auto size = Size(hash); size && *size == bytes.size()) return Ok();
  SKEP_TRY(MakeFolder(folder_, fs::path(folder_).parent_path().string()));
  SKEP_TRY(MakeFolder(FolderOf(hash), folder_));
  Status written = WriteFileAtomically(PathOf(hash), bytes);
  if (written || !Size(hash)) return written;
  // In place, but its folder was not synced: tried again, it would pass for durable.
  return Error{4005, written.error().message, "check the disk"};
}

Result<Bytes> ModelFiles::Get(const Hash32& hash) const {
  SKEP_ASSIGN(Bytes bytes, ReadFile(PathOf(hash), std::numeric_limits<std::uint64_t>::max(), 4008));
  if (Sha256::Of(bytes) != hash) {
    return Error{4008, PathOf(hash) + " was altered: its hash is another", "restore a backup"};
  }
  return bytes;
}

Result<std::uint64_t> ModelFiles::Size(const Hash32& hash) const {
  struct stat facts {};
  if (::stat(PathOf(hash).c_str(), &facts) != 0) {
    return Error{4008, PathOf(hash) + " is missing", "restore a backup"};
  }
  return static_cast<std::uint64_t>(facts.st_size);
}

Status ModelFiles::RemoveOthers(const std::function<bool(const Hash32&)>& is_kept) const {
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::recursive_directory_iterator file(folder_, error), end; !error && file != end;
       file.increment(error)) {
    if (!file->is_regular_file(error)) continue;
    const auto hash = Hash32::FromHexText(file->path().stem().string());
    const bool is_unnamed = file->path().extension() == ".bin" && hash && !is_kept(*hash);
    if (is_unnamed || file->path().extension() == ".partial") others.push_back(file->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Error{4005, "cannot list " + folder_ + ": " + error.message(), "check the disk"};
  }
  for (const fs::path& path : others) {
    if (::unlink(path.c_str()) != 0) {
      return Error{4005, "cannot remove " + path.string() + ": " + SystemReason(errno), ""};
    }
  }
  return Ok();
}

}  // namespace skep::aggregator
