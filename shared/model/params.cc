#include "shared/model/params.h"

#include <bit>

#include "shared/base/sha256.h"
#include "shared/model/parts.h"

namespace skep::model {

static_assert(std::endian::native == std::endian::little,
              "models are hashed as they lie in memory");

Params::Params(LayoutPtr layout) : layout_(std::move(layout)), values_(layout_->values()) {
  FillPrivate(*layout_, values());
}

Hash32 Params::ModelHash() const {
  Sha256 hash;
  const auto& tensors = layout_->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (IsIn(Part::kModel, tensors[i].role)) hash.Update(AsBytes(Tensor(i)));
  }
  return hash.Finish();
}

}  // namespace skep::model
