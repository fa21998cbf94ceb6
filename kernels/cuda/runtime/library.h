// What libskep-cuda.so exports: found by name after it was loaded, never linked.
//
// Both sides are built together; a library of another build is refused by its version.
#pragma once

#include <cstddef>

#include "kernels/cuda/device_api.h"

namespace skep::kernels {

inline constexpr const char* kLibraryName = "libskep-cuda.so";
// Of the interface, the kernels' order and their arguments; raised with any of them.
inline constexpr const char* kLibraryVersion = "skep-cuda 1 " SKEP_VERSION;

using LibraryVersionFunction = const char* (*)();
// 0 and `*device`, which the caller deletes before the library is unloaded; else an error's number
// and its text.
using LibraryOpenFunction = int (*)(int ordinal, DeviceApi** device, char* message,
                                    std::size_t bytes);

}  // namespace skep::kernels
