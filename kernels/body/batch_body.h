// The next batch of every lane, taken from data that lie on the device: no copy from the host
// between the steps of a task, so that a step can be a graph.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"

namespace skep::kernels::body {

// No example in this place of a batch.
inline constexpr std::uint32_t kNoExample = 0xFFFFFFFFU;

// What a step reads about its lanes: who trains on what.
struct GatherHeads {
  static constexpr const char* kName = "gather_heads";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const std::uint32_t> order;      // [steps][lanes][rows]
    DevicePtr<const std::uint64_t> keys;       // [steps][lanes]
    DevicePtr<const std::uint32_t> position;   // which step
    DevicePtr<const std::int32_t> all_labels;  // [examples][positions]
    DevicePtr<std::int32_t> labels;            // [lanes][rows][positions]
    DevicePtr<std::uint32_t> active;           // [lanes]
    DevicePtr<std::uint32_t> steps;            // [lanes]: with an example, this one included
    DevicePtr<std::uint64_t> step_keys;        // [lanes]
    std::uint32_t lanes;
    std::uint32_t rows;
    std::uint32_t positions;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t step = c.memory(a.position)[0];
    for (std::uint64_t lane = c.global_index(); lane < a.lanes; lane += c.grid_threads()) {
      const std::uint32_t* order = c.memory(a.order + (step * a.lanes + lane) * a.rows);
      std::int32_t* labels = c.memory(a.labels + lane * a.rows * a.positions);
      std::uint32_t active = 0;
      for (std::uint32_t r = 0; r < a.rows; ++r) {
        const bool is_there = order[r] != kNoExample;
        active += is_there ? 1U : 0U;
        for (std::uint32_t p = 0; p < a.positions; ++p) {
          const std::uint64_t at = std::uint64_t{order[r]} * a.positions + p;
          labels[r * a.positions + p] = is_there ? c.memory(a.all_labels + at)[0] : -1;
        }
      }
      c.memory(a.active)[lane] = active;
      c.memory(a.steps)[lane] += active == 0 ? 0U : 1U;
      c.memory(a.step_keys)[lane] = c.memory(a.keys)[step * a.lanes + lane];
    }
  }
};

// The inputs: floats as they are, bytes as (byte - offset) / scale.
struct GatherInputs {
  static constexpr const char* kName = "gather_inputs";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const std::uint32_t> order;     // [steps][lanes][rows]
    DevicePtr<const std::uint32_t> position;  // which step
    DevicePtr<const std::uint8_t> bytes;      // [examples][values], or null
    DevicePtr<const float> floats;            // likewise; one of the two
    double offset;
    double scale;
    DevicePtr<float> x;       // [lanes][rows][values]
    std::uint32_t lane_rows;  // of all lanes
    std::uint32_t values;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const std::uint64_t step = c.memory(a.position)[0];
    const std::uint32_t* order = c.memory(a.order + step * a.lane_rows);
    const std::uint8_t* bytes = a.bytes.IsNull() ? nullptr : c.memory(a.bytes);
    const float* floats = a.floats.IsNull() ? nullptr : c.memory(a.floats);
    float* x = c.memory(a.x);
    const std::uint64_t count = std::uint64_t{a.lane_rows} * a.values;
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      const std::uint32_t example = order[i / a.values];
      if (example == kNoExample) {
        x[i] = 0;
        continue;
      }
      const std::uint64_t at = std::uint64_t{example} * a.values + i % a.values;
      x[i] = floats != nullptr ? floats[at] : static_cast<float>((bytes[at] - a.offset) / a.scale);
    }
  }
};

// The last thing of a step: the next one reads the next batch.
struct Advance {
  static constexpr const char* kName = "advance";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<std::uint32_t> position;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    if (c.global_index() == 0) ++c.memory(a.position)[0];
  }
};

}  // namespace skep::kernels::body
