// LaneNetwork: K clients that train one model on a device, in lock step.
//
// The same layers, loss and optimisers as kernels/nn/network.h, every operation with a lane
// dimension: one launch, or one batched product, for all clients. A step is captured once as a
// graph and launched as often as there are batches; examples lie on the device (LaneData), so
// nothing crosses to the host between the first and the last step of a task. A lane's parameters do
// not depend on the other lanes or on their number.
//
// For trainers. One thread. Everything is allocated by Make. Errors: SKEP-1401 (the memory budget
// does not suffice), 7202, 7203 (device_api.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/body/batch_body.h"
#include "kernels/cuda/arena.h"
#include "kernels/cuda/lane_data.h"
#include "kernels/cuda/lane_layer.h"
#include "kernels/cuda/queue.h"
#include "kernels/nn/loss.h"
#include "kernels/nn/network_plan.h"
#include "kernels/nn/optimiser.h"
#include "shared/model/model_spec.h"

namespace skep::kernels {

struct LaneLimits {
  std::uint32_t lanes = 1;
  std::uint32_t rows = 1;  // of a batch of one lane
  LossKind loss = LossKind::kSoftmaxCrossEntropy;
  OptimiserStep step;  // its rule, momentum and clipping decide what is kept
};

// In an order: no example here.
inline constexpr std::uint32_t kNoExample = body::kNoExample;

// One pass of all lanes over their batches.
struct LaneEpoch {
  const LaneData& data;
  std::uint32_t steps = 0;
  // [steps][lanes][rows]: examples; kNoExample where a lane has none, at the end of a batch
  // and in whole batches of clients that have fewer.
  std::span<const std::uint32_t> order;
  std::span<const std::uint64_t> keys;  // [steps][lanes]: step keys of Network::TrainStep
  OptimiserStep step;
  bool adds_losses = false;  // to those of the Train before, so that a pass may come in pieces
};

class LaneNetwork {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LaneNetwork>> Make(const model::ModelSpec& spec,
                                                                 const LaneLimits& limits,
                                                                 DeviceApi& device,
                                                                 std::uint64_t budget_bytes);
  // What Make would take of the device.
  [[nodiscard]] static Result<std::uint64_t> BytesFor(const model::ModelSpec& spec,
                                                      const LaneLimits& limits);
  ~LaneNetwork();
  LaneNetwork(const LaneNetwork&) = delete;
  LaneNetwork& operator=(const LaneNetwork&) = delete;

  // Starts a task in each of the first params.size() lanes from these parameters; the other lanes
  // rest. Optimisers are at rest. The parameters are read before this returns.
  [[nodiscard]] Status Begin(std::span<const std::span<const float>> params);
  [[nodiscard]] Status Train(const LaneEpoch& epoch);
  // Of the last Train: the sum of its losses over the labels that count, a value a lane.
  [[nodiscard]] Status ReadLosses(std::span<double> losses);
  // The sum of this lane begins anew.
  [[nodiscard]] Status ForgetLoss(std::uint32_t lane);
  [[nodiscard]] Status ReadParams(std::span<const std::span<float>> params);

  [[nodiscard]] std::uint32_t lanes() const { return limits_.lanes; }
  [[nodiscard]] std::uint32_t rows() const { return limits_.rows; }
  [[nodiscard]] Queue& queue() { return *queue_; }

 private:
  // What a captured step was captured for.
  struct Captured {
    OptimiserStep step;
    LaneData data;
    GraphId graph;
  };

  LaneNetwork(const model::ModelSpec& spec, const LaneLimits& limits);
  [[nodiscard]] Status Allocate(const model::ModelSpec& spec, Arena& arena);
  [[nodiscard]] Status AllocateHeads(Arena& arena);
  [[nodiscard]] LanePass Pass() const;
  [[nodiscard]] Status Upload(const LaneEpoch& epoch, std::uint32_t first, std::uint32_t steps);
  [[nodiscard]] Result<GraphId> GraphFor(const LaneEpoch& epoch);
  void DropGraph();
  [[nodiscard]] Status PutStep(const LaneData& data, const OptimiserStep& step);
  [[nodiscard]] Status Gather(const LaneData& data);
  [[nodiscard]] Status Forward(const LanePass& pass);
  [[nodiscard]] Status PutLoss();
  [[nodiscard]] Status Backward(const LanePass& pass, const LaneSink& sink);
  [[nodiscard]] Status PutOptimiser(const OptimiserStep& step);
  [[nodiscard]] Status Rectify(std::size_t value, LaneRows gradient);

  LaneLimits limits_;
  std::uint64_t parameters_;
  std::uint32_t positions_;
  std::uint32_t outputs_;
  NetworkPlan plan_;
  std::vector<std::unique_ptr<LaneLayer>> layers_;  // one a stage; null: an end of a shortcut
  std::vector<LaneRows> values_;
  std::vector<LaneRows> slots_;
  LaneRows deltas_[2];

  std::unique_ptr<Arena> arena_;
  std::optional<Queue> queue_;
  std::optional<Captured> captured_;
  DevicePtr<float> params_;  // [lanes][parameters]
  DevicePtr<float> gradient_;
  DevicePtr<float> first_;
  DevicePtr<float> second_;
  DevicePtr<float> clip_;
  DevicePtr<std::uint32_t> order_;
  DevicePtr<std::uint64_t> keys_;
  DevicePtr<std::uint32_t> position_;
  DevicePtr<std::int32_t> labels_;
  DevicePtr<std::uint32_t> active_;
  DevicePtr<std::uint32_t> steps_;
  DevicePtr<std::uint64_t> step_keys_;
  DevicePtr<std::uint32_t> counted_;
  DevicePtr<float> losses_;
  DevicePtr<double> epoch_loss_;
  std::vector<std::uint32_t> host_order_;  // what a copy in flight reads
  std::vector<std::uint64_t> host_keys_;
};

}  // namespace skep::kernels
