#include "shared/model/initial_model.h"

#include <algorithm>

#include "shared/base/try.h"
#include "shared/model/foreign_model.h"
#include "shared/model/parts.h"
#include "shared/model/safetensors.h"
#include "shared/model/tensor_values.h"

namespace skep::model {
namespace {

// All names of the model are in the file, or all floats of the file are of the model.
bool HasOurNames(const Layout& layout, const TensorFile& file) {
  std::size_t ours = 0;
  std::size_t floats = 0;
  for (const FileTensor& tensor : file.tensors) {
    if (!IsFloatingPoint(tensor.dtype)) continue;
    ++floats;
    const auto& specs = layout.tensors();
    const bool is_ours = std::any_of(specs.begin(), specs.end(), [&](const TensorSpec& spec) {
      return spec.name == tensor.name;
    });
    if (is_ours) ++ours;
  }
  return ours == layout.tensors().size() || ours == floats;
}

void NoteIntegers(const TensorFile& file, std::vector<std::string>* notes) {
  if (notes == nullptr) return;
  for (const FileTensor& tensor : file.tensors) {
    if (IsFloatingPoint(tensor.dtype)) continue;
    notes->push_back("skipped the integers of \"" + tensor.name + "\"");
  }
}

Status CheckVariances(const ModelSpec& spec, const Params& params) {
  for (const Layer& layer : spec.layers()) {
    const auto* norm = std::get_if<NormLayer>(&layer);
    if (norm == nullptr || norm->kind != NormLayer::Kind::kBatch) continue;
    const std::span<const float> values = params.Tensor(norm->running_var);
    if (std::all_of(values.begin(), values.end(), [](float v) { return v >= 0; })) continue;
    return Error{1301,
                 "tensor \"" + spec.layout()->tensors()[norm->running_var].name +
                     "\": a variance is below 0",
                 ""};
  }
  return Ok();
}

Status FillAll(const ModelSpec& spec, const TensorFile& file, Params& params,
               std::vector<std::string>* notes) {
  if (HasOurNames(*spec.layout(), file)) {
    SKEP_TRY(FillByName(file, params, notes));
  } else {
    SKEP_TRY(FillFromForeign(spec, file, params));
    NoteIntegers(file, notes);
  }
  SKEP_TRY(CheckVariances(spec, params));
  if (spec.layout()->private_values() == 0) return Ok();
  FillPrivate(*spec.layout(), params.values());
  if (notes != nullptr) {
    notes->push_back(
        "fedbn: every client starts its norm layers from weight 1, bias 0, mean 0 and variance 1, "
        "whatever the initial model holds");
  }
  return Ok();
}

Error Advised(Error error) {
  if (!error.hint.empty()) return error;
  error.hint = error.code == 1301
                   ? "give a file of this model, or correct model.layers or model.architecture"
                   : "give a safetensors file of 32-bit floats";
  return error;
}

}  // namespace

Result<Params> ReadInitialModel(const std::string& path, const ModelSpec& spec,
                                std::vector<std::string>* notes) {
  Result<TensorFile> file = ReadTensorFile(path, spec.layout()->values());
  if (!file) return Advised(std::move(file).error());
  Params params(spec.layout());
  if (Status filled = FillAll(spec, *file, params, notes); !filled) {
    return Advised(std::move(filled).error().Within(path));
  }
  return params;
}

}  // namespace skep::model
