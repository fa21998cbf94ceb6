// Initial weights from a file: one of ours, or one that PyTorch wrote.
//
// Called when a run is made; one thread. Files are untrusted input. Source: docs/models.md,
// "Weights from PyTorch".
#pragma once

#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/model_spec.h"

namespace skep::model {

// By exact names, where the file has all of the model's or no other ones; else by the usual names
// of PyTorch. Integer tensors are skipped and named in `notes`, which may be null. Tensors that
// stay on the devices start as everywhere, with a note. SKEP-1301: names, shapes or values that do
// not fit; SKEP-1302: no such file.
[[nodiscard]] Result<Params> ReadInitialModel(const std::string& path, const ModelSpec& spec,
                                              std::vector<std::string>* notes);

}  // namespace skep::model
