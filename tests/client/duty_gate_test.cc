// The share of the CPU that training takes.
#include "client/agent/duty_gate.h"

#include <thread>

#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;

TEST_CASE("whatever a batch costs, CPU time stays within its share of the time", "[unit]") {
  const double share = GENERATE(0.05, 0.3, 0.7);
  const Nanoseconds batch = GENERATE(Nanoseconds(microseconds(20)), Nanoseconds(Milliseconds(3)),
                                     Nanoseconds(Milliseconds(400)));
  DutyCycle cycle(share);
  Nanoseconds cpu{};
  SteadyTime now{};
  (void)cycle.Rest(cpu, now);
  for (int i = 0; i < 20'000; ++i) {
    cpu += batch;
    now += batch;
    now += cycle.Rest(cpu, now);
  }
  const double taken = Seconds(cpu) / Seconds(now.time_since_epoch());
  INFO("share " << share << " batch " << Seconds(batch));
  CHECK(taken <= share * 1.01 + 0.01 / Seconds(now.time_since_epoch()));
  CHECK(taken >= share * 0.99);
}

TEST_CASE("with the whole CPU there is nothing to rest for", "[unit]") {
  DutyCycle cycle(1.0);
  Nanoseconds at{};
  for (int i = 0; i < 1000; ++i) {
    CHECK(cycle.Rest(at, SteadyTime{} + at) == Nanoseconds{});
    at += Milliseconds(7);
  }
}

TEST_CASE("time that was spent waiting is not saved up for a burst", "[unit]") {
  DutyCycle cycle(0.5);
  (void)cycle.Rest({}, SteadyTime{});
  const SteadyTime later = SteadyTime{} + hours(1);
  CHECK(cycle.Rest(Nanoseconds(Milliseconds(1)), later) == Nanoseconds{});
  CHECK(cycle.Rest(Nanoseconds(Milliseconds(101)), later + Milliseconds(100)) ==
        Nanoseconds(Milliseconds(100)));
}

TEST_CASE("stopping ends a rest at once", "[unit]") {
  Nanoseconds cpu{};
  DutyGate gate(0.5, {.steady = [] { return SteadyTime{}; },
                      .cpu =
                          [&cpu] {
                            const Nanoseconds now = cpu;
                            cpu += hours(1000);  // the second batch owes as much rest
                            return now;
                          }});
  CHECK(gate.Pass().has_value());
  Status passed = Ok();
  std::thread trainer([&] { passed = gate.Pass(); });
  gate.Stop();
  trainer.join();
  REQUIRE_FALSE(passed.has_value());
  CHECK(passed.error().code == 7407);
}

}  // namespace
}  // namespace skep::agent
