#include "shared/config/value_check.h"

#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "shared/base/check.h"
#include "shared/base/suggest.h"
#include "shared/config/host_port.h"
#include "shared/config/toml_reader.h"

namespace skep::config {
namespace {

bool IsFinite(const Value& value) {
  if (const auto* number = std::get_if<double>(&value.data)) return std::isfinite(*number);
  if (const auto* list = std::get_if<List>(&value.data)) {
    for (const Value& item : *list) {
      if (!IsFinite(item)) return false;
    }
  }
  if (const auto* table = std::get_if<Table>(&value.data)) {
    for (const auto& [name, item] : *table) {
      if (!IsFinite(item)) return false;
    }
  }
  return true;
}

bool IsListOf(const Value& value, bool (*is_item)(const Value&)) {
  if (!value.is_list()) return false;
  for (const Value& item : value.list()) {
    if (!is_item(item)) return false;
  }
  return true;
}
bool IsInteger(const Value& value) {
  return value.is_integer();
}
bool IsNumber(const Value& value) {
  return value.is_integer() || std::holds_alternative<double>(value.data);
}
bool IsText(const Value& value) {
  return value.is_text();
}

bool IsTableOf(const Value& value, bool (*is_item)(const Value&), std::size_t count) {
  const auto* table = std::get_if<Table>(&value.data);
  if (table == nullptr) return false;
  for (const auto& [name, item] : *table) {
    if (!IsListOf(item, is_item)) return false;
    if (count > 0 && item.list().size() != count) return false;
  }
  return true;
}

void MakeNumbers(Value& value) {
  if (value.is_integer()) value.data = value.number();
  if (auto* list = std::get_if<List>(&value.data)) {
    for (Value& item : *list) MakeNumbers(item);
  }
  if (auto* table = std::get_if<Table>(&value.data)) {
    for (auto& [name, item] : *table) MakeNumbers(item);
  }
}

// The type of the row that `value` has; 0 if none. Whole numbers of a number key become numbers.
std::uint32_t MatchType(const Row& row, Value& value) {
  const std::uint32_t types = row.types;
  if ((types & kBool) && std::holds_alternative<bool>(value.data)) return kBool;
  if ((types & kInteger) && value.is_integer()) return kInteger;
  if ((types & kIntegers) && IsListOf(value, IsInteger)) return kIntegers;
  if ((types & kTexts) && IsListOf(value, IsText)) return kTexts;
  if ((types & kTextsByName) && IsTableOf(value, IsText, 0)) return kTextsByName;
  for (const std::uint32_t number_type : {kNumber, kNumbers, kNumbersByName}) {
    if (!(types & number_type)) continue;
    const bool is_match = number_type == kNumber    ? IsNumber(value)
                          : number_type == kNumbers ? IsListOf(value, IsNumber)
                                                    : IsTableOf(value, IsNumber, 2);
    if (!is_match) continue;
    MakeNumbers(value);
    return number_type;
  }
  if (!value.is_text()) return 0;
  if ((types & kDuration) && ParseDuration(value.text())) return kDuration;
  if ((types & kSize) && ParseSize(value.text())) return kSize;
  if ((types & kRate) && ParseRate(value.text())) return kRate;
  return types & kText ? kText : 0U;
}

std::string OneType(std::uint32_t type) {
  switch (type) {
    case kBool:
      return "true or false";
    case kInteger:
      return "a whole number";
    case kNumber:
      return "a number";
    case kText:
      return "a string";
    case kDuration:
      return "a duration in quotes such as \"30s\" (ms, s, m, h, d)";
    case kSize:
      return "a size in quotes such as \"64MiB\" (KiB, MiB, GiB, TiB, kB, MB, GB, TB)";
    case kRate:
      return "a rate in quotes such as \"4KiB/s\"";
    case kIntegers:
      return "a list of whole numbers";
    case kNumbers:
      return "a list of numbers";
    case kTexts:
      return "a list of strings";
    case kTextsByName:
      return "a table NAME = [strings]";
    default:
      return "a table NAME = [offset, scale]";
  }
}

std::string QuotedWords(std::string_view words) {
  std::string text;
  for (const std::string_view word : Words(words)) {
    if (!text.empty()) text += ", ";
    text += fmt::format("\"{}\"", word);
  }
  return text;
}

bool HasForm(std::string_view text, Form form) {
  const auto is_in = [&](std::string_view allowed, std::size_t longest) {
    return !text.empty() && text.size() <= longest &&
           text.find_first_not_of(allowed) == std::string_view::npos;
  };
  constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz0123456789_-";
  switch (form) {
    case Form::kRunName:
      return is_in(kLower, 64) && text[0] != '_' && text[0] != '-';
    case Form::kName:
      return is_in("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", 64);
    case Form::kNotEmpty:
      return !text.empty();
    case Form::kHostPort:
      return ParseHostPort(text).has_value();
    case Form::kHash:
      return text.size() == 64 && is_in("0123456789abcdef", 64);
    case Form::kAddressPort:  // judged with a number of its own
    case Form::kAny:
      break;
  }
  return true;
}

std::string_view FormText(Form form) {
  switch (form) {
    case Form::kRunName:
      return "1 to 64 of a-z, 0-9, _ and -, beginning with a letter or a digit";
    case Form::kName:
      return "1 to 64 of A-Z, a-z, 0-9, _ and -";
    case Form::kNotEmpty:
      return "a text that is not empty";
    case Form::kHostPort:
      return "HOST:PORT";
    default:
      return "64 lower-case hexadecimal digits";
  }
}

class Check {
 public:
  Check(const Key& key, Value& value)
      : key_(key), row_(*key.row), value_(value), shown_(ToToml(value)) {}

  ValueCheck Run() {
    if (!IsFinite(value_))
      return Refuse(row_.range.empty() ? "a finite number" : RangeText(row_.range, row_.types));
    const std::uint32_t type = MatchType(row_, value_);
    if (type == 0) return WrongType();
    if (type == kText) return CheckText(value_.data, true);
    if (type == kTexts || type == kIntegers || type == kNumbers) return CheckList(type);
    if (type == kNumbersByName) return CheckScales();
    return CheckRange(value_, type);
  }

 private:
  ValueCheck Refuse(std::string_view allowed) const {
    return {.code = 1102,
            .message = fmt::format("\"{}\" is {}; allowed {}", key_.path, shown_, allowed)};
  }

  ValueCheck WrongType() const {
    // A string that is no duration is shown; of other types the kind says enough.
    const bool has_units = row_.types & (kDuration | kSize | kRate);
    const std::string found = value_.is_text() && has_units ? shown_ : std::string(KindOf(value_));
    return {
        .code = 1101,
        .message = fmt::format("\"{}\" must be {}, found {}", key_.path, TypeText(row_), found)};
  }

  ValueCheck CheckText(decltype(Value::data)& data, bool is_alone) const {
    auto& text = std::get<std::string>(data);
    ValueCheck check;
    for (const std::string_view alias : Words(row_.word_aliases)) {
      const std::size_t equals = alias.find(" = ");
      if (alias.substr(0, equals) != text) continue;
      check.word_alias = text;
      text = std::string(alias.substr(equals + 3));
      return check;
    }
    if (!HasForm(text, row_.form)) return Refuse(FormText(row_.form));
    if (row_.words.empty() || IsAmong(text, row_.words)) return check;
    if (IsAmong(text, row_.families)) return check;  // refused as a value that this build lacks
    if (is_alone && (row_.types & (kDuration | kSize | kRate))) return WrongType();
    const std::string_view allowed = row_.present.empty() ? row_.words : row_.present;
    ValueCheck refused = Refuse(QuotedWords(allowed));
    refused.suggestion = Suggest(text, Words(allowed));
    return refused;
  }

  ValueCheck CheckList(std::uint32_t type) const {
    auto& list = std::get<List>(value_.data);
    if (!row_.count.empty() &&
        !ParseRange(row_.count, kInteger)->Contains(static_cast<double>(list.size()))) {
      return Refuse(RangeText(row_.count, kInteger) + " values");
    }
    for (Value& item : list) {
      ValueCheck check = type == kTexts ? CheckText(item.data, false)
                                        : CheckRange(item, type == kIntegers ? kInteger : kNumber);
      if (check.code != 0) return check;
    }
    return {};
  }

  ValueCheck CheckScales() const {
    for (const auto& [name, item] : value_.table()) {
      if (item.list()[1].number() == 0) return Refuse("a scale other than 0");
    }
    return {};
  }

  ValueCheck CheckRange(Value& value, std::uint32_t type) const {
    const auto types = static_cast<Types>(type);
    double amount = 0;
    if (type == kDuration) {
      const Nanoseconds duration = *ParseDuration(value.text());
      amount = static_cast<double>(duration.count());
      value.data = DurationText(duration);
    } else if (type == kSize || type == kRate) {
      const std::uint64_t size =
          type == kSize ? *ParseSize(value.text()) : *ParseRate(value.text());
      amount = static_cast<double>(size);
      value.data = SizeText(size) + (type == kRate ? "/s" : "");
    } else if (type == kInteger || type == kNumber) {
      amount = value.number();
    } else {
      return {};
    }
    if (row_.range.empty() || ParseRange(row_.range, types)->Contains(amount)) return {};
    std::string allowed = RangeText(row_.range, types);
    if (row_.types & kText) allowed += " or " + QuotedWords(row_.words);
    return Refuse(allowed);
  }

  const Key& key_;
  const Row& row_;
  Value& value_;
  std::string shown_;  // as the user gave it
};

}  // namespace

ValueCheck CheckValue(const Key& key, Value& value) {
  return Check(key, value).Run();
}

std::optional<Value> DefaultValue(const Key& key) {
  if (key.row->fallback.empty()) return std::nullopt;
  const auto entry = ReadSetOption(fmt::format("k={}", key.row->fallback), 1);
  Value value = entry->value;
  SKEP_CHECK(CheckValue(key, value).code == 0);
  return value;
}

std::string TypeText(const Row& row) {
  std::string text;
  for (std::uint32_t bit = 0; bit < 12; ++bit) {
    const std::uint32_t type = row.types & (1U << bit);
    if (type == 0) continue;
    // Beside another type, words are what the text can be: "a whole number or "all"".
    const bool shows_words = type == kText && row.types != kText && !row.words.empty();
    if (!text.empty()) text += " or ";
    text += shows_words ? QuotedWords(row.words) : OneType(type);
  }
  return text;
}

}  // namespace skep::config
