// Memory that peers may make us use, counted before it is allocated.
//
// Every buffer that grows with a peer's bytes is charged to its connection's budget, which charges
// the global one. A charge that does not fit is not an error of the peer: whoever asked stops
// reading, or answers SKEP-3336.
//
// CountingBudget may be shared by threads; ChargedBytes belongs to the object whose memory it
// counts. Source: Skep protocol 1.0, section 15.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace skep::wire {

class Budget {
 public:
  virtual ~Budget() = default;
  // False, and nothing charged, if `bytes` more do not fit.
  [[nodiscard]] virtual bool Charge(std::size_t bytes) = 0;
  // Gives back what was charged.
  virtual void Release(std::size_t bytes) = 0;
};

// At most `limit` bytes at a time. With a parent, each byte is charged there as well; the parent
// outlives it.
class CountingBudget final : public Budget {
 public:
  explicit CountingBudget(std::size_t limit, Budget* parent = nullptr)
      : limit_(limit), parent_(parent) {}
  CountingBudget(const CountingBudget&) = delete;
  CountingBudget& operator=(const CountingBudget&) = delete;

  [[nodiscard]] bool Charge(std::size_t bytes) override;
  void Release(std::size_t bytes) override;

  [[nodiscard]] std::size_t limit() const { return limit_; }
  [[nodiscard]] std::size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  std::size_t limit_;
  Budget* parent_;
  std::atomic<std::size_t> used_{0};
};

// What one object has charged; given back by the destructor. The budget outlives it.
class ChargedBytes {
 public:
  ChargedBytes() = default;
  explicit ChargedBytes(Budget& budget) : budget_(&budget) {}
  ChargedBytes(ChargedBytes&& other) noexcept { Swap(other); }
  ChargedBytes& operator=(ChargedBytes&& other) noexcept {
    ChargedBytes taken(std::move(other));
    Swap(taken);
    return *this;
  }
  ~ChargedBytes() {
    if (bytes_ > 0) budget_->Release(bytes_);
  }

  // Charges `bytes` more. False, and nothing changed, if they do not fit. Precondition: made with a
  // budget.
  [[nodiscard]] bool Grow(std::size_t bytes);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void Swap(ChargedBytes& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
  }

  Budget* budget_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace skep::wire
