// JSON as the simulator writes it (metrics.jsonl, `--json`) and reads it back (resume).
//
// Writing keeps the order of keys and prints the shortest number that reads back to the same
// double; what is not finite is null. Reading takes any JSON text of at most 32 levels, refuses
// equal keys, and is for files that may be damaged. Pure functions; any thread.
// Source: RFC 8259; docs/formats.md (metrics.jsonl).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "shared/base/result.h"
#include "shared/config/utf8.h"

namespace skep::simulator {

using config::JsonText;
[[nodiscard]] std::string JsonNumber(double value);
// Seconds to the microsecond: what a clock measured has no more digits.
[[nodiscard]] std::string JsonSeconds(double seconds);

// An object under construction, on one line.
class JsonObject {
 public:
  JsonObject& Add(std::string_view key, std::string_view text) { return Raw(key, JsonText(text)); }
  JsonObject& Add(std::string_view key, const char* text) { return Raw(key, JsonText(text)); }
  JsonObject& Add(std::string_view key, double value) { return Raw(key, JsonNumber(value)); }
  JsonObject& Add(std::string_view key, bool value) { return Raw(key, value ? "true" : "false"); }
  template <std::integral T>
  JsonObject& Add(std::string_view key, T value) {
    return Raw(key, std::to_string(value));
  }
  template <class T>
  JsonObject& Add(std::string_view key, const std::optional<T>& value) {
    return value ? Add(key, *value) : Raw(key, "null");
  }
  // `value` is JSON already.
  JsonObject& Raw(std::string_view key, std::string_view value);
  [[nodiscard]] std::string Text() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

// ["a","b"] from values that are JSON already.
[[nodiscard]] std::string JsonArray(const std::vector<std::string>& values);

struct JsonValue {
  using Members = std::vector<std::pair<std::string, JsonValue>>;
  std::variant<std::monostate, bool, double, std::string, std::vector<JsonValue>, Members> value;

  [[nodiscard]] bool is_null() const { return value.index() == 0; }
  // The member of that name; null if there is none or this is no object.
  [[nodiscard]] const JsonValue* Find(std::string_view key) const;
  [[nodiscard]] const Members* members() const { return std::get_if<Members>(&value); }
  [[nodiscard]] const std::vector<JsonValue>* items() const {
    return std::get_if<std::vector<JsonValue>>(&value);
  }
  [[nodiscard]] std::optional<double> Number(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> Whole(std::string_view key) const;
  [[nodiscard]] std::string Text(std::string_view key) const;  // or empty
};

// SKEP-4001 says at which byte the text stops being JSON.
[[nodiscard]] Result<JsonValue> ParseJson(std::string_view text);

}  // namespace skep::simulator
