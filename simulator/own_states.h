// Own states: the tensors that clients keep for themselves, as a file beside a checkpoint.
//
// A safetensors file: each tensor stacked along a first dimension, one entry a client that took
// part; "skep.client" says which, "skep.update" under which update. Called by Checkpoints; one
// thread. Source: docs/formats.md (safetensors).
#pragma once

#include <string>

#include "shared/model/safetensors.h"
#include "simulator/simulation.h"

namespace skep::simulator {

// "round-000021.private.safetensors" of "round-000021.safetensors".
[[nodiscard]] std::string OwnStatesPath(const std::string& checkpoint);

// SKEP-4001. `metadata` is that of the model of the same round.
[[nodiscard]] Status WriteOwnStates(const std::string& path, const model::Layout& layout,
                                    const OwnStates& states, model::Metadata metadata);
// SKEP-1302: not whole, or of another model than the one of this hash.
[[nodiscard]] Result<OwnStates> ReadOwnStates(const std::string& path, const model::Layout& layout,
                                              const Hash32& model);

}  // namespace skep::simulator
