#include "simulator/network_folder.h"

#include <sys/vfs.h>

#include <cstdint>
#include <filesystem>

namespace skep::simulator {

bool IsOnNetworkFolder(const std::string& path) {
  constexpr std::uint64_t kNfs = 0x6969;
  constexpr std::uint64_t kSmb = 0x517B;
  constexpr std::uint64_t kSmb2 = 0xFE534D42;
  constexpr std::uint64_t kCifs = 0xFF534D42;
  constexpr std::uint64_t kFuse = 0x65735546;
  struct statfs info {};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::statfs(folder.empty() ? "." : folder.c_str(), &info) != 0) return false;
  const auto type = static_cast<std::uint64_t>(info.f_type) & 0xFFFFFFFFU;
  return type == kNfs || type == kSmb || type == kSmb2 || type == kCifs || type == kFuse;
}

}  // namespace skep::simulator
