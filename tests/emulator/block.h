// Block: the threads of one block of a kernel, emulated.
//
// Two ways to run them, which must agree. kThreads: one operating-system thread each, so that the
// thread sanitizer sees a missing barrier as a race; blocks of at most 64 threads. kFibres: one
// operating-system thread that switches at barriers and shuffles; real block sizes, to 1,024. A
// kernel that does not synchronise runs its threads one after the other. Faults (a thread that
// returned while others wait, barriers that do not meet, a wait over ten seconds) go to Memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "tests/emulator/memory.h"

namespace skep::emulator {

enum class Mode { kThreads, kFibres };

class Block {
 public:
  virtual ~Block() = default;
  // Until every thread of the block (or of the caller's 32) is here. False: it never will be; the
  // caller goes on as if it were.
  virtual void WaitForBlock(std::uint32_t thread) = 0;
  virtual void WaitForWarp(std::uint32_t thread) = 0;
};

inline constexpr std::uint32_t kWarp = 32;

// Runs `body(block, thread)` for each thread in [0, threads). `block` is null in a kernel that does
// not synchronise.
void RunBlock(Mode mode, std::uint32_t threads, bool synchronises, Memory& memory,
              const std::function<void(Block*, std::uint32_t)>& body);

}  // namespace skep::emulator
