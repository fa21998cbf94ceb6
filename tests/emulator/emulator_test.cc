// The emulator and the fake device find what they promise to find.
#include <cmath>
#include <cstring>

#include "kernels/cuda/arena.h"
#include "kernels/cuda/queue.h"
#include "tests/emulator/block.h"
#include "tests/emulator/context.h"
#include "tests/emulator/host_device.h"
#include "tests/support/catch.h"

namespace skep::emulator {
namespace {

using kernels::DevicePtr;

// The sum of squares by a tree over the block, with or without what makes it right.
struct SumSquares {
  struct Args {
    const float* x;
    std::size_t count;
    float* out;
    bool synchronises;
  };
  template <class Context>
  static void Run(Context& c, const Args& a) {
    float* part = c.template shared<float>();
    float sum = 0;
    for (std::size_t i = c.thread(); i < a.count; i += c.block_threads()) sum += a.x[i] * a.x[i];
    part[c.thread()] = sum;
    c.sync();
    for (std::uint32_t step = c.block_threads() / 2; step > 0; step /= 2) {
      if (c.thread() < step) part[c.thread()] += part[c.thread() + step];
      if (a.synchronises) c.sync();
    }
    if (c.thread() == 0) *a.out = part[0];
  }
};

template <class Body>
std::vector<std::string> RunThreads(Mode mode, std::uint32_t threads, std::uint32_t shared_bytes,
                                    const Body& body) {
  Memory memory;
  std::vector<std::byte> bytes(shared_bytes, std::byte{0xFF});
  std::vector<std::uint64_t> exchange(threads);
  EmulatedContext::Shared shared{
      memory,       "test",         {.block_threads = threads, .shared_bytes = shared_bytes}, 0, 0,
      bytes.data(), exchange.data()};
  RunBlock(mode, threads, true, memory, [&](Block* block, std::uint32_t thread) {
    EmulatedContext context(shared, block, thread);
    body(context);
  });
  return memory.TakeFaults();
}

TEST_CASE("a block with barriers sums as it should, as threads and as fibres", "[unit]") {
  std::vector<float> x(333);
  double expected = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 7);
    expected += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  for (const auto& [mode, threads] : {std::pair{Mode::kThreads, 64U},
                                      {Mode::kFibres, 64U},
                                      {Mode::kFibres, 1024U},
                                      {Mode::kFibres, 1U}}) {
    float out = 0;
    const SumSquares::Args args{x.data(), x.size(), &out, true};
    const auto faults = RunThreads(mode, threads, threads * sizeof(float),
                                   [&](EmulatedContext& c) { SumSquares::Run(c, args); });
    CHECK(faults.empty());
    CHECK(out == static_cast<float>(expected));
  }
}

TEST_CASE("a thread that returns before a barrier is reported", "[unit]") {
  for (const Mode mode : {Mode::kThreads, Mode::kFibres}) {
    const auto faults = RunThreads(mode, 8, 0, [](EmulatedContext& c) {
      if (c.thread() == 3) return;
      c.sync();
    });
    CHECK_FALSE(faults.empty());
  }
}

TEST_CASE("a shuffle moves values within 32 threads only", "[unit]") {
  for (const Mode mode : {Mode::kThreads, Mode::kFibres}) {
    std::vector<int> got(64);
    const auto faults = RunThreads(mode, 64, 0, [&](EmulatedContext& c) {
      got[c.thread()] = c.shuffle_down(static_cast<int>(c.thread()), 16);
    });
    CHECK(faults.empty());
    CHECK(got[0] == 16);
    CHECK(got[15] == 31);
    CHECK(got[16] == 16);
    CHECK(got[32] == 48);
    CHECK(got[63] == 63);
  }
}

TEST_CASE("any tells all of the 32 what one of them knows", "[unit]") {
  for (const Mode mode : {Mode::kThreads, Mode::kFibres}) {
    std::vector<int> got(64);
    const auto faults = RunThreads(mode, 64, 0, [&](EmulatedContext& c) {
      got[c.thread()] = c.any(c.thread() == 40) ? 1 : 0;
    });
    CHECK(faults.empty());
    CHECK(got[5] == 0);
    CHECK(got[33] == 1);
    CHECK(got[63] == 1);
  }
}

struct Fixture {
  explicit Fixture(const HostDevice::Options& options = {}) : device(options) {
    stream = device.MakeStream().value();
  }
  HostDevice device;
  kernels::StreamId stream;
};

TEST_CASE("work waits for a synchronisation", "[unit]") {
  Fixture f;
  const std::uint64_t at = f.device.Allocate(4).value();
  float value = 5;
  float back = 1;
  REQUIRE(f.device.CopyIn(f.stream, at, &value, 4).has_value());
  REQUIRE(f.device.CopyOut(f.stream, &back, at, 4).has_value());
  CHECK(std::isnan(back));
  REQUIRE(f.device.Synchronise(f.stream).has_value());
  CHECK(back == 5);
  f.device.Free(at);
  f.device.FreeStream(f.stream);
  CHECK(f.device.TakeFaults().empty());
  CHECK(f.device.Leaks().empty());
}

TEST_CASE("host memory that changes under a copy is a fault", "[unit]") {
  Fixture f;
  const std::uint64_t at = f.device.Allocate(4).value();
  float value = 5;
  REQUIRE(f.device.CopyIn(f.stream, at, &value, 4).has_value());
  value = 6;
  REQUIRE(f.device.Synchronise(f.stream).has_value());
  const auto faults = f.device.TakeFaults();
  REQUIRE(faults.size() == 1);
  CHECK(faults[0] == "copy in: host memory changed before the copy was done");
}

TEST_CASE("host addresses, freed memory and ranges beyond an allocation are faults", "[unit]") {
  Fixture f;
  const std::uint64_t at = f.device.Allocate(8).value();
  float value = 5;
  const auto fault_of = [&](std::uint64_t to, std::size_t bytes) {
    std::vector<float> big(bytes);
    REQUIRE(f.device.CopyIn(f.stream, to, big.data(), bytes).has_value());
    REQUIRE(f.device.Synchronise(f.stream).has_value());
    return f.device.TakeFaults().size();
  };
  CHECK(fault_of(at, 8) == 0);
  CHECK(fault_of(at, 9) == 1);
  CHECK(fault_of(at + 4, 5) == 1);
  CHECK(fault_of(reinterpret_cast<std::uintptr_t>(&value), 4) == 1);
  f.device.Free(at);
  CHECK(fault_of(at, 4) == 1);
  f.device.Free(at);
  CHECK(f.device.TakeFaults().size() == 1);
}

TEST_CASE("what is not freed is named", "[unit]") {
  Fixture f;
  static_cast<void>(f.device.Allocate(100).value());
  static_cast<void>(f.device.MakeEvent().value());
  CHECK(f.device.Leaks() ==
        std::vector<std::string>{"1 allocations of 100 bytes", "1 streams", "1 events"});
}

TEST_CASE("an event orders two streams", "[unit]") {
  Fixture f;
  const kernels::StreamId other = f.device.MakeStream().value();
  const kernels::EventId event = f.device.MakeEvent().value();
  const std::uint64_t at = f.device.Allocate(4).value();
  const float value = 3;
  float back = 0;
  REQUIRE(f.device.CopyIn(f.stream, at, &value, 4).has_value());
  REQUIRE(f.device.Record(event, f.stream).has_value());
  REQUIRE(f.device.Wait(other, event).has_value());
  REQUIRE(f.device.CopyOut(other, &back, at, 4).has_value());
  REQUIRE(f.device.Synchronise(other).has_value());
  CHECK(back == 3);
}

TEST_CASE("a graph does its work as often as it is launched", "[unit]") {
  Fixture f;
  kernels::Arena arena(f.device, 1000);
  const auto y = arena.Make<float>(4, "y").value();
  const auto bias = arena.Make<float>(2, "bias").value();
  const std::vector<float> ones{1, 2};
  REQUIRE(f.device.CopyIn(f.stream, bias.address, ones.data(), 8).has_value());
  REQUIRE(f.device.Clear(f.stream, y.address, 16).has_value());
  REQUIRE(f.device.BeginCapture(f.stream).has_value());
  kernels::Queue queue(f.device, f.stream);
  REQUIRE(queue
              .Launch<kernels::body::AddBias>(
                  {.block_threads = 2},
                  {.y = y, .bias = bias, .bias_stride = 0, .rows = 2, .outputs = 2, .rectify = 0})
              .has_value());
  const kernels::GraphId graph = f.device.EndCapture(f.stream).value();
  for (int i = 0; i < 3; ++i) REQUIRE(f.device.LaunchGraph(f.stream, graph).has_value());
  std::vector<float> back(4);
  REQUIRE(f.device.CopyOut(f.stream, back.data(), y.address, 16).has_value());
  REQUIRE(f.device.Synchronise(f.stream).has_value());
  CHECK(back == std::vector<float>{3, 6, 3, 6});
  f.device.FreeGraph(graph);
  CHECK(f.device.TakeFaults().empty());
}

TEST_CASE("an allocation while a stream is captured is a fault", "[unit]") {
  Fixture f;
  REQUIRE(f.device.BeginCapture(f.stream).has_value());
  CHECK(f.device.Allocate(4).error().code == 7203);
  CHECK(f.device.TakeFaults().size() == 1);
}

TEST_CASE("a lost device stays lost", "[unit]") {
  Fixture f({.fail_at = 2});
  const std::uint64_t at = f.device.Allocate(4).value();
  CHECK(f.device.Clear(f.stream, at, 4).error().code == 7203);
  CHECK(f.device.Synchronise(f.stream).error().code == 7203);
  f.device.Free(at);
  f.device.FreeStream(f.stream);
  CHECK(f.device.Leaks().empty());
}

TEST_CASE("an arena keeps within its budget and frees what it has", "[unit]") {
  Fixture f;
  {
    kernels::Arena arena(f.device, 100);
    CHECK(arena.Make<float>(20, "a").has_value());
    const auto refused = arena.Make<float>(6, "gates");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == 1401);
    CHECK(refused.error().message ==
          "device memory: gates needs 24 bytes, 20 of the budget of 100 are left");
    CHECK(arena.used_bytes() == 80);
  }
  CHECK(f.device.live_bytes() == 0);
}

TEST_CASE("a device without room says so", "[unit]") {
  Fixture f({.total_bytes = 64});
  CHECK(f.device.Allocate(65).error().code == 7202);
  CHECK(f.device.Allocate(64).has_value());
}

struct Product {
  Fixture f;
  kernels::Arena arena{f.device, 10000};
  kernels::Gemm gemm{};
  Product() {
    std::vector<float> values(60);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 11);
    for (auto* p : {&a, &b}) {
      *p = arena.Make<float>(60, "operand").value();
      REQUIRE(f.device.CopyIn(f.stream, p->address, values.data(), 240).has_value());
    }
    c = arena.Make<float>(60, "result").value();
    REQUIRE(f.device.Clear(f.stream, c.address, 240).has_value());
    REQUIRE(f.device.Synchronise(f.stream).has_value());
    gemm = {.m = 2,
            .n = 3,
            .k = 4,
            .a = a,
            .lda = 2,
            .a_stride = 8,
            .b = b,
            .ldb = 4,
            .b_stride = 12,
            .c = c,
            .ldc = 2,
            .c_stride = 6,
            .batch = 2};
  }
  std::vector<std::string> Faults() {
    REQUIRE(f.device.Multiply(f.stream, gemm).has_value());
    REQUIRE(f.device.Synchronise(f.stream).has_value());
    return f.device.TakeFaults();
  }
  DevicePtr<float> a;
  DevicePtr<float> b;
  DevicePtr<float> c;
};

TEST_CASE("a product is that of column-major matrices", "[unit]") {
  Product p;
  CHECK(p.Faults().empty());
  std::vector<float> back(12);
  REQUIRE(p.f.device.CopyOut(p.f.stream, back.data(), p.c.address, 48).has_value());
  REQUIRE(p.f.device.Synchronise(p.f.stream).has_value());
  // A = [0 2 4 6; 1 3 5 7], first column of B = [0 1 2 3].
  CHECK(back[0] == 0 * 0 + 2 * 1 + 4 * 2 + 6 * 3);
  CHECK(back[1] == 1 * 0 + 3 * 1 + 5 * 2 + 7 * 3);
}

TEST_CASE("products that cuBLAS would do wrong are faults", "[unit]") {
  const auto faults_with = [](const auto& change) {
    Product p;
    change(p);
    return p.Faults().size();
  };
  CHECK(faults_with([](Product& p) { p.gemm.lda = 1; }) == 1);
  CHECK(faults_with([](Product& p) { p.gemm.ldb = 3; }) == 1);
  CHECK(faults_with([](Product& p) { p.gemm.ldc = 1; }) == 1);
  CHECK(faults_with([](Product& p) { p.gemm.c_stride = 5; }) == 1);
  CHECK(faults_with([](Product& p) { p.gemm.batch = 10; }) == 1);
  CHECK(faults_with([](Product& p) { p.gemm.k = 0; }) == 1);
  CHECK(faults_with([](Product& p) { p.gemm.c = p.a + 4; }) == 1);
  CHECK(faults_with([](Product& p) {
          p.gemm.transpose_a = true;
          p.gemm.lda = 4;
          p.gemm.a_stride = 8;
        }) == 0);
}

}  // namespace
}  // namespace skep::emulator
