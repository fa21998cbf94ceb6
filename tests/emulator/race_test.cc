// The thread sanitizer sees a missing barrier of a kernel, whichever way its threads are emulated.
//
// The program starts itself once more for each case, because a report ends it.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/emulator/block.h"
#include "tests/support/catch.h"

namespace skep::emulator {
namespace {

constexpr std::uint32_t kThreads = 64;

// A tree over a block, as kernels have it, with or without what makes it right.
float Sum(Mode mode, bool synchronises) {
  std::vector<float> part(kThreads);
  Memory memory;
  RunBlock(mode, kThreads, true, memory, [&](Block* block, std::uint32_t thread) {
    part[thread] = static_cast<float>(thread);
    for (std::uint32_t step = kThreads / 2; step > 0; step /= 2) {
      if (synchronises) block->WaitForBlock(thread);
      if (thread < step) part[thread] += part[thread + step];
    }
  });
  return memory.TakeFaults().empty() ? part[0] : -1;
}

// A shuffle through shared memory, without waiting for the other 32.
float Exchange(Mode mode, bool synchronises) {
  std::vector<float> part(kThreads);
  std::vector<float> got(kThreads);
  Memory memory;
  RunBlock(mode, kThreads, true, memory, [&](Block* block, std::uint32_t thread) {
    part[thread] = static_cast<float>(thread);
    if (synchronises) block->WaitForWarp(thread);
    got[thread] = part[thread ^ 1U];
  });
  return got[0];
}

TEST_CASE("block threads", "[.]") {
  CHECK(Sum(Mode::kThreads, true) == 2016);
}
TEST_CASE("block fibres", "[.]") {
  CHECK(Sum(Mode::kFibres, true) == 2016);
}
TEST_CASE("warp threads", "[.]") {
  CHECK(Exchange(Mode::kThreads, true) == 1);
}
TEST_CASE("warp fibres", "[.]") {
  CHECK(Exchange(Mode::kFibres, true) == 1);
}
TEST_CASE("block threads without", "[.]") {
  static_cast<void>(Sum(Mode::kThreads, false));
}
TEST_CASE("block fibres without", "[.]") {
  static_cast<void>(Sum(Mode::kFibres, false));
}
TEST_CASE("warp threads without", "[.]") {
  static_cast<void>(Exchange(Mode::kThreads, false));
}
TEST_CASE("warp fibres without", "[.]") {
  static_cast<void>(Exchange(Mode::kFibres, false));
}

// Whether the thread sanitizer speaks of a race in that case.
bool IsReported(const std::string& name) {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  REQUIRE(length > 0);
  const std::string command = "'" + std::string(path.data()) + "' '" + name + "' 2>&1";
  FILE* child = popen(command.c_str(), "r");
  REQUIRE(child != nullptr);
  std::string said;
  std::array<char, 4096> piece{};
  while (fgets(piece.data(), static_cast<int>(piece.size()), child) != nullptr)
    said += piece.data();
  const int status = pclose(child);
  const bool is_reported = said.find("WARNING: ThreadSanitizer: data race") != std::string::npos;
  INFO(said);
  CHECK(is_reported == (status != 0));
  return is_reported;
}

TEST_CASE("a missing barrier is a data race, a barrier is none", "[unit]") {
#if !defined(__SANITIZE_THREAD__)
  SKEP_SKIP("races are seen in the tsan build only");
#endif
  for (const std::string kind : {"block threads", "block fibres", "warp threads", "warp fibres"}) {
    INFO(kind);
    CHECK_FALSE(IsReported(kind));
    CHECK(IsReported(kind + " without"));
  }
}

}  // namespace
}  // namespace skep::emulator
