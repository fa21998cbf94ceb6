// Den: the surroundings that a program under check sees: a user and mount namespace in which the
// root is read-only but for the folder of its storage, writes to the usual places are caught in a
// layer above them, and /sys/class/power_supply and the disk are the check's own.
//
// A process of its own holds the namespaces; programs enter them (child.h). Where the system does
// not allow them the den is open: programs see the machine as it is, and WhyOpen says why. Linux
// only. One thread. Source: user_namespaces(7), mount_namespaces(7), Linux overlayfs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace skep::conform {

struct DenOptions {
  std::string disk;                 // the folder of the storage; stays writable
  std::string scratch;              // an empty folder of the den's own
  std::string power;                // in place of /sys/class/power_supply; empty: the machine's
  std::uint64_t disk_bytes = 0;     // a disk of that size in its place; 0: the machine's
  std::vector<std::string> caught;  // folders in which writes are caught, outer ones first
};

class Den {
 public:
  // Never fails for what the system does not allow: the den is open then. SKEP-5205 if no process
  // can be started.
  [[nodiscard]] static Result<std::unique_ptr<Den>> Make(const DenOptions& options);
  ~Den();
  Den(const Den&) = delete;
  Den& operator=(const Den&) = delete;

  // Why the namespaces are not there, or empty.
  [[nodiscard]] const std::string& WhyOpen() const { return why_open_; }
  [[nodiscard]] bool is_open() const { return !why_open_.empty(); }
  // A path as programs in the den see it, for this process.
  [[nodiscard]] std::string Inside(const std::string& path) const;
  // What was written where writes are caught; paths as the programs see them.
  [[nodiscard]] std::vector<std::string> Written() const;
  // Of the namespaces, for a child to enter; -1 if open.
  [[nodiscard]] int user_namespace() const { return user_; }
  [[nodiscard]] int mount_namespace() const { return mount_; }

 private:
  Den() = default;

  pid_t holder_ = -1;
  int user_ = -1;
  int mount_ = -1;
  int scratch_descriptor_ = -1;  // in the holder
  std::string why_open_;
  std::vector<std::string> caught_;  // those that have a layer above them, by its number
};

}  // namespace skep::conform
