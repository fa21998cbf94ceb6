#include "client/agent/model_part.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "shared/base/file.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "cache";

void RemoveAllBut(const std::string& folder, const std::string& kept) {
  std::vector<std::string> others;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().string() != kept) others.push_back(at->path().string());
  }
  for (const std::string& path : others) ::unlink(path.c_str());
}

// All of it at the end of a file that has `offset` bytes.
bool AppendAt(const std::string& path, std::uint64_t offset, BytesView bytes) {
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return false;
  struct stat facts {};
  const bool fits =
      ::fstat(file, &facts) == 0 && static_cast<std::uint64_t>(facts.st_size) == offset;
  const bool is_written =
      fits && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(file);
  return is_written;
}

}  // namespace

std::string ModelPart::PathOf(const Hash32& model) const {
  return storage_.Path(std::string(kFolder) + "/" + model.Hex() + ".part");
}

std::uint64_t ModelPart::Held(const Hash32& model) const {
  struct stat facts {};
  if (::lstat(PathOf(model).c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return 0;
  return static_cast<std::uint64_t>(facts.st_size);
}

Bytes ModelPart::Load(const Hash32& model) const {
  Result<Bytes> bytes = ReadFile(PathOf(model), limit_, 4001);
  return bytes.has_value() ? std::move(bytes).value() : Bytes();
}

void ModelPart::Append(const Hash32& model, std::uint64_t offset, BytesView bytes) {
  const std::string path = PathOf(model);
  if (!MakePrivateFolder(storage_.Path(kFolder)).has_value()) return;
  RemoveAllBut(storage_.Path(kFolder), path);
  const bool has_room = offset + bytes.size() <= limit_ && bytes.size() < storage_.BytesFree();
  // A part of it would be taken for more than it is.
  if (!has_room || !AppendAt(path, offset, bytes)) ::unlink(path.c_str());
}

void ModelPart::Drop() {
  RemoveAllBut(storage_.Path(kFolder), "");
}

}  // namespace skep::agent
