#include "shared/wire/budget.h"

#include "shared/base/check.h"

namespace skep::wire {

bool CountingBudget::Charge(std::size_t bytes) {
  std::size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (parent_ != nullptr && !parent_->Charge(bytes)) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  return true;
}

void CountingBudget::Release(std::size_t bytes) {
  const std::size_t before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  SKEP_CHECK(before >= bytes);
  if (parent_ != nullptr) parent_->Release(bytes);
}

bool ChargedBytes::Grow(std::size_t bytes) {
  SKEP_CHECK(budget_ != nullptr);
  if (!budget_->Charge(bytes)) return false;
  bytes_ += bytes;
  return true;
}

}  // namespace skep::wire
