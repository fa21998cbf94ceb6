// Weights under the names that PyTorch gives them: which tensor of a foreign file is which of the
// model's.
//
// Names of other programs say less than Skep's, so what they leave open is refused, never guessed.
// For ReadInitialModel alone; pure functions, any thread. Source: docs/models.md, "Weights from
// PyTorch"; torch.nn.Module.state_dict, PyTorch 2.x.
#pragma once

#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/model_spec.h"
#include "shared/model/safetensors.h"

namespace skep::model {

// Fills all tensors of `params`, the parameters of `spec`, from the floats of `file`. SKEP-1301
// lists what is missing and what is left over, or names two modules whose order is open.
[[nodiscard]] Status FillFromForeign(const ModelSpec& spec, const TensorFile& file, Params& params);

}  // namespace skep::model
