#include "shared/model/tensor_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "shared/base/try.h"
#include "shared/model/safetensors_header.h"

namespace skep::model {
namespace {

float FromHalf(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  float value = 0;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 31) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -value : value;
}

float FloatAt(const FileTensor& tensor, std::size_t i) {
  const std::uint8_t* const at = tensor.bytes.data() + i * ItemSize(tensor.dtype);
  switch (tensor.dtype) {
    case FileType::kF64:
      return static_cast<float>(std::bit_cast<double>(LoadLittle<std::uint64_t>(at)));
    case FileType::kF16:
      return FromHalf(LoadLittle<std::uint16_t>(at));
    case FileType::kBf16:
      return std::bit_cast<float>(std::uint32_t{LoadLittle<std::uint16_t>(at)} << 16);
    default:
      return std::bit_cast<float>(LoadLittle<std::uint32_t>(at));
  }
}

std::string TextOf(const auto& shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// The first names, and how many more there are.
std::string Listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNames = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) {
    text += " and " + std::to_string(names.size() - kMostNames) + " more";
  }
  return text;
}

Status FillTensor(const FileTensor& from, std::size_t index, Params& params) {
  const TensorSpec& spec = params.layout()->tensors()[index];
  if (!std::equal(spec.shape.begin(), spec.shape.end(), from.shape.begin(), from.shape.end())) {
    return Error{1301,
                 "tensor \"" + spec.name + "\": shape " + ShapeText(from.shape) +
                     ", the model's is " + ShapeText(spec.shape),
                 ""};
  }
  return CopyValues(from, params.Tensor(index));
}

}  // namespace

bool IsFloatingPoint(FileType type) {
  return type == FileType::kF64 || type == FileType::kF32 || type == FileType::kF16 ||
         type == FileType::kBf16;
}

std::string ShapeText(const std::vector<std::uint64_t>& shape) {
  return TextOf(shape);
}
std::string ShapeText(const std::vector<std::uint32_t>& shape) {
  return TextOf(shape);
}

Status CopyValues(const FileTensor& from, std::span<float> to) {
  const std::string name = "tensor \"" + from.name + "\": ";
  if (!IsFloatingPoint(from.dtype)) {
    return Error{1301, name + "holds " + std::string(TypeName(from.dtype)) + ", no floats", ""};
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = FloatAt(from, i);
    if (!std::isfinite(to[i])) {
      return Error{1301, name + "value " + std::to_string(i) + " is not finite", ""};
    }
  }
  return Ok();
}

void Difference::AddMissing(const TensorSpec& tensor) {
  missing.push_back("\"" + tensor.name + "\" " + ShapeText(tensor.shape));
}

void Difference::AddLeftOver(const FileTensor& tensor) {
  left_over.push_back("\"" + tensor.name + "\" " + ShapeText(tensor.shape));
}

Error Difference::AsError() const {
  std::string text = "the file's tensors are not the model's";
  if (!missing.empty()) text += "; missing: " + Listed(missing);
  if (!left_over.empty()) text += "; left over: " + Listed(left_over);
  return Error{1301, std::move(text), ""};
}

Status FillByName(const TensorFile& file, Params& params, std::vector<std::string>* notes) {
  const std::vector<TensorSpec>& specs = params.layout()->tensors();
  std::vector<bool> is_filled(specs.size());
  Difference difference;
  for (const FileTensor& tensor : file.tensors) {
    const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) {
      return spec.name == tensor.name;
    });
    if (found != specs.end() && found->role == Role::kPrivate) continue;
    if (found != specs.end() && found->role == Role::kAveraged) {
      const auto index = static_cast<std::size_t>(found - specs.begin());
      SKEP_TRY(FillTensor(tensor, index, params));
      is_filled[index] = true;
    } else if (IsFloatingPoint(tensor.dtype)) {
      difference.AddLeftOver(tensor);
    } else if (notes != nullptr) {
      notes->push_back("skipped the integers of \"" + tensor.name + "\"");
    }
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!is_filled[i] && specs[i].role == Role::kAveraged) difference.AddMissing(specs[i]);
  }
  if (difference.IsEmpty()) return Ok();
  return difference.AsError();
}

}  // namespace skep::model
