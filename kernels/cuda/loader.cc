#include "kernels/cuda/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <string_view>
#include <utility>

#include "kernels/cuda/runtime/library.h"

namespace skep::kernels {
namespace {

constexpr std::size_t kMostMessage = 512;

// The folder of the file that holds this code.
std::string OwnFolder() {
  std::array<char, PATH_MAX> path{};
  Dl_info info{};
  const bool is_library = dladdr(reinterpret_cast<const void*>(&OpenDevice), &info) != 0 &&
                          std::string_view(info.dli_fname).find(".so") != std::string_view::npos;
  if (is_library && realpath(info.dli_fname, path.data()) == nullptr) return "";
  if (!is_library && readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "";
  std::string folder = path.data();
  folder.resize(folder.rfind('/') + 1);
  return folder;
}

Error NoDevice(const std::string& why) {
  return Error{7201, "no CUDA device: " + why, "use device = \"cpu\" or \"auto\""};
}

}  // namespace

Result<DeviceChoice> ParseDevice(const std::string& text) {
  if (text == "auto") return DeviceChoice{};
  if (text == "cpu") return DeviceChoice{DeviceChoice::Kind::kCpu, 0};
  if (text == "cuda") return DeviceChoice{DeviceChoice::Kind::kCuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  constexpr int kMostDevices = 1024;
  if (text.starts_with(kPrefix)) {
    int ordinal = -1;
    const char* end = text.data() + text.size();
    const auto [at, failure] = std::from_chars(text.data() + kPrefix.size(), end, ordinal);
    if (failure == std::errc() && at == end && ordinal >= 0 && ordinal < kMostDevices) {
      return DeviceChoice{DeviceChoice::Kind::kCuda, ordinal};
    }
  }
  return Error{1102, "device \"" + text + "\" is none of auto, cpu, cuda, cuda:N", ""};
}

Result<std::unique_ptr<DeviceApi>> OpenDevice(int ordinal) {
  const std::string path = OwnFolder() + kLibraryName;
  if (access(path.c_str(), R_OK) != 0) return NoDevice("there is no " + path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return NoDevice(why == nullptr ? path : why);
  }
  const auto version =
      reinterpret_cast<LibraryVersionFunction>(dlsym(library, "skep_cuda_version"));
  const auto open = reinterpret_cast<LibraryOpenFunction>(dlsym(library, "skep_cuda_open"));
  if (version == nullptr || open == nullptr || std::string_view(version()) != kLibraryVersion) {
    return NoDevice(path + " is of another version; install both from one package");
  }
  DeviceApi* device = nullptr;
  std::array<char, kMostMessage> message{};
  const int code = open(ordinal, &device, message.data(), message.size());
  if (code != 0) return Error{code, message.data(), "use device = \"cpu\" or \"auto\""};
  return std::unique_ptr<DeviceApi>(device);
}

Result<ChosenDevice> ChooseDevice(const DeviceChoice& choice) {
  if (choice.kind == DeviceChoice::Kind::kCpu) return ChosenDevice{nullptr, "CPU: asked for"};
  Result<std::unique_ptr<DeviceApi>> opened = OpenDevice(choice.ordinal);
  if (!opened && choice.kind == DeviceChoice::Kind::kAuto) {
    return ChosenDevice{nullptr, "CPU: " + opened.error().message};
  }
  if (!opened) return std::move(opened).error();
  Result<DeviceInfo> info = (*opened)->Info();
  if (!info) return std::move(info).error();
  return ChosenDevice{std::move(*opened),
                      "cuda:" + std::to_string(choice.ordinal) + ", " + info->name};
}

}  // namespace skep::kernels
