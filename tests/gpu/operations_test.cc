// Every kernel and every form of product against its reference, through the emulator.
#include "tests/gpu/operations.h"

#include <set>
#include <string>

#include "tests/emulator/host_device.h"
#include "tests/emulator/launcher.h"
#include "tests/support/catch.h"

namespace skep::gpu {
namespace {

// The thread sanitizer makes a thread of each fibre, which takes minutes for real blocks.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kBlock = 32;
#else
constexpr std::uint32_t kBlock = kernels::kMostBlockThreads;
#endif

void CheckAll(emulator::Mode mode, std::uint32_t blocks, std::uint32_t threads) {
  for (const Operation& operation : AllOperations()) {
    emulator::HostDevice device({.mode = mode});
    const OperationResult result =
        Try(operation, device, blocks, threads, SizesFor(blocks, threads));
    INFO(result.kernel << ": " << result.where);
    REQUIRE(result.status.has_value());
    CHECK(result.worst <= 1);
    CHECK(result.compared > 0);
    CHECK(device.TakeFaults().empty());
    CHECK(device.Leaks().empty());
  }
}

TEST_CASE("every kernel is within its tolerance in whole blocks", "[unit]") {
  CheckAll(emulator::Mode::kFibres, 1, kBlock);
}

TEST_CASE("every kernel is within its tolerance with threads of the system", "[unit]") {
  CheckAll(emulator::Mode::kThreads, 2, 4);
}

TEST_CASE("kernels that synchronise do so in blocks of 64 threads of the system", "[unit]") {
  for (const Operation& operation : AllOperations()) {
    if (!operation.is_blockwise) continue;
    emulator::HostDevice device({.mode = emulator::Mode::kThreads});
    const OperationResult result = Try(operation, device, 1, 64, {63, 65});
    INFO(result.kernel << ": " << result.where);
    CHECK(result.IsSound());
    CHECK(device.TakeFaults().empty());
  }
}

TEST_CASE("a kernel without its barriers is wrong, and no other", "[unit]") {
#if defined(__SANITIZE_THREAD__)
  SKEP_SKIP("the thread sanitizer ends a program that has races: emulator_race_test");
#endif
  for (const Operation& operation : AllOperations()) {
    emulator::HostDevice device({.ignores_syncs = true});
    const OperationResult result = Try(operation, device, 1, 32, {33});
    INFO(result.kernel << ": " << result.where);
    CHECK(result.IsSound() != operation.is_blockwise);
  }
}

TEST_CASE("products in TF32 are wrong", "[unit]") {
  for (const Operation& operation : ProductOperations()) {
    emulator::HostDevice device({.multiplies_in_tf32 = true});
    CHECK_FALSE(Try(operation, device, 1, 32, {33}).IsSound());
  }
}

TEST_CASE("no kernel of the list is left out", "[unit]") {
  std::set<std::string> tried;
  for (const Operation& operation : AllOperations()) tried.insert(operation.kernel);
  for (std::uint32_t kernel = 0; kernel < kernels::Kernels::kCount; ++kernel) {
    INFO(emulator::KernelName(kernel));
    CHECK(tried.count(emulator::KernelName(kernel)) == 1);
  }
}

TEST_CASE("a value beyond its tolerance is seen, and so is NaN", "[unit]") {
  emulator::HostDevice device;
  {
    Bench bench(device, 1, 32);
    bench.Compare("y", 0, 1 + 0x1p-22, Bound(1));
    CHECK(bench.worst() <= 1);
    bench.Compare("y", 1, 1 + 0x1p-20, Bound(1));
    CHECK(bench.worst() > 1);
  }
  {
    Bench bench(device, 1, 32);
    bench.Compare("y", 0, std::nan(""), Bound(1));
    CHECK(bench.worst() > 1);
    CHECK(bench.where() == ": y[0] is nan, should be 1 within 4.77e-07");
  }
}

}  // namespace
}  // namespace skep::gpu
