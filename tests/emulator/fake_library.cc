// A libskep-cuda.so for tests: its only device, cuda:0, is a HostDevice.
//
// Loaded by programs that a test has copied beside it. SKEP_FAKE_DEVICE_FAILS_AT=N in the
// environment makes the N-th call of the device fail, and all later ones.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "kernels/cuda/runtime/library.h"
#include "tests/emulator/host_device.h"

extern "C" {

const char* skep_cuda_version() {
  return skep::kernels::kLibraryVersion;
}

int skep_cuda_open(int ordinal, skep::kernels::DeviceApi** device, char* message,
                   std::size_t bytes) {
  if (ordinal != 0) {
    std::snprintf(message, bytes, "cannot use cuda:%d: there are 1 devices", ordinal);
    return 7201;
  }
  skep::emulator::HostDevice::Options options;
  const char* fails_at = std::getenv("SKEP_FAKE_DEVICE_FAILS_AT");
  if (fails_at != nullptr) options.fail_at = std::strtoull(fails_at, nullptr, 10);
  *device = std::make_unique<skep::emulator::HostDevice>(options).release();
  return 0;
}
}
