// A value of a configuration file, its canonical TOML text, and the units of durations, sizes and
// rates.
//
// Not a TOML library: tables and lists exist as far as the keys of this project need them. Plain
// values, any thread. Source: docs/reference/configuration.md (rules).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shared/base/clock.h"

namespace skep::config {

struct Value;
using List = std::vector<Value>;
using Table = std::map<std::string, Value>;

// TOML's date and time types: no key takes one, so that only the fact is kept.
struct DateOrTime {
  friend bool operator==(const DateOrTime&, const DateOrTime&) = default;
};

struct Value {
  using Data = std::variant<bool, std::int64_t, double, std::string, List, Table, DateOrTime>;
  Data data;

  // Defined out of line: inlined moves of the variant give GCC 12 false alarms
  // (maybe-uninitialized).
  Value(Data from);  // NOLINT(google-explicit-constructor)
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  friend bool operator==(const Value&, const Value&) = default;

  // Precondition of the first six: the value is of that kind. A whole number is a number too.
  [[nodiscard]] bool boolean() const { return std::get<bool>(data); }
  [[nodiscard]] std::int64_t integer() const { return std::get<std::int64_t>(data); }
  [[nodiscard]] double number() const;
  [[nodiscard]] const std::string& text() const { return std::get<std::string>(data); }
  [[nodiscard]] const List& list() const { return std::get<List>(data); }
  [[nodiscard]] const Table& table() const { return std::get<Table>(data); }
  [[nodiscard]] bool is_text() const { return std::holds_alternative<std::string>(data); }
  [[nodiscard]] bool is_integer() const { return std::holds_alternative<std::int64_t>(data); }
  [[nodiscard]] bool is_list() const { return std::holds_alternative<List>(data); }
};

// Canonical TOML: sorted tables, shortest numbers (a number with a fraction always shows it), basic
// strings.
[[nodiscard]] std::string ToToml(const Value& value);
// "a whole number", "a string": what a message says was found.
[[nodiscard]] std::string_view KindOf(const Value& value);

// "250ms", "30s", "2m", "1h", "7d"; nothing for another form or beyond 292 years.
[[nodiscard]] std::optional<Nanoseconds> ParseDuration(std::string_view text);
// "64MiB" (1024^n) or "64MB" (1000^n), up to 2^63 - 1 bytes.
[[nodiscard]] std::optional<std::uint64_t> ParseSize(std::string_view text);
// A size per second: "4KiB/s".
[[nodiscard]] std::optional<std::uint64_t> ParseRate(std::string_view text);

// The shortest text that reads back to the same value. Precondition: it came from the parser of its
// kind.
[[nodiscard]] std::string DurationText(Nanoseconds duration);
[[nodiscard]] std::string SizeText(std::uint64_t bytes);

// 1234567 -> "1,234,567".
[[nodiscard]] std::string Grouped(std::uint64_t number);

}  // namespace skep::config
