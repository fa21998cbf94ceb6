#include "shared/model/free_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace skep::model {
namespace {

// How a version of control groups names what it says.
struct GroupFiles {
  const char* folder;  // where the tree is mounted
  const char* limit;
  const char* used;
  std::string_view droppable;  // in memory.stat: file pages not used lately
};
constexpr GroupFiles kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_inactive_file"};

// A file of the kernel has no size, so it is not one for ReadFile. Nothing for "max" and for a file
// that is not there.
std::optional<std::uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

// The number after `name` in a file of names and numbers.
std::optional<std::uint64_t> NumberAfter(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    std::uint64_t number = 0;
    if (word == name && file >> number) return number;
  }
  return std::nullopt;
}

// What one group leaves; nothing without a limit.
std::optional<std::uint64_t> LeftIn(const std::string& folder, const GroupFiles& files) {
  const auto limit = NumberIn(folder + "/" + files.limit);
  if (!limit) return std::nullopt;
  const std::uint64_t used = NumberIn(folder + "/" + files.used).value_or(0);
  const std::uint64_t droppable =
      std::min(used, NumberAfter(folder + "/memory.stat", files.droppable).value_or(0));
  return *limit - std::min(*limit, used - droppable);
}

// Of the group and all above it. A container may see its own group as the root while /proc names
// it as the host does: what is not there says nothing.
std::uint64_t LeftBelow(const std::string& root, std::string group, const GroupFiles& files) {
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  while (true) {
    const std::string folder = root + files.folder + group;
    left = std::min(left, LeftIn(folder, files).value_or(left));
    if (group.empty()) return left;
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
}

// "0::/path" of version 2, "4:cpu,memory:/path" of version 1.
std::uint64_t LeftByGroups(const std::string& root) {
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group.find("..") != std::string::npos) continue;  // outside what this process sees
    if (group == "/") group.clear();
    if (controllers == ",,") left = std::min(left, LeftBelow(root, group, kVersion2));
    if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, LeftBelow(root, group, kVersion1));
    }
  }
  return left;
}

// "3.0 GiB".
std::string BinaryText(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes)
                   : fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

}  // namespace

std::uint64_t FreeMemory(const std::string& root) {
  const std::uint64_t groups = LeftByGroups(root);
  const auto machine = NumberAfter(root + "/proc/meminfo", "MemAvailable:");
  constexpr std::uint64_t kKib = 1024;
  const bool has_limit = groups != std::numeric_limits<std::uint64_t>::max();
  if (!machine && !has_limit) return 0;
  // Nothing left is not the same as nothing known.
  return std::max<std::uint64_t>(1, std::min(groups, machine ? *machine * kKib : groups));
}

Status CheckFits(std::uint64_t bytes, std::uint64_t free, const std::string& what,
                 const std::string& hint) {
  const auto share = static_cast<std::uint64_t>(kShareOfFreeMemory * static_cast<double>(free));
  if (free == 0 || bytes <= share) return Ok();
  return Error{1401,
               fmt::format("{} needs {}; {:.0f} % of the free memory is {}", what,
                           BinaryText(bytes), 100 * kShareOfFreeMemory, BinaryText(share)),
               hint};
}

}  // namespace skep::model
