#include "simulator/json.h"

#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "shared/base/try.h"

namespace skep::simulator {
namespace {

constexpr int kDeepest = 32;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<JsonValue> Whole() {
    SKEP_ASSIGN(JsonValue value, Value(0));
    Skip();
    if (at_ != text_.size()) return Refuse();
    return value;
  }

 private:
  Error Refuse() const { return Error{4001, fmt::format("not JSON at byte {}", at_), ""}; }
  void Skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos)
      ++at_;
  }
  bool Take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Result<JsonValue> Value(int depth) {
    Skip();
    if (depth > kDeepest || at_ == text_.size()) return Refuse();
    switch (text_[at_]) {
      case '{':
        return Object(depth);
      case '[':
        return Array(depth);
      case '"': {
        SKEP_ASSIGN(std::string text, String());
        return JsonValue{std::move(text)};
      }
      default:
        break;
    }
    if (Take("null")) return JsonValue{};
    if (Take("true")) return JsonValue{true};
    if (Take("false")) return JsonValue{false};
    return Number();
  }

  Result<JsonValue> Object(int depth) {
    ++at_;
    JsonValue::Members members;
    Skip();
    if (Take("}")) return JsonValue{std::move(members)};
    while (true) {
      Skip();
      SKEP_ASSIGN(std::string key, String());
      for (const auto& [known, ignored] : members) {
        if (known == key) return Refuse();
      }
      Skip();
      if (!Take(":")) return Refuse();
      SKEP_ASSIGN(JsonValue value, Value(depth + 1));
      members.emplace_back(std::move(key), std::move(value));
      Skip();
      if (Take("}")) return JsonValue{std::move(members)};
      if (!Take(",")) return Refuse();
    }
  }

  Result<JsonValue> Array(int depth) {
    ++at_;
    std::vector<JsonValue> items;
    Skip();
    if (Take("]")) return JsonValue{std::move(items)};
    while (true) {
      SKEP_ASSIGN(JsonValue value, Value(depth + 1));
      items.push_back(std::move(value));
      Skip();
      if (Take("]")) return JsonValue{std::move(items)};
      if (!Take(",")) return Refuse();
    }
  }

  Result<JsonValue> Number() {
    double value = 0;
    const char first = text_[at_];
    if (first != '-' && (first < '0' || first > '9')) return Refuse();
    const auto end = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (end.ec != std::errc{} || !std::isfinite(value)) return Refuse();
    at_ = static_cast<std::size_t>(end.ptr - text_.data());
    return JsonValue{value};
  }

  Result<std::string> String() {
    if (!Take("\"")) return Refuse();
    std::string text;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return text;
      }
      if (static_cast<unsigned char>(c) < 0x20) return Refuse();
      if (c == '\\') {
        SKEP_TRY(Escape(text));
      } else {
        text += c;
        ++at_;
      }
    }
    return Refuse();
  }

  Status Escape(std::string& text) {
    ++at_;
    if (at_ == text_.size()) return Refuse();
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const auto which = kNames.find(text_[at_]); which != std::string_view::npos) {
      text += kMeanings[which];
      ++at_;
      return Ok();
    }
    if (!Take("u")) return Refuse();
    SKEP_ASSIGN(std::uint32_t point, FourDigits());
    if (point >= 0xD800 && point <= 0xDBFF) {
      if (!Take("\\u")) return Refuse();
      SKEP_ASSIGN(const std::uint32_t low, FourDigits());
      if (low < 0xDC00 || low > 0xDFFF) return Refuse();
      point = 0x10000 + ((point - 0xD800) << 10U) + (low - 0xDC00);
    } else if (point >= 0xDC00 && point <= 0xDFFF) {
      return Refuse();
    }
    AppendPoint(text, point);
    return Ok();
  }

  Result<std::uint32_t> FourDigits() {
    std::uint32_t value = 0;
    if (text_.size() - at_ < 4) return Refuse();
    const char* const from = text_.data() + at_;
    const auto end = std::from_chars(from, from + 4, value, 16);
    if (end.ec != std::errc{} || end.ptr != from + 4) return Refuse();
    at_ += 4;
    return value;
  }

  static void AppendPoint(std::string& text, std::uint32_t point) {
    const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
    if (point < 0x80) {
      add(point);
    } else if (point < 0x800) {
      add(0xC0 | (point >> 6U));
      add(0x80 | (point & 0x3FU));
    } else if (point < 0x10000) {
      add(0xE0 | (point >> 12U));
      add(0x80 | ((point >> 6U) & 0x3FU));
      add(0x80 | (point & 0x3FU));
    } else {
      add(0xF0 | (point >> 18U));
      add(0x80 | ((point >> 12U) & 0x3FU));
      add(0x80 | ((point >> 6U) & 0x3FU));
      add(0x80 | (point & 0x3FU));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string JsonNumber(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string JsonSeconds(double seconds) {
  return JsonNumber(std::round(seconds * 1e6) / 1e6);
}

JsonObject& JsonObject::Raw(std::string_view key, std::string_view value) {
  if (text_.size() > 1) text_ += ',';
  text_ += JsonText(key);
  text_ += ':';
  text_ += value;
  return *this;
}

std::string JsonArray(const std::vector<std::string>& values) {
  std::string text = "[";
  for (const std::string& value : values) {
    if (text.size() > 1) text += ',';
    text += value;
  }
  return text + "]";
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  const Members* const all = members();
  if (all == nullptr) return nullptr;
  for (const auto& [name, member] : *all) {
    if (name == key) return &member;
  }
  return nullptr;
}

std::optional<double> JsonValue::Number(std::string_view key) const {
  const JsonValue* const member = Find(key);
  const double* const number = member == nullptr ? nullptr : std::get_if<double>(&member->value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::optional<std::uint64_t> JsonValue::Whole(std::string_view key) const {
  constexpr double kBeyond = 0x1p53;  // from here on doubles skip integers
  const std::optional<double> number = Number(key);
  if (!number || *number < 0 || *number >= kBeyond || std::floor(*number) != *number)
    return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

std::string JsonValue::Text(std::string_view key) const {
  const JsonValue* const member = Find(key);
  const auto* const text = member == nullptr ? nullptr : std::get_if<std::string>(&member->value);
  return text == nullptr ? "" : *text;
}

Result<JsonValue> ParseJson(std::string_view text) {
  return Parser(text).Whole();
}

}  // namespace skep::simulator
