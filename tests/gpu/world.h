// World: a model, made-up data and clients that train on it: in lanes of a device, or one after the
// other on the CPU.
//
// One thread. For the stages of gpu_check.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/lane_network.h"
#include "kernels/nn/network.h"
#include "shared/base/result.h"
#include "shared/model/model_spec.h"

namespace skep::gpu {

using Models = std::vector<std::vector<float>>;  // parameters, a lane

// What every lane does: `steps` batches of `rows`; the last one of every second client is not full.
struct Task {
  std::uint32_t first = 0;  // lane l holds client first + l
  std::uint32_t lanes = 1;
  std::uint32_t rows = 1;
  std::uint32_t steps = 1;
  kernels::OptimiserStep step;
};

class World {
 public:
  World(std::string name, model::ModelSpec spec);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }
  // Where each of these clients starts if nobody says otherwise: no two at the same place.
  [[nodiscard]] std::vector<float> Start(std::uint32_t client) const;
  [[nodiscard]] Models StartsOf(const Task& task) const;

  struct Measured {
    double seconds = 0;  // of the steps, uploads of their order included
  };
  // From `models` and to them. The first epoch captures the step and is not measured if `repeats`:
  // the same task is then done again from what it left.
  [[nodiscard]] Result<Measured> OnDevice(kernels::DeviceApi& device, const Task& task,
                                          Models& models, bool repeats = false) const;
  void OnHost(const Task& task, Models& models) const;

 private:
  [[nodiscard]] static std::uint32_t ExampleOf(const Task& task, std::uint32_t lane,
                                               std::uint32_t step, std::uint32_t row);

  std::string name_;
  model::ModelSpec spec_;
  std::vector<float> x_;
  std::vector<std::int32_t> labels_;
};

// Every named architecture: as it is, or a small one of its kind for the fake device.
[[nodiscard]] std::vector<World> NamedWorlds(bool small);
// The one of that name.
[[nodiscard]] World WorldOf(const std::string& name, bool small);

}  // namespace skep::gpu
