// LaneLayer: one operation of a network on a device, for K clients in lock step.
//
// Each lane is a client with parameters of its own; every operation is one launch, or one batched
// product, for all lanes. A lane's values do not depend on the other lanes or on their number. The
// mirror of kernels/nn/layer.h, whose order of values and meaning of x_is_rectified hold here too.
// Calls put work into a queue and return; nothing is allocated after construction. One thread.
// Errors: those of DeviceApi.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/arena.h"
#include "kernels/cuda/queue.h"
#include "shared/model/layers.h"
#include "shared/model/layout.h"

namespace skep::kernels {

// Values of lane l, row r start at data + (l * rows + r) * values, where `rows` is LanePass::rows:
// no gaps, so all rows of all lanes are one batch where parameters play no part.
struct LaneRows {
  DevicePtr<float> data;
};

// One batch of each lane.
struct LanePass {
  std::uint32_t lanes;
  std::uint32_t rows;                        // of every lane
  DevicePtr<float> params;                   // lane l at + l * params_stride
  std::uint64_t params_stride;               // at least the model's size
  DevicePtr<const std::uint32_t> active;     // [lanes]: rows that hold an example, the first ones;
                                             // the others' gradients are 0. A lane with 0 rests:
                                             // nothing of it changes.
  bool is_training;                          // dropout acts, batch norm uses the batch
  DevicePtr<const std::uint64_t> step_keys;  // [lanes]: see Pass::step_key
};

// As Sink, a lane at a time.
struct LaneSink {
  DevicePtr<float> values;
  std::uint64_t stride;
  bool accumulate;
  float scale;
};

struct LaneBackward {
  LaneRows x;
  LaneRows y;
  LaneRows dy;  // may be overwritten
  LaneRows dx;  // null: nobody asks for it
  bool x_is_rectified;
};

class LaneLayer {
 public:
  LaneLayer() = default;
  LaneLayer(const LaneLayer&) = delete;
  LaneLayer& operator=(const LaneLayer&) = delete;
  virtual ~LaneLayer() = default;

  [[nodiscard]] virtual Status Forward(Queue& queue, const LanePass& pass, LaneRows x,
                                       LaneRows y) = 0;
  [[nodiscard]] virtual Status Backward(Queue& queue, const LanePass& pass,
                                        const LaneBackward& backward, const LaneSink& sink) = 0;
  // See Layer::EndStep.
  [[nodiscard]] virtual Status EndStep(Queue& queue, const LanePass& pass) {
    static_cast<void>(queue);
    static_cast<void>(pass);
    return Ok();
  }
};

struct LaneContext {
  Arena& arena;  // for what the layer keeps; counts against the budget
  const model::Layout& layout;
  std::uint32_t lanes;   // at most
  std::uint32_t rows;    // of a lane, at most
  bool rectify = false;  // as LayerContext::rectify

  [[nodiscard]] std::uint64_t Offset(std::size_t tensor) const { return layout.Offset(tensor); }
};

// Not for ResidualLayer and AddLayer. SKEP-7202: the device has no room.
[[nodiscard]] Result<std::unique_ptr<LaneLayer>> MakeLaneLayer(const model::Layer& layer,
                                                               const LaneContext& context);

}  // namespace skep::kernels
