#include "tests/emulator/block.h"

#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "tests/emulator/fibres.h"

namespace skep::emulator {
namespace {

constexpr std::uint32_t kMostThreads = 64;
constexpr std::chrono::seconds kPatience{10};

// A barrier that knows who left. Not std::barrier: that waits for ever for a thread that returned.
class Barrier {
 public:
  void Expect(std::uint32_t threads) { expected_ = threads; }

  // False: someone left before, or nobody came for kPatience.
  bool Wait() {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = turn_;
    ++waiting_;
    if (waiting_ == expected_) {
      Release();
      return !is_broken_;
    }
    const bool came = met_.wait_for(lock, kPatience, [&] { return turn_ != turn; });
    if (!came) is_broken_ = true;
    return !is_broken_;
  }

  void Leave() {
    const std::lock_guard lock(mutex_);
    --expected_;
    if (waiting_ == 0) return;
    is_broken_ = true;
    if (waiting_ == expected_) Release();
  }

 private:
  void Release() {
    waiting_ = 0;
    ++turn_;
    met_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable met_;
  std::uint32_t expected_ = 0;
  std::uint32_t waiting_ = 0;
  std::uint64_t turn_ = 0;
  bool is_broken_ = false;
};

class ThreadBlock final : public Block {
 public:
  ThreadBlock(std::uint32_t threads, Memory& memory)
      : memory_(memory), warps_((threads + kWarp - 1) / kWarp) {
    block_.Expect(threads);
    for (std::uint32_t w = 0; w < warps_.size(); ++w) {
      warps_[w].Expect(std::min(kWarp, threads - w * kWarp));
    }
  }

  void WaitForBlock(std::uint32_t thread) override { Check(block_.Wait(), thread, "the block"); }
  void WaitForWarp(std::uint32_t thread) override {
    Check(warps_[thread / kWarp].Wait(), thread, "its 32 threads");
  }
  void Leave(std::uint32_t thread) {
    block_.Leave();
    warps_[thread / kWarp].Leave();
  }

 private:
  void Check(bool met, std::uint32_t thread, const char* whom) {
    if (!met)
      memory_.Report(fmt::format("thread {} waits for {}, which never comes", thread, whom));
  }

  Memory& memory_;
  Barrier block_;
  std::vector<Barrier> warps_;
};

void RunThreads(std::uint32_t threads, Memory& memory,
                const std::function<void(Block*, std::uint32_t)>& body) {
  if (threads > kMostThreads) {
    memory.Report(fmt::format("{} threads in a block; at most {} are emulated as threads", threads,
                              kMostThreads));
    return;
  }
  ThreadBlock block(threads, memory);
  std::vector<std::thread> running;
  running.reserve(threads);
  for (std::uint32_t t = 0; t < threads; ++t) {
    running.emplace_back([&block, &body, t] {
      body(&block, t);
      block.Leave(t);
    });
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace

void RunBlock(Mode mode, std::uint32_t threads, bool synchronises, Memory& memory,
              const std::function<void(Block*, std::uint32_t)>& body) {
  if (mode == Mode::kThreads) {
    RunThreads(threads, memory, body);
  } else if (synchronises) {
    RunFibres(threads, memory, body);
  } else {
    for (std::uint32_t t = 0; t < threads; ++t) body(nullptr, t);
  }
}

}  // namespace skep::emulator
