// Shortcuts of residual blocks: what an AddLayer adds, and how its gradient goes back.
//
// For Network alone. Pure functions. Source: He et al. 2016, section 3.3, option A.
#pragma once

#include <cstddef>

#include "kernels/nn/layer.h"
#include "shared/model/layers.h"

namespace skep::kernels {

// y = x + every stride-th row and column of `kept`; channels that it lacks stay as they are. Then
// max(0, y) with `rectify`; NaN stays NaN.
void AddShortcut(const model::AddLayer& add, bool rectify, std::size_t rows, ConstRows kept,
                 ConstRows x, Rows y);

// slot = the gradient of `kept`: dy where it was added, 0 elsewhere.
void KeepShortcutGradient(const model::AddLayer& add, std::size_t rows, ConstRows dy, Rows slot);

// dy += slot, then 0 where the `gate` is not above 0; without data, there is none.
void AddShortcutGradient(std::size_t rows, std::size_t values, ConstRows slot, ConstRows gate,
                         Rows dy);

}  // namespace skep::kernels
