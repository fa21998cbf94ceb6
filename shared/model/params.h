// Params: one flat float vector bound to a Layout, and its content hash.
//
// The vector starts at a 64-byte boundary; tensors inside it need not be aligned. Copying copies
// the values. Tensors that stay on the devices (role 2) start from what every device starts from,
// the others from 0. Not thread-safe; published models are shared as shared_ptr<const Params>.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/model/layout.h"

namespace skep::model {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  AlignedAllocator() = default;
  template <class U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlignment); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

using FloatVector = std::vector<float, AlignedAllocator<float>>;

class Params {
 public:
  explicit Params(LayoutPtr layout);

  [[nodiscard]] const LayoutPtr& layout() const { return layout_; }
  [[nodiscard]] std::span<float> values() { return values_; }
  [[nodiscard]] std::span<const float> values() const { return values_; }
  [[nodiscard]] std::span<float> Tensor(std::size_t index) {
    return values().subspan(layout_->Offset(index), layout_->tensors()[index].Count());
  }
  [[nodiscard]] std::span<const float> Tensor(std::size_t index) const {
    return values().subspan(layout_->Offset(index), layout_->tensors()[index].Count());
  }

  // SHA-256 of the raw little-endian bytes of the tensors of roles 1 and 3, in layout order: the
  // model's name everywhere.
  [[nodiscard]] Hash32 ModelHash() const;

 private:
  LayoutPtr layout_;
  FloatVector values_;
};

using ParamsPtr = std::shared_ptr<const Params>;

}  // namespace skep::model
