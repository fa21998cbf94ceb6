// Values of the tensors of a file as floats, and how a file differs from a model.
//
// For the readers of models alone; pure functions, any thread. Source: docs/formats.md
// (safetensors).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/safetensors.h"

namespace skep::model {

[[nodiscard]] bool IsFloatingPoint(FileType type);

// "[2, 3]".
[[nodiscard]] std::string ShapeText(const std::vector<std::uint64_t>& shape);
[[nodiscard]] std::string ShapeText(const std::vector<std::uint32_t>& shape);

// As many values as `to` takes. SKEP-1301: not floats, or not finite; names the tensor.
[[nodiscard]] Status CopyValues(const FileTensor& from, std::span<float> to);

// Tensors that have no counterpart on the other side.
struct Difference {
  std::vector<std::string> missing;    // of the model: "fc1.bias" [10]
  std::vector<std::string> left_over;  // of the file

  void AddMissing(const TensorSpec& tensor);
  void AddLeftOver(const FileTensor& tensor);
  [[nodiscard]] bool IsEmpty() const { return missing.empty() && left_over.empty(); }
  // SKEP-1301 with both lists, each cut to what a person reads.
  [[nodiscard]] Error AsError() const;
};

// Fills every averaged tensor by its name; tensors that stay on the devices are passed over,
// integers without a place are skipped and named in `notes`. SKEP-1301: the others of the file must
// have a place, with its shape.
[[nodiscard]] Status FillByName(const TensorFile& file, Params& params,
                                std::vector<std::string>* notes);

}  // namespace skep::model
