// OpenDevice: the device of this machine, through libskep-cuda.so.
//
// The library is looked for beside the program (or library) that this code is in, nowhere else, so
// that no path of the environment can bring in other code. It stays loaded until the process ends.
// Any thread. Errors: SKEP-7201 (no library, another version, no device of that number; says which
// file was looked for), 7202, 7203.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/device_api.h"
#include "shared/base/result.h"

namespace skep::kernels {

// Where computation goes.
struct DeviceChoice {
  enum class Kind { kAuto, kCpu, kCuda } kind = Kind::kAuto;
  int ordinal = 0;
};

// "auto", "cpu", "cuda" (the first), "cuda:N". SKEP-1102.
[[nodiscard]] Result<DeviceChoice> ParseDevice(const std::string& text);

[[nodiscard]] Result<std::unique_ptr<DeviceApi>> OpenDevice(int ordinal);

// The device of the choice, or null for the CPU: asked for, or because "auto" finds nothing else.
// `said` then says what is used and why, a sentence without its full stop: "CPU: no libskep-cuda.so
// beside the program". Errors: those of OpenDevice for kCuda.
struct ChosenDevice {
  std::unique_ptr<DeviceApi> device;
  std::string said;
};
[[nodiscard]] Result<ChosenDevice> ChooseDevice(const DeviceChoice& choice);

}  // namespace skep::kernels
