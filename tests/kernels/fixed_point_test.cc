#include "kernels/fixed_point.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/backend.h"
#include "kernels/sum_loops.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

std::vector<std::int64_t> Sums(const ExactSum& sum) {
  return {sum.values().begin(), sum.values().end()};
}

TEST_CASE("the scale is the published one at the default limits", "[unit]") {
  CHECK(ScaleFor({.max_norm = 100, .max_weight = 1 << 20, .max_reports = 1}).value() == 23);
  CHECK(ScaleFor({.max_norm = 100, .max_weight = 1 << 20, .max_reports = 10}).value() == 23);
  CHECK(ScaleFor({.max_norm = 100, .max_weight = 1 << 20, .max_reports = 10'000}).value() == 21);
  CHECK(ScaleFor({.max_norm = 100, .max_weight = 1, .max_reports = 10}).value() == 43);
}

TEST_CASE("the scale uses every bit and none too many", "[unit]") {
  CHECK(ScaleFor({.max_norm = 1, .max_weight = 1, .max_reports = 1}).value() == 50);
  CHECK(
      ScaleFor({.max_norm = std::nextafter(1.0, 2.0), .max_weight = 1, .max_reports = 1}).value() ==
      49);
  CHECK(ScaleFor({.max_norm = 1, .max_weight = 1, .max_reports = 2048}).value() == 50);
  CHECK(ScaleFor({.max_norm = 1, .max_weight = 1, .max_reports = 2049}).value() == 49);
  CHECK(ScaleFor({.max_norm = 0x1p-300, .max_weight = 1, .max_reports = 1}).value() == 200);
  CHECK(ScaleFor({.max_norm = 1, .max_weight = 1, .max_reports = 1, .max_factor = 4}).value() ==
        48);
}

TEST_CASE("limits that leave too few bits are refused by number", "[unit]") {
  const auto scale = ScaleFor({.max_norm = 1000, .max_weight = 1 << 20, .max_reports = 13'000});
  REQUIRE_FALSE(scale.has_value());
  CHECK(scale.error().code == 5304);
  CHECK(scale.error().message ==
        "fixed-point range: max_norm 1000 x max_weight 1048576 x 13000 reports leaves 17 bits; at "
        "least 20");
  CHECK(scale.error().hint == "lower one of them");
}

TEST_CASE("limits that are no numbers are refused by number", "[unit]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double norm : {infinity, nan}) {
    const auto scale = ScaleFor({.max_norm = norm, .max_weight = 1, .max_reports = 1});
    REQUIRE_FALSE(scale.has_value());
    CHECK(scale.error().code == 5304);
  }
}

TEST_CASE("weights whose sum could pass 2^41 are refused by number", "[unit]") {
  CHECK(ScaleFor({.max_norm = 1e-6, .max_weight = 1 << 20, .max_reports = 1U << 21}).has_value());
  const auto scale =
      ScaleFor({.max_norm = 1e-6, .max_weight = 1 << 20, .max_reports = (1U << 21) + 1});
  REQUIRE_FALSE(scale.has_value());
  CHECK(scale.error().code == 5304);
}

TEST_CASE("the sum does not depend on the order of updates", "[unit]") {
  constexpr std::array<std::array<float, 2>, 3> updates{
      {{1e-7F, -0.1F}, {3.0F, 0.1F}, {-3.0F, 1e-30F}}};
  constexpr std::array<double, 3> weights{600.0, 1.0, 0.7071067811865476};
  const int scale = ScaleFor({.max_norm = 100, .max_weight = 1 << 20, .max_reports = 3}).value();

  std::array<std::size_t, 3> order{0, 1, 2};
  std::array<float, 2> first{};
  for (bool is_first = true; is_first || std::next_permutation(order.begin(), order.end());
       is_first = false) {
    ExactSum sum(2, scale);
    for (const std::size_t k : order) sum.Add(updates[k], weights[k]);
    std::array<float, 2> model{0.5F, -0.5F};
    sum.Step(model, 1.0, model);
    if (is_first) first = model;
    INFO("order " << order[0] << order[1] << order[2]);
    REQUIRE(std::bit_cast<std::uint32_t>(model[0]) == std::bit_cast<std::uint32_t>(first[0]));
    REQUIRE(std::bit_cast<std::uint32_t>(model[1]) == std::bit_cast<std::uint32_t>(first[1]));
  }
}

TEST_CASE("merged sums equal one sum, whatever the tree", "[unit]") {
  constexpr std::size_t kSize = 65;
  ExactSum flat(kSize, 23);
  std::vector<ExactSum> parts(3, ExactSum(kSize, 23));
  for (std::size_t k = 0; k < 9; ++k) {
    const std::vector<float> update = test::RandomFloats(kSize, k);
    const double weight = 1 + 0.3 * static_cast<double>(k);
    flat.Add(update, weight);
    parts[k % 3].Add(update, weight);
  }
  parts[2].Merge(parts[0]);
  parts[1].Merge(parts[2]);
  CHECK(Sums(parts[1]) == Sums(flat));
  CHECK(parts[1].weight() == flat.weight());
}

TEST_CASE("a product is rounded once, ties to even", "[unit]") {
  ExactSum sum(4, 20);
  const std::array<float, 4> update{0x1p-21F, 0x1.8p-20F, -0x1p-21F,
                                    0x1.4p-19F};  // 0.5, 1.5, -0.5, 2.5 units
  sum.Add(update, 1);
  CHECK(Sums(sum) == std::vector<std::int64_t>{0, 2, 0, 2});

  // A product just below a half: rounded by itself it becomes the half, and then goes up.
  const float three = 3.0F;
  const double weight = 0x1.070d33c52d51dp+48;
  ExactSum one(1, 0);
  one.Add({&three, 1}, weight);
  CHECK(Sums(one)[0] == 867'684'783'720'437);
  CHECK(std::llrint(weight * 3.0) == 867'684'783'720'438);
}

TEST_CASE("the largest sums that the limits allow do not overflow", "[unit]") {
  const SumLimits limits{.max_norm = 1, .max_weight = 1, .max_reports = 2048};
  const int scale = ScaleFor(limits).value();
  const float value = -1.0F;
  ExactSum sum(1, scale);
  for (std::uint32_t k = 0; k < limits.max_reports; ++k) sum.Add({&value, 1}, 1);
  CHECK(Sums(sum)[0] == -(std::int64_t{1} << 61));
  float model = 1;
  sum.Step({&model, 1}, 1.0, {&model, 1});
  CHECK(model == 0);
}

TEST_CASE("the step rounds every operation by itself", "[unit]") {
  constexpr std::size_t kSize = 65;
  const std::vector<float> old_model = test::RandomFloats(kSize, 1);
  for (const double rate : {1.0, 0.7, 1e-3}) {
    ExactSum sum(kSize, 30);
    sum.Add(test::RandomFloats(kSize, 2), 3.7);
    sum.Add(test::RandomFloats(kSize, 3), 0.1);
    std::vector<float> model(kSize);
    sum.Step(old_model, rate, model);
    const double total = std::ldexp(static_cast<double>(sum.weight()), -20);
    for (std::size_t i = 0; i < kSize; ++i) {
      const double mean = std::ldexp(static_cast<double>(sum.values()[i]), -30) / total;
      const volatile double part = rate * mean;  // rounded, whatever the compiler would rather do
      CHECK(model[i] == static_cast<float>(static_cast<double>(old_model[i]) + part));
    }
  }
}

// Every set against the definition, at sizes around the widths of the registers.
TEST_CASE("every instruction set gives the sums of the definition, bit for bit", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const SumLoops& loops = SumLoopsFor(isa);
    for (const std::size_t size : test::Sizes{0, 1, 7, 8, 9, 15, 16, 17, 63, 65, 1000}) {
      // Weights with few bits, with many, and tiny: the portable set has a short cut for the first.
      for (const double weight : {1.0, 600.0, 1048576.0, 0.7071067811865476, 1.0 / 3, 1e-12}) {
        INFO(IsaName(isa) << ", " << size << " values, weight " << weight);
        std::vector<float> update = test::RandomFloats(size, size + 1);
        if (size > 6) {
          update[0] = -0.0F;
          update[1] = 1e-42F;
          update[2] = 0x1p-24F;
          update[3] = -0x1.8p-23F;
          update[4] = 0.5F;
          update[5] = -1.0F;
        }
        test::Unaligned unaligned(update);
        const double scaled = std::ldexp(weight, 23);
        std::vector<std::int64_t> sum(size, 41);
        std::vector<std::int64_t> expected(size, 41);
        loops.accumulate(sum.data(), unaligned.data(), size, scaled);
        for (std::size_t i = 0; i < size; ++i) {
          const double fused = std::fma(scaled, static_cast<double>(update[i]), 0x1.8p52);
          expected[i] += std::bit_cast<std::int64_t>(fused) - std::bit_cast<std::int64_t>(0x1.8p52);
        }
        REQUIRE(sum == expected);
      }
    }
  }
}

TEST_CASE("every instruction set merges and steps alike", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t size : test::Sizes{0, 1, 7, 8, 9, 15, 16, 17, 63, 65}) {
      INFO(IsaName(isa) << ", " << size << " values");
      std::vector<std::int64_t> sum(size);
      std::vector<std::int64_t> other(size);
      RandomStream stream(size, {.purpose = Purpose::kSyntheticData});
      for (std::size_t i = 0; i < size; ++i) {
        sum[i] = static_cast<std::int64_t>(stream.Below(std::uint64_t{1} << 61)) -
                 (std::int64_t{1} << 60);
        other[i] = static_cast<std::int64_t>(stream.Below(1000)) - 500;
      }
      std::vector<std::int64_t> merged = sum;
      SumLoopsFor(isa).merge(merged.data(), other.data(), size);
      std::vector<std::int64_t> expected = sum;
      SumLoopsFor(Isa::kPortable).merge(expected.data(), other.data(), size);
      REQUIRE(merged == expected);

      test::Unaligned model(test::RandomFloats(size, 5));
      test::Unaligned reference = model;
      SumLoopsFor(isa).step(merged.data(), model.data(), model.data(), size, 0x1p-50, 3.3, 0.9);
      SumLoopsFor(Isa::kPortable)
          .step(expected.data(), reference.data(), reference.data(), size, 0x1p-50, 3.3, 0.9);
      REQUIRE(std::equal(model.values().begin(), model.values().end(), reference.values().begin()));
    }
  }
}

}  // namespace
}  // namespace skep::kernels
