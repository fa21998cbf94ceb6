#include "simulator/json.h"

#include <limits>

#include "tests/support/catch.h"

namespace skep::simulator {
namespace {

TEST_CASE("numbers are printed as briefly as they read back", "[unit]") {
  CHECK(JsonNumber(0.1) == "0.1");
  CHECK(JsonNumber(5.0) == "5");
  CHECK(JsonNumber(1e-5) == "1e-05");
  CHECK(JsonNumber(0.30000000000000004) == "0.30000000000000004");
  CHECK(JsonNumber(std::numeric_limits<double>::quiet_NaN()) == "null");
  CHECK(JsonNumber(std::numeric_limits<double>::infinity()) == "null");
  CHECK(JsonSeconds(7.4140004) == "7.414");
}

TEST_CASE("text of every kind survives writing and reading", "[unit]") {
  for (const std::string& text :
       {std::string("plain"), std::string("\"quoted\" \\ back"), std::string("line\nbreak\ttab"),
        std::string("\x01\x1f"), std::string("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x90\x9D")}) {
    const auto value = ParseJson(JsonObject().Add("t", text).Text());
    REQUIRE(value.has_value());
    CHECK(value->Text("t") == text);
  }
}

TEST_CASE("escapes of code points beyond the first plane read as one character", "[unit]") {
  CHECK(ParseJson("{\"t\":\"\\ud83d\\udc1d\\u00e9\"}").value().Text("t") ==
        "\xF0\x9F\x90\x9D\xC3\xA9");
}

TEST_CASE("what is not JSON is refused", "[unit]") {
  for (const char* text : {"", "{", "}", "{\"a\":}", "{\"a\":1,}", "[1,]", "{\"a\":1}x", "nul",
                           "01x", "{\"a\":1,\"a\":2}", "\"\\ud83d\"", "\"\\udc1d\"", "\"\\u12\"",
                           "\"open", "{a:1}", "1e999", "\"\x01\"", "+1"}) {
    INFO(text);
    const auto value = ParseJson(text);
    REQUIRE_FALSE(value.has_value());
    CHECK(value.error().code == 4001);
  }
}

TEST_CASE("nesting beyond 32 levels is refused", "[unit]") {
  CHECK(ParseJson(std::string(30, '[') + std::string(30, ']')).has_value());
  CHECK_FALSE(ParseJson(std::string(100'000, '[')).has_value());
}

TEST_CASE("a whole number is one without fraction that a double holds exactly", "[unit]") {
  const JsonValue value =
      ParseJson("{\"a\":7,\"b\":7.5,\"c\":-1,\"d\":9007199254740993,\"e\":\"7\"}").value();
  CHECK(value.Whole("a") == 7U);
  for (const char* key : {"b", "c", "d", "e", "f"}) CHECK_FALSE(value.Whole(key).has_value());
}

}  // namespace
}  // namespace skep::simulator
