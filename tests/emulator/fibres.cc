#include "tests/emulator/fibres.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include <fmt/format.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace skep::emulator {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

// Stacks are kept from block to block: to make them costs more than to run on them.
std::byte* StackOf(std::uint32_t thread) {
  thread_local std::vector<std::unique_ptr<std::byte[]>> stacks;
  while (stacks.size() <= thread) stacks.push_back(std::make_unique<std::byte[]>(kStackBytes));
  return stacks[thread].get();
}

enum class State { kReady, kAtBlock, kAtWarp, kDone };

struct Fibre {
  ucontext_t context{};
  std::byte* stack = nullptr;
  // Atomic for the thread sanitizer only, to which fibres are threads: see Meet.
  std::atomic<State> state = State::kReady;
  void* sanitizer = nullptr;  // what the sanitizer keeps of a stack that is left

  [[nodiscard]] State Get() const { return state.load(std::memory_order_relaxed); }
  void Set(State next) { state.store(next, std::memory_order_relaxed); }
};

// Tells the thread sanitizer what orders the memory accesses of fibres, which is what orders those
// of a device's threads: all that came before Arrive of one comes before what follows Meet of
// another. A switch by itself orders nothing, so a missing barrier is a race here, too.
void Arrive([[maybe_unused]] void* where) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(where);
#endif
}
void Meet([[maybe_unused]] void* where) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(where);
#endif
}
#if defined(__SANITIZE_THREAD__)
constexpr unsigned kOrdersNothing = __tsan_switch_to_fiber_no_sync;

// Kept from block to block like stacks, and for the same reason. It hides nothing: one block comes
// before the next as a whole. Not for ever: the sanitizer's record of calls grows, for no fibre
// returns.
void* SanitizerFibreOf(std::uint32_t thread) {
  constexpr int kMostBlocks = 500;
  struct Kept {
    Kept() = default;
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    ~Kept() { __tsan_destroy_fiber(fibre); }
    void* fibre = __tsan_create_fiber(0);
    int blocks = 0;
  };
  thread_local std::vector<std::unique_ptr<Kept>> kept;
  while (kept.size() <= thread) kept.push_back(std::make_unique<Kept>());
  if (kept[thread]->blocks++ == kMostBlocks) kept[thread] = std::make_unique<Kept>();
  return kept[thread]->fibre;
}
#endif

// Runs each fibre until it waits or ends, then lets those go on whose barrier is met.
class FibreBlock final : public Block {
 public:
  FibreBlock(std::uint32_t threads, Memory& memory,
             const std::function<void(Block*, std::uint32_t)>& body)
      : memory_(memory), body_(body), fibres_(threads), warps_((threads + kWarp - 1) / kWarp) {}

  void Run() {
    TakeSanitizerFibres();
    for (std::uint32_t t = 0; t < fibres_.size(); ++t) Start(t);
    Arrive(&begun_);
    while (true) {
      for (std::uint32_t t = 0; t < fibres_.size(); ++t) {
        if (fibres_[t].Get() == State::kReady) Enter(t);
      }
      if (IsEveryone(State::kDone)) break;
      if (!Release()) {
        memory_.Report("threads wait for each other at barriers that do not meet");
        ReleaseAll();
      }
    }
    Meet(&ended_);
  }

  void WaitForBlock(std::uint32_t thread) override { Wait(thread, State::kAtBlock, &block_); }
  void WaitForWarp(std::uint32_t thread) override {
    Wait(thread, State::kAtWarp, &warps_[thread / kWarp]);
  }

 private:
  static void Begin(unsigned low, unsigned high, unsigned thread) {
    const std::uint64_t address = (std::uint64_t{high} << 32U) | low;
    reinterpret_cast<FibreBlock*>(static_cast<std::uintptr_t>(address))->Main(thread);
  }

  void Main(std::uint32_t thread) {
    ArriveInFibre(nullptr);
    Meet(&begun_);
    body_(this, thread);
    fibres_[thread].Set(State::kDone);
    Leave(thread, true);
  }

  void Start(std::uint32_t thread) {
    Fibre& fibre = fibres_[thread];
    fibre.stack = StackOf(thread);
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack;
    fibre.context.uc_stack.ss_size = kStackBytes;
    fibre.context.uc_link = nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&fibre.context, reinterpret_cast<void (*)()>(&FibreBlock::Begin), 3,
                static_cast<unsigned>(address), static_cast<unsigned>(address >> 32U), thread);
  }

  void Wait(std::uint32_t thread, State state, char* barrier) {
    Arrive(barrier);
    fibres_[thread].Set(state);
    Leave(thread, false);
    Meet(barrier);
  }

  void Enter(std::uint32_t thread) {
    Fibre& fibre = fibres_[thread];
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_sanitizer_, fibre.stack, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(fibre.sanitizer, kOrdersNothing);
#endif
    swapcontext(&scheduler_, &fibre.context);
    ArriveInScheduler();
  }

  void Leave(std::uint32_t thread, bool is_last) {
    Fibre& fibre = fibres_[thread];
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(is_last ? nullptr : &fibre.sanitizer, scheduler_stack_,
                                   scheduler_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
    void* const scheduler = scheduler_sanitizer_;
    Arrive(&ended_);
    __tsan_switch_to_fiber(scheduler, kOrdersNothing);
#endif
    static_cast<void>(is_last);
    swapcontext(&fibre.context, &scheduler_);
    ArriveInFibre(fibre.sanitizer);
  }

  // On the stack of a fibre, after coming from the scheduler's.
  void ArriveInFibre(void* kept) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(kept, &scheduler_stack_, &scheduler_stack_bytes_);
#else
    static_cast<void>(kept);
#endif
  }
  // And back.
  void ArriveInScheduler() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_sanitizer_, nullptr, nullptr);
#endif
  }

  void TakeSanitizerFibres() {
#if defined(__SANITIZE_THREAD__)
    scheduler_sanitizer_ = __tsan_get_current_fiber();
    for (std::uint32_t t = 0; t < fibres_.size(); ++t) fibres_[t].sanitizer = SanitizerFibreOf(t);
#endif
  }

  [[nodiscard]] bool IsEveryone(State state) const {
    return std::all_of(fibres_.begin(), fibres_.end(),
                       [&](const Fibre& fibre) { return fibre.Get() == state; });
  }

  // Whether someone may go on.
  bool Release() {
    if (IsEveryone(State::kAtBlock)) {
      ReleaseAll();
      return true;
    }
    bool released = false;
    for (std::size_t first = 0; first < fibres_.size(); first += kWarp) {
      const auto begin = fibres_.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = fibres_.begin() + static_cast<std::ptrdiff_t>(
                                             std::min<std::size_t>(first + kWarp, fibres_.size()));
      const bool met =
          std::all_of(begin, end, [](const Fibre& fibre) { return fibre.Get() == State::kAtWarp; });
      if (!met) continue;
      std::for_each(begin, end, [](Fibre& fibre) { fibre.Set(State::kReady); });
      released = true;
    }
    return released;
  }

  void ReleaseAll() {
    for (Fibre& fibre : fibres_) {
      if (fibre.Get() != State::kDone) fibre.Set(State::kReady);
    }
  }

  Memory& memory_;
  const std::function<void(Block*, std::uint32_t)>& body_;
  std::vector<Fibre> fibres_;
  // Addresses that stand for barriers.
  char begun_ = 0;
  char ended_ = 0;
  char block_ = 0;
  std::vector<char> warps_;
  ucontext_t scheduler_{};
  void* scheduler_sanitizer_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

}  // namespace

void RunFibres(std::uint32_t threads, Memory& memory,
               const std::function<void(Block*, std::uint32_t)>& body) {
  FibreBlock(threads, memory, body).Run();
}

}  // namespace skep::emulator
