// Storage: the folder in which a device keeps its identity, what it has seen, and unsent work.
//
// Says which folder is fit for that and who may use it; what the files hold is identity.h,
// state.h, work.h and history.h. One process works in a folder at a time; `status` and `doctor`
// may look at any time, since files are replaced whole. A value that moves; one thread.
// Source: Skep client library, section 8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shared/base/result.h"

namespace skep::agent {

inline constexpr int kStorageVersion = 1;

class Storage {
 public:
  // Makes the folder if it is missing, and takes its lock. Errors are those of Open; SKEP-4004 also
  // for a folder that holds other things.
  [[nodiscard]] static Result<Storage> Create(const std::string& folder);
  // Takes the lock of a folder that was made before. SKEP-4002 another process has it; SKEP-4003 a
  // network file system; SKEP-4004 missing, of another user, or open to others; SKEP-4012 written
  // by a newer version; SKEP-4001 the system's refusal.
  [[nodiscard]] static Result<Storage> Open(const std::string& folder);
  // The same without the lock: to read only.
  [[nodiscard]] static Result<Storage> Look(const std::string& folder);

  ~Storage();
  Storage(Storage&& other) noexcept;
  Storage& operator=(Storage&& other) noexcept;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] bool is_locked() const { return lock_ >= 0; }
  // The process that has the lock, if another one does.
  [[nodiscard]] std::optional<int> LockedBy() const;

  // Sum of the sizes of all files, and what the file system has left for this user.
  [[nodiscard]] std::uint64_t BytesUsed() const;
  [[nodiscard]] std::uint64_t BytesFree() const;

 private:
  explicit Storage(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] Status Check() const;
  [[nodiscard]] Status CheckFormat() const;
  [[nodiscard]] Status Lock();

  std::string folder_;
  int lock_ = -1;
};

}  // namespace skep::agent
