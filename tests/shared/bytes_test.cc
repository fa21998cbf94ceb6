#include "shared/base/bytes.h"

#include "shared/base/sha256.h"
#include "tests/support/catch.h"

namespace skep {
namespace {

TEST_CASE("CRC32C gives the check value, whole and in parts", "[unit]") {
  CHECK(Crc32c(AsBytes("123456789")) == 0xE3069283);
  CHECK(Crc32c(AsBytes("56789"), Crc32c(AsBytes("1234"))) == 0xE3069283);
  CHECK(Crc32c({}) == 0);
}

TEST_CASE("hexadecimal text reads back", "[unit]") {
  const Bytes bytes{0x00, 0x9f, 0xff};
  CHECK(ToHex(bytes) == "009fff");
  CHECK(FromHex("009FFF") == bytes);
  CHECK_FALSE(FromHex("abc").has_value());
  CHECK_FALSE(FromHex("zz").has_value());
}

TEST_CASE("a reader never passes the end", "[unit]") {
  const Bytes bytes{1, 2, 3, 4, 5};
  ByteReader reader(bytes);
  CHECK(reader.Little<std::uint32_t>() == 0x04030201U);
  CHECK_FALSE(reader.Little<std::uint16_t>().has_value());
  CHECK(reader.Take(1).has_value());
  CHECK_FALSE(reader.Take(1).has_value());
}

TEST_CASE("SHA-256 is the same at once and in parts", "[unit]") {
  Sha256 hash;
  hash.Update(AsBytes("a"));
  hash.Update(AsBytes("bc"));
  const Hash32 parts = hash.Finish();
  CHECK(parts.Hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256::Of(AsBytes("abc")) == parts);
}

}  // namespace
}  // namespace skep
