// Stages: what gpu_check asks of a device, each within a minute.
//
// operations  every kernel and form of product against references in double precision
// tf32        products that TF32 would get wrong, in every shape that the named architectures ask
// for lanes       each named architecture in 1, 7 and 64 lanes: equal to the bit parity      three
// rounds of federated averaging on the device and on the CPU timing      figures, no verdict but
// that they are finite
//
// A stage that is sound is evidence for this device only. One thread.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/device_api.h"
#include "shared/base/result.h"

namespace skep::gpu {

struct StageResult {
  bool is_sound = true;
  std::string json;  // an array of what was found, one object a thing that was tried
};

// `small`: for the fake device. SKEP-1102: no such stage; what the device says.
[[nodiscard]] Result<StageResult> RunStage(const std::string& name, kernels::DeviceApi& device,
                                           bool small);
[[nodiscard]] const std::vector<std::string>& StageNames();

}  // namespace skep::gpu
