// Memory of a Network on a CPU, before it is made.
//
// So that a run which does not fit is refused before it starts, and says how much it needs. Called
// by who plans memory; pure, any thread. A test compares it with what a Network allocates
// (tests/client/memory_test.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/nn/optimiser.h"
#include "shared/model/model_spec.h"

namespace skep::kernels {

// Bytes of a workspace that trains with `step` on up to `training_rows` rows: activations and their
// gradients, what layers keep, and parameters x (1 + states of the optimiser) where the optimiser
// needs a gradient. Up to a tenth more than is allocated.
[[nodiscard]] std::uint64_t WorkspaceBytes(const model::ModelSpec& spec, std::size_t training_rows,
                                           const OptimiserStep& step);

// Vectors of the model's size that `step` needs beside the parameters: the gradient and the
// optimiser's states. Plain SGD needs none.
[[nodiscard]] std::size_t OptimiserVectors(const OptimiserStep& step);

}  // namespace skep::kernels
