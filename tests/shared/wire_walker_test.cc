#include <array>

#include "shared/wire/codec.h"
#include "shared/wire/preparse.h"
#include "tests/shared/wire_samples.h"
#include "tests/support/catch.h"

namespace skep::wire {
namespace {

Bytes Hex(std::string_view text) {
  return FromHex(text).value();
}

// The code with which a message is refused; 0 if it is accepted.
int CodeOf(MessageId id, const Bytes& payload) {
  const auto decoded = DecodeMessage(id, payload);
  return decoded ? 0 : decoded.error().code;
}
int CodeOf(MessageId id, std::string_view hex) {
  return CodeOf(id, Hex(hex));
}
int PlanCode(std::string_view hex) {
  const auto decoded = DecodePlan(Hex(hex));
  return decoded ? 0 : decoded.error().code;
}

// A length-delimited field with number below 16.
Bytes Field(unsigned number, const Bytes& content) {
  Bytes field{static_cast<std::uint8_t>(number << 3 | 2)};
  std::size_t rest = content.size();
  for (; rest >= 0x80; rest >>= 7) field.push_back(static_cast<std::uint8_t>(rest | 0x80));
  field.push_back(static_cast<std::uint8_t>(rest));
  Append(field, content);
  return field;
}

template <class... Parts>
Bytes Joined(const Parts&... parts) {
  Bytes all;
  (Append(all, parts), ...);
  return all;
}

Bytes Text(std::string_view text) {
  const BytesView bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

Bytes Repeated(const Bytes& part, std::size_t times) {
  Bytes all;
  for (std::size_t i = 0; i < times; ++i) Append(all, part);
  return all;
}

// ComeBack{latest_ms 1, reason 1} is the smallest message with numbers to play with.
constexpr std::string_view kComeBack = "10011801";

std::string Hello(std::string_view more) {
  return std::string(
             "0801"
             "220173")
      .append(more);
}

TEST_CASE("the smallest messages are accepted", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack, kComeBack) == 0);
  CHECK(CodeOf(MessageId::kHello, Hello("")) == 0);
}

TEST_CASE("a tag longer than five bytes is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "908080808000"
               "01") == 3206);
}
TEST_CASE("a tag above 32 bits is refused, not cut", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "9080808010"
               "01"
               "1801") == 3206);
}
TEST_CASE("a tag of five bytes that says no more than one byte is accepted", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "9080808000"
               "01"
               "1801") == 0);
}
TEST_CASE("a tag cut by the end is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "10011801"
               "90") == 3206);
}
TEST_CASE("field number 0 is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack, "0001") == 3206);
}
TEST_CASE("groups are refused before their number is looked at", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack, "13") == 3206);
  CHECK(CodeOf(MessageId::kComeBack, "14") == 3206);
  CHECK(CodeOf(MessageId::kHello, Hello("fb01"
                                        "fc01")) == 3206);
}
TEST_CASE("wire types 6 and 7 are refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack, "16") == 3206);
  CHECK(CodeOf(MessageId::kComeBack, "17") == 3206);
}

TEST_CASE("a value of eleven bytes is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kTransferProgress,
               "0801"
               "108080808080808080808001") == 3206);
}
TEST_CASE("the tenth byte of a value is 0 or 1", "[unit]") {
  CHECK(CodeOf(MessageId::kTransferProgress,
               "0801"
               "10ffffffffffffffffff02") == 3206);
  CHECK(CodeOf(MessageId::kTransferProgress,
               "0801"
               "10ffffffffffffffffff01") == 0);
}
TEST_CASE("a value longer than it needs to be is accepted", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "108100"
               "1801") == 0);
}
TEST_CASE("a value cut by the end is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "1801"
               "1080") == 3206);
  CHECK(CodeOf(MessageId::kPing, "0901020304050607") == 3206);
}
TEST_CASE("a length of six bytes is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "22818080808000"
               "73") == 3206);
}
TEST_CASE("a length past the end of the message is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "220273") == 3206);
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "22ffffffff7f"
               "73") == 3206);
}
TEST_CASE("a field may not pass the end of its sub-message", "[unit]") {
  // Goodbye.come_back of four bytes whose last value goes on into the parent.
  CHECK(CodeOf(MessageId::kGoodbye,
               "0801"
               "1204"
               "10011881"
               "00") == 3206);
}

TEST_CASE("a double may not pass the end of its sub-message", "[unit]") {
  // UploadBegin.metrics: an id, then seven bytes of a value that would go on into the parent.
  CHECK(CodeOf(MessageId::kUploadBegin,
               "520a"
               "0801"
               "1100000000000000"
               "5801") == 3206);
}

TEST_CASE("an unknown field is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "10011801"
               "2001") == 3207);
  CHECK(CodeOf(MessageId::kComeBack,
               "10011801"
               "fa0100") == 3207);
}
TEST_CASE("an unknown field in a sub-message is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kGoodbye,
               "0801"
               "1206"
               "10011801"
               "2001") == 3207);
}
TEST_CASE("sixteen unknown fields of an opening message are ignored, one more is refused",
          "[unit]") {
  const Bytes unknown =
      Hex("8001"
          "01");
  CHECK(CodeOf(MessageId::kHello, Joined(Hex(Hello("")), Repeated(unknown, 16))) == 0);
  CHECK(CodeOf(MessageId::kHello, Joined(Hex(Hello("")), Repeated(unknown, 17))) == 3207);
}
TEST_CASE("1 KiB of unknown fields of an opening message is ignored, one byte more is refused",
          "[unit]") {
  // Two bytes of tag, two of length.
  const auto unknown = [](std::size_t size) {
    return Joined(
        Hex("8201"),
        Bytes{static_cast<std::uint8_t>(size | 0x80), static_cast<std::uint8_t>(size >> 7)},
        Bytes(size));
  };
  CHECK(CodeOf(MessageId::kHello, Joined(Hex(Hello("")), unknown(1020))) == 0);
  CHECK(CodeOf(MessageId::kHello, Joined(Hex(Hello("")), unknown(1021))) == 3207);
}
TEST_CASE("unknown fields of an opening message must be well formed", "[unit]") {
  CHECK(CodeOf(MessageId::kHello, Hello("8001"
                                        "ffffffffffffffffff02")) == 3206);
  CHECK(CodeOf(MessageId::kHello, Hello("8201"
                                        "05"
                                        "00")) == 3206);
  CHECK(CodeOf(MessageId::kHello, Hello("8101"
                                        "00000000")) == 3206);
  CHECK(CodeOf(MessageId::kHello, Hello("8501"
                                        "000000")) == 3206);
  CHECK(CodeOf(MessageId::kHello, Hello("8501"
                                        "00000000")) == 0);
}

TEST_CASE("a known field of another wire type is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "120101"
               "1801") == 3206);
  CHECK(CodeOf(MessageId::kComeBack,
               "1501000000"
               "1801") == 3206);
  CHECK(CodeOf(MessageId::kPing, "0801") == 3206);
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "2001") == 3206);
}
TEST_CASE("lists of numbers may be packed, single, or both", "[unit]") {
  const std::string start =
      "0a0170"
      "1801"
      "2001";
  CHECK(CodeOf(MessageId::kPoll, start + "2a020102"
                                         "320101") == 0);
  CHECK(CodeOf(MessageId::kPoll, start + "28012802"
                                         "3001") == 0);
  CHECK(CodeOf(MessageId::kPoll, start + "2801"
                                         "2a0102"
                                         "3001") == 0);
}
TEST_CASE("a number may not pass the end of its packed run", "[unit]") {
  CHECK(CodeOf(MessageId::kPoll,
               "0a0170"
               "1801"
               "2001"
               "2a0181"
               "0032"
               "0101") == 3206);
}

TEST_CASE("a u32 above 32 bits is refused, not cut", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "108180808010"
               "1801") == 3208);
  CHECK(CodeOf(MessageId::kComeBack,
               "10ffffffff0f"
               "1801") == 0);
}
TEST_CASE("a bool is 0 or 1", "[unit]") {
  test::Samples samples(5);
  auto offer = std::get<TaskOffer>(samples.Any(8));
  offer.detach_allowed = false;
  const Bytes payload = EncodeMessage(offer);
  CHECK(CodeOf(MessageId::kTaskOffer, Joined(payload, Hex("2001"))) == 0);
  CHECK(CodeOf(MessageId::kTaskOffer, Joined(payload, Hex("2002"))) == 3208);
}
TEST_CASE("an enumeration outside its list is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "1001"
               "1808") == 3208);
  CHECK(CodeOf(MessageId::kError,
               "0801"
               "1006") == 3208);
}
TEST_CASE("an enumeration that is explicitly 0 counts as absent", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "1001"
               "1800") == 3212);
  CHECK(PlanCode("0801"
                 "12070a017710012000") == 0);
}
TEST_CASE("a 0 in a list of kinds or dimensions is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kPoll,
               "0a0170"
               "1801"
               "2001"
               "2a020100"
               "3001") == 3208);
  CHECK(CodeOf(MessageId::kPoll,
               "0a0170"
               "1801"
               "2001"
               "2801"
               "3000") == 3208);
  CHECK(PlanCode("0801"
                 "12080a017710011a0100") == 3208);
}
TEST_CASE("bytes of fixed length have it, none included", "[unit]") {
  CHECK(CodeOf(MessageId::kPlanRequest, Field(1, Bytes(32))) == 0);
  CHECK(CodeOf(MessageId::kPlanRequest, Field(1, Bytes(31))) == 3208);
  CHECK(CodeOf(MessageId::kPlanRequest, Field(1, Bytes(33))) == 3208);
  CHECK(CodeOf(MessageId::kPlanRequest, Field(1, {})) == 3208);
}
TEST_CASE("a setting that is not finite is refused", "[unit]") {
  // Param{key "k", number}
  const std::string start =
      "0801"
      "12050a01771001"
      "1a0c"
      "0a016b"
      "11";
  CHECK(PlanCode(start + "000000000000f03f") == 0);
  CHECK(PlanCode(start + "000000000000f07f") == 3208);
  CHECK(PlanCode(start + "000000000000f8ff") == 3208);
}
TEST_CASE("permille above 1000 is refused", "[unit]") {
  const Bytes task = Field(1, Joined(Field(1, Bytes(16, 1)), Hex("100118012001")));
  CHECK(CodeOf(MessageId::kProgress, Joined(task, Hex("1001"
                                                      "18e807"))) == 0);
  CHECK(CodeOf(MessageId::kProgress, Joined(task, Hex("1001"
                                                      "18e907"))) == 3208);
}

TEST_CASE("a field that comes twice is refused, whatever its values", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "1001"
               "1001"
               "1801") == 3209);
  CHECK(CodeOf(MessageId::kComeBack,
               "1000"
               "1001"
               "1801") == 3209);
  CHECK(CodeOf(MessageId::kGoodbye,
               "0801"
               "120410011801"
               "120410011801") == 3209);
}
TEST_CASE("a list above its count is refused", "[unit]") {
  const Bytes key = Field(7, Bytes(8));
  CHECK(CodeOf(MessageId::kHello, Joined(Hex(Hello("")), Repeated(key, 4))) == 0);
  CHECK(CodeOf(MessageId::kHello, Joined(Hex(Hello("")), Repeated(key, 5))) == 3209);
}
TEST_CASE("a packed list above its count is refused", "[unit]") {
  const Bytes start =
      Hex("0a0170"
          "1801"
          "2001"
          "3001");
  CHECK(CodeOf(MessageId::kPoll, Joined(start, Field(5, Bytes(16, 1)))) == 0);
  CHECK(CodeOf(MessageId::kPoll, Joined(start, Field(5, Bytes(17, 1)))) == 3209);
  CHECK(CodeOf(MessageId::kPoll, Joined(start, Field(5, Bytes(16, 1)), Hex("2801"))) == 3209);
}
TEST_CASE("the element too many is refused before its content is looked at", "[unit]") {
  const Bytes keys = Repeated(Field(7, Bytes(8)), 4);
  CHECK(CodeOf(MessageId::kHello, Joined(Hex(Hello("")), keys, Field(7, Bytes(9)))) == 3209);
}

TEST_CASE("a text outside printable ASCII is refused, NUL included", "[unit]") {
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "220173"
               "2a0100") == 3210);
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "22017f") == 3210);
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "2202c3a9") == 3210);
}
TEST_CASE("a name outside its character set or length is refused", "[unit]") {
  const Bytes rest =
      Hex("1801"
          "2001"
          "2801"
          "3001");
  const auto poll = [&rest](std::string_view name) {
    return CodeOf(MessageId::kPoll, Joined(Field(1, Text(name)), rest));
  };
  CHECK(poll("north-2_B") == 0);
  CHECK(poll("a.b") == 3210);
  CHECK(poll("a b") == 3210);
  CHECK(poll(std::string(64, 'n')) == 0);
  CHECK(poll(std::string(65, 'n')) == 3210);
}
TEST_CASE("a text or byte string above its limit is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kHello, Joined(Hex("0801"), Field(4, Bytes(64, 's')))) == 0);
  CHECK(CodeOf(MessageId::kHello, Joined(Hex("0801"), Field(4, Bytes(65, 's')))) == 3210);
  CHECK(CodeOf(MessageId::kRenewRequest, Field(1, Bytes(2048))) == 0);
  CHECK(CodeOf(MessageId::kRenewRequest, Field(1, Bytes(2049))) == 3210);
}
TEST_CASE("a label with white space at an end, or a control or direction character, is refused",
          "[unit]") {
  const auto label = [](std::string_view text) {
    const auto decoded = DecodePlan(Joined(Hex("0801"
                                               "12050a01771001"),
                                           Field(5, Joined(Hex("0801"), Field(3, Text(text))))));
    return decoded ? 0 : decoded.error().code;
  };
  CHECK(label("caf\xC3\xA9 au lait") == 0);
  CHECK(label("") == 3210);
  CHECK(label(" a") == 3210);
  CHECK(label("a\xC2\xA0") == 3210);
  CHECK(label("a\tb") == 3210);
  CHECK(label("a\xE2\x80\xAE"
              "b") == 3210);
  CHECK(label("a\xC2\x85"
              "b") == 3210);
  CHECK(label("\xC3\x28") == 3210);
  CHECK(label("\xED\xA0\x80") == 3210);
  CHECK(label("\xC0\xAF") == 3210);
  CHECK(label("\xE0\x80\xAF") == 3210);
  CHECK(label("\xF0\x80\x80\xAF") == 3210);
  CHECK(label("\xF4\x90\x80\x80") == 3210);
  CHECK(label(std::string(65, 'a')) == 3210);
}

TEST_CASE("a required field that is absent, zero or empty is refused", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack, "") == 3212);
  CHECK(CodeOf(MessageId::kComeBack, "1801") == 3212);
  CHECK(CodeOf(MessageId::kComeBack, "10001801") == 3212);
  CHECK(CodeOf(MessageId::kHello,
               "0801"
               "2200") == 3212);
  CHECK(CodeOf(MessageId::kRenewRequest, "0a00") == 3212);
  CHECK(CodeOf(MessageId::kPing, "090000000000000000") == 3212);
  CHECK(CodeOf(MessageId::kPoll,
               "0a0170"
               "1801"
               "2001"
               "2a00"
               "3001") == 3212);
}
TEST_CASE("an id of zeros is present", "[unit]") {
  CHECK(CodeOf(MessageId::kPlanRequest, Field(1, Bytes(32, 0))) == 0);
}
TEST_CASE("a sub-message is judged at its own end, before its parent", "[unit]") {
  // The empty come_back lacks latest_ms; the unknown field after it comes too late to matter.
  CHECK(CodeOf(MessageId::kGoodbye,
               "1200"
               "2001") == 3212);
  // The parent's own missing field is judged last.
  CHECK(CodeOf(MessageId::kGoodbye,
               "120410011801"
               "2001") == 3207);
  CHECK(CodeOf(MessageId::kGoodbye, "120410011801") == 3212);
}
TEST_CASE("the first broken rule in wire order names the error", "[unit]") {
  CHECK(CodeOf(MessageId::kComeBack,
               "1001"
               "1808"
               "2001") == 3208);
  CHECK(CodeOf(MessageId::kComeBack,
               "1001"
               "2001"
               "1808") == 3207);
}

TEST_CASE("empty sub-messages are refused long before they cost memory", "[unit]") {
  // 30,720 empty tensors: the first one already lacks its name.
  CHECK(DecodePlan(Repeated(Hex("1200"), 30'000)).error().code == 3212);
  const Bytes tensor = Hex("12050a01771001");
  CHECK(DecodePlan(Joined(Hex("0801"), Repeated(tensor, 1025))).error().code == 3209);
}

struct DeepTable {
  std::array<FieldRule, 2> fields{{
      {.number = 1, .name = "again", .type = FieldType::kMessage, .message = &rule},
      {.number = 2,
       .name = "numbers",
       .type = FieldType::kU32,
       .limit = 0xFFFFFFFFU,
       .most = 0xFFFF,
       .is_list = true},
  }};
  MessageRule rule{"Node", fields, false};
};

TEST_CASE("four levels are walked, a fifth is refused", "[unit]") {
  const DeepTable table;
  CHECK(Walk(table.rule, Hex("0a04"
                             "0a02"
                             "0a00"))
            .has_value());
  const Status fifth = Walk(table.rule, Hex("0a06"
                                            "0a04"
                                            "0a02"
                                            "0a00"));
  REQUIRE_FALSE(fifth.has_value());
  CHECK(fifth.error().code == 3211);
}

TEST_CASE("16,384 fields are walked, one more is refused; a packed run is one", "[unit]") {
  const DeepTable table;
  CHECK(Walk(table.rule, Repeated(Hex("1001"), 16'384)).has_value());
  const Status more = Walk(table.rule, Repeated(Hex("1001"), 16'385));
  REQUIRE_FALSE(more.has_value());
  CHECK(more.error().code == 3211);
  CHECK(Walk(table.rule, Repeated(Hex("1203010101"), 16'384)).has_value());
}

}  // namespace
}  // namespace skep::wire
