// A few clients with data of their own, trained in lanes of the emulated device or one after the
// other on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/lane_network.h"
#include "kernels/nn/network.h"
#include "shared/base/result.h"

namespace skep::kernels::test {

struct Trained {
  std::vector<std::vector<float>> params;  // a lane
  std::vector<double> losses;              // of the last epoch
  std::vector<std::string> faults;
  std::vector<std::string> leaks;
  std::optional<Error> error;
  std::uint64_t calls = 0;
  std::uint64_t allocations_after_first_epoch = 0;
};

double LargestDifference(const std::vector<std::vector<float>>& a,
                         const std::vector<std::vector<float>>& b);
double LargestDifference(const std::vector<double>& a, const std::vector<double>& b);

struct LaneModel {
  std::vector<std::uint32_t> input;
  std::vector<std::string> lines;
  // Normalises two numbers at times, which is a step: where they are nearly equal, the last bit
  // decides. Of many clients some come to such a place.
  bool is_steep = false;
};
// Small models that together have every kind of layer in each of its forms.
std::vector<LaneModel> EveryLayer();

class LaneWorld {
 public:
  LaneWorld(std::vector<std::uint32_t> input, std::vector<std::string> lines,
            LossKind loss = LossKind::kSoftmaxCrossEntropy);

  // Two epochs of client `lane` in each lane; clients of `resting` have no examples. The n-th call
  // of the device fails.
  [[nodiscard]] Trained OnDevice(std::uint32_t lanes, const OptimiserStep& step,
                                 const std::set<std::uint32_t>& resting = {},
                                 std::optional<std::uint64_t> fail_at = std::nullopt) const;
  [[nodiscard]] Trained OnHost(std::uint32_t lanes, const OptimiserStep& step) const;

  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }
  // The parameters that client `lane` starts from.
  [[nodiscard]] std::vector<float> Start(std::uint32_t lane) const;

 private:
  // Client `lane` has 5 + lane mod 6 examples, batches of 4.
  [[nodiscard]] std::vector<std::uint32_t> ExamplesOf(std::uint32_t lane) const;
  [[nodiscard]] static std::uint64_t KeyOf(std::uint32_t lane, std::uint32_t step);

  model::ModelSpec spec_;
  LossKind loss_;
  std::vector<float> x_;
  std::vector<std::int32_t> labels_;
};

}  // namespace skep::kernels::test
