#include "kernels/cuda/lane_data.h"

#include "shared/base/try.h"

namespace skep::kernels {
namespace {

template <class T>
Result<DevicePtr<T>> Put(std::span<const T> values, const char* what, Arena& arena, Queue& queue) {
  SKEP_ASSIGN(const DevicePtr<T> at, arena.Make<T>(values.size(), what));
  SKEP_TRY(queue.device().CopyIn(queue.stream(), at.address, values.data(), values.size_bytes()));
  return at;
}

}  // namespace

Result<LaneData> LaneData::Make(const HostExamples& examples, Arena& arena, Queue& queue) {
  LaneData data;
  data.offset = examples.offset;
  data.scale = examples.scale;
  data.values = static_cast<std::uint32_t>(examples.values);
  data.positions = static_cast<std::uint32_t>(examples.positions);
  if (examples.floats.empty()) {
    SKEP_ASSIGN(data.bytes, Put(examples.bytes, "the examples", arena, queue));
  } else {
    SKEP_ASSIGN(data.floats, Put(examples.floats, "the examples", arena, queue));
  }
  SKEP_ASSIGN(data.labels, Put(examples.labels, "the labels", arena, queue));
  SKEP_TRY(queue.Synchronise());
  return data;
}

}  // namespace skep::kernels
