#include "shared/model/params.h"

#include <bit>

#include "shared/base/sha256.h"

namespace skep::model {

static_assert(std::endian::native == std::endian::little,
              "models are hashed as they lie in memory");

Hash32 Params::ModelHash() const {
  Sha256 hash;
  const auto& tensors = layout_->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role == Role::kAveraged || tensors[i].role == Role::kToClient) {
      hash.Update(AsBytes(Tensor(i)));
    }
  }
  return hash.Finish();
}

}  // namespace skep::model
