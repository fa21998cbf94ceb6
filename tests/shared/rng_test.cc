#include "shared/base/rng.h"

#include <numeric>

#include "tests/support/catch.h"

namespace skep {
namespace {

TEST_CASE("Philox gives the published vectors", "[unit]") {
  CHECK(Philox(0, {0, 0, 0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox(~std::uint64_t{0}, {kNone, kNone, kNone, kNone}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the round seed is the published one", "[unit]") {
  CHECK(RoundSeed(42, 1).Hex() ==
        "ff43a21d3731bdab52920874c7d8f0c05190323562e59655dc7ba250327765d5");
}

TEST_CASE("batch orders are the published ones", "[unit]") {
  const Seed32 round_seed = RoundSeed(42, 1);
  std::vector<std::uint32_t> order(10);

  CHECK(EpochSeed(round_seed, 7, 1, 0) == 0x55b552de8e959378);
  std::iota(order.begin(), order.end(), 0U);
  ShuffleEpoch(EpochSeed(round_seed, 7, 1, 0), order);
  CHECK(order == std::vector<std::uint32_t>{4, 9, 0, 6, 3, 8, 5, 7, 1, 2});

  CHECK(EpochSeed(round_seed, 7, 1, 1) == 0xd5097fd2a738c2a4);
  std::iota(order.begin(), order.end(), 0U);
  ShuffleEpoch(EpochSeed(round_seed, 7, 1, 1), order);
  CHECK(order == std::vector<std::uint32_t>{7, 0, 4, 3, 8, 5, 6, 9, 1, 2});
}

TEST_CASE("cohorts are the published ones, and differ by attempt", "[unit]") {
  std::vector<ClientNumber> clients(100);
  std::iota(clients.begin(), clients.end(), 0U);
  CHECK(DrawCohort(42, 1, 1, clients, 10) ==
        std::vector<ClientNumber>{65, 75, 17, 68, 72, 79, 74, 30, 67, 33});
  CHECK(DrawCohort(42, 1, 2, clients, 10) ==
        std::vector<ClientNumber>{81, 25, 67, 89, 80, 73, 43, 61, 23, 18});
}

TEST_CASE("uniform integers reach every value and no other", "[unit]") {
  RandomStream stream(1, {.purpose = Purpose::kPartition});
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) ++seen.at(static_cast<std::size_t>(stream.Below(7)));
  for (const int count : seen) CHECK(count > 800);
  CHECK(stream.Below(1) == 0);
  for (int i = 0; i < 100; ++i)
    CHECK(stream.Below(std::uint64_t{1} << 40) < (std::uint64_t{1} << 40));
}

TEST_CASE("normal and gamma draws have the right mean and variance", "[unit]") {
  RandomStream stream(3, {.purpose = Purpose::kSyntheticData});
  constexpr int kDraws = 20000;
  double sum = 0;
  double squares = 0;
  double gamma = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.Normal();
    sum += x;
    squares += x * x;
  }
  for (int i = 0; i < kDraws; ++i) gamma += stream.Gamma(1.5);
  CHECK(std::abs(sum / kDraws) < 0.03);
  CHECK(std::abs(squares / kDraws - 1) < 0.05);
  CHECK(std::abs(gamma / kDraws - 1.5) < 0.05);
}

}  // namespace
}  // namespace skep
