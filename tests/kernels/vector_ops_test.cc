#include "kernels/vector_ops.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/backend.h"
#include "kernels/sum_loops.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The definition, word by word.
double NormByDefinition(std::span<const float> values) {
  double sum = 0;
  double compensation = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += 1024) {
    double block = 0;
    for (std::size_t i = begin; i < std::min(begin + 1024, values.size()); ++i) {
      block += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    const double next = sum + block;
    compensation += std::abs(sum) >= std::abs(block) ? (sum - next) + block : (block - next) + sum;
    sum = next;
  }
  return std::sqrt(sum + compensation);
}

TEST_CASE("the norm has the bits of its definition at every size", "[unit]") {
  for (const std::size_t size : test::Sizes{0, 1, 7, 1023, 1024, 1025, 2048, 7850, 8192, 16384,
                                            16385, 17000, 66560, 199210}) {
    INFO(size << " values");
    std::vector<float> values = test::RandomFloats(size, size, 10);
    for (std::size_t i = 0; i < size; i += 97)
      values[i] *= 1e6F;  // rounding errors that differ by order
    const UpdateNorm norm = MeasureUpdate(values);
    CHECK(norm.not_finite == 0);
    REQUIRE(std::bit_cast<std::uint64_t>(norm.l2) ==
            std::bit_cast<std::uint64_t>(NormByDefinition(values)));
  }
}

TEST_CASE("every instruction set sums blocks in index order", "[unit]") {
  for (const std::size_t blocks : test::Sizes{1, 7, 8, 9, 15, 16, 17, 33}) {
    test::Unaligned values(test::RandomFloats(blocks * kNormBlock, blocks, 100));
    std::vector<double> expected(blocks);
    for (std::size_t i = 0; i < blocks * kNormBlock; ++i) {
      expected[i / kNormBlock] +=
          static_cast<double>(values.values()[i]) * static_cast<double>(values.values()[i]);
    }
    for (const Isa isa : AvailableIsas()) {
      INFO(IsaName(isa) << ", " << blocks << " blocks");
      std::vector<double> sums(blocks);
      SumLoopsFor(isa).block_squares(values.data(), blocks, sums.data());
      REQUIRE(sums == expected);
    }
  }
}

TEST_CASE("compensation keeps small blocks beside a huge one", "[unit]") {
  std::vector<float> values(3 * 1024, 0.0F);
  values[0] = 0x1p30F;  // square 2^60: a block of 1 is lost without compensation
  values[1024] = 1.0F;
  values[2048] = 64.0F;
  CHECK(MeasureUpdate(values).l2 == std::sqrt(0x1p60 + 4097.0));
  CHECK(std::bit_cast<std::uint64_t>(MeasureUpdate(values).l2) ==
        std::bit_cast<std::uint64_t>(NormByDefinition(values)));
}

TEST_CASE("the largest floats have a finite norm", "[unit]") {
  const std::vector<float> values(5000, std::numeric_limits<float>::max());
  const UpdateNorm norm = MeasureUpdate(values);
  CHECK(norm.not_finite == 0);
  CHECK(std::isfinite(norm.l2));
}

TEST_CASE("subnormals, -0 and an empty update are ordinary", "[unit]") {
  const std::vector<float> values{-0.0F, 1e-45F, -1e-40F};
  CHECK(MeasureUpdate(values).not_finite == 0);
  CHECK(MeasureUpdate(values).l2 > 0);
  CHECK(MeasureUpdate({}).l2 == 0);
}

TEST_CASE("values that are not finite are counted, and the first is named", "[unit]") {
  for (const std::size_t size : test::Sizes{1, 1023, 1024, 5000, 20000}) {
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      std::vector<float> values = test::RandomFloats(size, 3);
      values[size / 2] = bad;
      values[size - 1] = bad;
      const UpdateNorm norm = MeasureUpdate(values);
      INFO(size << " values, " << bad);
      CHECK(norm.not_finite == (size == 1 ? 1 : 2));
      CHECK(norm.first_not_finite == size / 2);
    }
  }
}

TEST_CASE("opposite infinities do not cancel", "[unit]") {
  std::vector<float> values(4096, 1.0F);
  values[4000] = kInfinity;
  values[4001] = -kInfinity;
  const UpdateNorm norm = MeasureUpdate(values);
  CHECK(norm.not_finite == 2);
  CHECK(norm.first_not_finite == 4000);
}

TEST_CASE("a difference is taken in float, in place too", "[unit]") {
  for (const std::size_t size : test::Sizes{0, 1, 7, 15, 16, 17, 63, 65}) {
    test::Unaligned trained(test::RandomFloats(size, 1));
    const std::vector<float> received = test::RandomFloats(size, 2);
    std::vector<float> expected(size);
    for (std::size_t i = 0; i < size; ++i) expected[i] = trained.values()[i] - received[i];
    Difference(trained.values(), received, trained.values());
    CHECK(std::equal(expected.begin(), expected.end(), trained.values().begin()));
  }
}

}  // namespace
}  // namespace skep::kernels
