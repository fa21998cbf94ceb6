#include "shared/config/value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "shared/config/utf8.h"

namespace skep::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// The largest first, so that the first one that divides a value gives its shortest text.
constexpr std::array<Unit, 5> kDurationUnits{{{"d", 86'400'000'000'000},
                                              {"h", 3'600'000'000'000},
                                              {"m", 60'000'000'000},
                                              {"s", 1'000'000'000},
                                              {"ms", 1'000'000}}};
constexpr std::array<Unit, 8> kSizeUnits{{{"TiB", 1ULL << 40U},
                                          {"GiB", 1ULL << 30U},
                                          {"MiB", 1ULL << 20U},
                                          {"KiB", 1ULL << 10U},
                                          {"TB", 1'000'000'000'000},
                                          {"GB", 1'000'000'000},
                                          {"MB", 1'000'000},
                                          {"kB", 1'000}}};

template <std::size_t kCount>
std::optional<std::uint64_t> ParseWithUnit(std::string_view text,
                                           const std::array<Unit, kCount>& units) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const Unit& unit : units) {
    if (unit.name == name && count <= kLargest / unit.factor) return count * unit.factor;
  }
  return std::nullopt;
}

std::string NumberText(double number) {
  if (number == 0) return "0.0";  // -0.0 too: one value, one text
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// What cannot be seen is escaped: the text goes into messages, too.
std::string QuotedText(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::string_view point = FirstPoint(text);
    text.remove_prefix(point.size());
    const bool is_stray = point.size() == 1 && static_cast<unsigned char>(point[0]) >= 0x80;
    if (point == "\"" || point == "\\") {
      quoted += '\\';
      quoted += point;
    } else if (point == "\n") {
      quoted += "\\n";
    } else if (point == "\t") {
      quoted += "\\t";
    } else if (!is_stray && IsHidden(point)) {
      quoted += TomlEscape(point);
    } else {
      quoted += point;
    }
  }
  return quoted + '"';
}

std::string KeyText(const std::string& key) {
  const bool is_bare = !key.empty() && key.find_first_not_of(
                                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_-") == std::string::npos;
  return is_bare ? key : QuotedText(key);
}

std::string ListText(const List& list) {
  std::string text = "[";
  for (const Value& item : list) {
    if (text.size() > 1) text += ", ";
    text += ToToml(item);
  }
  return text + "]";
}

std::string TableText(const Table& table) {
  if (table.empty()) return "{}";
  std::string text = "{ ";
  for (const auto& [key, item] : table) {
    if (text.size() > 2) text += ", ";
    text += KeyText(key) + " = " + ToToml(item);
  }
  return text + " }";
}

}  // namespace

Value::Value(Data from) : data(std::move(from)) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

double Value::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&data)) return static_cast<double>(*whole);
  return std::get<double>(data);
}

std::string ToToml(const Value& value) {
  switch (value.data.index()) {
    case 0:
      return value.boolean() ? "true" : "false";
    case 1:
      return std::to_string(value.integer());
    case 2:
      return NumberText(value.number());
    case 3:
      return QuotedText(value.text());
    case 4:
      return ListText(value.list());
    case 5:
      return TableText(value.table());
    default:
      return "a date";
  }
}

std::string_view KindOf(const Value& value) {
  constexpr std::array<std::string_view, 7> kNames{
      "true or false", "a whole number", "a number with a fraction", "a string", "a list",
      "a table",       "a date or time"};
  return kNames[value.data.index()];
}

std::optional<Nanoseconds> ParseDuration(std::string_view text) {
  const auto count = ParseWithUnit(text, kDurationUnits);
  if (!count) return std::nullopt;
  return Nanoseconds(static_cast<std::int64_t>(*count));
}

std::optional<std::uint64_t> ParseSize(std::string_view text) {
  return ParseWithUnit(text, kSizeUnits);
}

std::optional<std::uint64_t> ParseRate(std::string_view text) {
  constexpr std::string_view kPerSecond = "/s";
  if (text.size() < kPerSecond.size() || text.substr(text.size() - 2) != kPerSecond)
    return std::nullopt;
  return ParseSize(text.substr(0, text.size() - kPerSecond.size()));
}

std::string DurationText(Nanoseconds duration) {
  const auto count = static_cast<std::uint64_t>(duration.count());
  if (count == 0) return "0s";
  for (const Unit& unit : kDurationUnits) {
    if (count % unit.factor == 0) return std::to_string(count / unit.factor).append(unit.name);
  }
  return std::to_string(count / 1'000'000) + "ms";
}

std::string SizeText(std::uint64_t bytes) {
  if (bytes == 0) return "0KiB";
  for (const Unit& unit : kSizeUnits) {
    if (bytes % unit.factor == 0) return std::to_string(bytes / unit.factor).append(unit.name);
  }
  return std::to_string(bytes) + "B";
}

std::string Grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t from_end = 3; from_end < text.size(); from_end += 4) {
    text.insert(text.size() - from_end, ",");
  }
  return text;
}

}  // namespace skep::config
