#include "shared/wire/tensor_codec.h"

#include <array>
#include <bit>
#include <limits>

#include "tests/support/catch.h"

namespace skep::wire {
namespace {

TEST_CASE("bodies have the sizes of the protocol", "[unit]") {
  CHECK(BodySize(Encoding::kF32, 7'850).value() == 31'400);
  CHECK(BodySize(Encoding::kF16, 7'850).value() == 15'700);
  CHECK(BodySize(Encoding::kBf16, 7'850).value() == 15'700);
  CHECK(BodySize(Encoding::kI8Block, 256).value() == 260);
  CHECK(BodySize(Encoding::kI8Block, 257).value() == 265);
  CHECK(BodySize(Encoding::kTopK, 100, 10).value() == 84);
  CHECK(BodySize(Encoding::kF32, std::uint64_t{1} << 34).value() == std::uint64_t{1} << 36);
}

TEST_CASE("an encoding without a body is refused by number", "[unit]") {
  for (const std::uint32_t id : {0U, 6U, 7U, 15U, 16U, 0xFFFFFFFFU}) {
    INFO("encoding " << id);
    CHECK(BodySize(Encoding{id}, 10).error().code == 2112);
    CHECK(CheckBodySize(Encoding{id}, 10, 40).error().code == 2112);
  }
}

TEST_CASE("a size that is not exact is refused by number", "[unit]") {
  CHECK(CheckBodySize(Encoding::kF32, 10, 40).has_value());
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{39}, std::uint64_t{41},
                                   std::numeric_limits<std::uint64_t>::max()}) {
    INFO("size " << size);
    CHECK(CheckBodySize(Encoding::kF32, 10, size).error().code == 2101);
    CHECK(CheckBodySize(Encoding::kI8Block, 10, size).error().code == 2101);
  }
}

TEST_CASE("a top-k size is one of a k between 1 and all", "[unit]") {
  CHECK(CheckBodySize(Encoding::kTopK, 10, 12).has_value());
  CHECK(CheckBodySize(Encoding::kTopK, 10, 84).has_value());
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{4}, std::uint64_t{13}, std::uint64_t{92},
        std::numeric_limits<std::uint64_t>::max()}) {
    INFO("size " << size);
    CHECK(CheckBodySize(Encoding::kTopK, 10, size).error().code == 2101);
  }
  CHECK(BodySize(Encoding::kTopK, 10, 0).error().code == 2101);
  CHECK(BodySize(Encoding::kTopK, 10, 11).error().code == 2101);
}

TEST_CASE("f32 values come back bit by bit, little-endian", "[unit]") {
  constexpr std::array<float, 5> values{1.0F, -0.0F, 1e-45F, std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<float>::quiet_NaN()};
  const Bytes body = EncodeF32(values);
  CHECK(ToHex(BytesView(body).first(8)) == "0000803f00000080");
  std::array<float, 5> back{};
  REQUIRE(DecodeF32(body, back).has_value());
  CHECK(std::bit_cast<std::array<std::uint32_t, 5>>(back) ==
        std::bit_cast<std::array<std::uint32_t, 5>>(values));
}

TEST_CASE("a body of another size leaves the values alone", "[unit]") {
  std::array<float, 2> values{3.0F, 4.0F};
  CHECK(DecodeF32(Bytes(7), values).error().code == 2101);
  CHECK(DecodeF32(Bytes(12), values).error().code == 2101);
  CHECK(values == std::array<float, 2>{3.0F, 4.0F});
  CHECK(DecodeF32({}, {}).has_value());
}

}  // namespace
}  // namespace skep::wire
