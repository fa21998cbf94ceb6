#include "shared/wire/text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace skep::wire {
namespace {

constexpr std::size_t kLongest = 64;

bool IsNameByte(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

bool IsKeyByte(char c) {
  return IsNameByte(c) || c == '.' || c == '/' || c == ':';
}

// Takes one code point from the front of `text`; nothing if the bytes are not UTF-8 (overlong
// forms, surrogates and values above U+10FFFF included).
std::optional<char32_t> TakeCodePoint(std::string_view& text) {
  const auto byte = [&text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) {
    text.remove_prefix(1);
    return lead;
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return std::nullopt;
  char32_t point = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return std::nullopt;
    point = (point << 6) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kSmallest[length] || point > 0x10FFFF) return std::nullopt;
  if (point >= 0xD800 && point <= 0xDFFF) return std::nullopt;
  text.remove_prefix(length);
  return point;
}

// Characters that would let one label look like another, or break the line it is printed on.
bool IsRefusedInLabel(char32_t c) {
  return c < 0x20 || (c >= 0x80 && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool IsWhiteSpace(char32_t c) {
  return c == 0x20 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), IsNameByte);
}

bool IsKey(std::string_view text) {
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), IsKeyByte);
}

bool IsText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7E; });
}

bool IsLabelText(std::string_view text) {
  if (text.empty() || text.size() > kLongest) return false;
  bool at_start = true;
  bool after_space = false;
  while (!text.empty()) {
    const std::optional<char32_t> point = TakeCodePoint(text);
    if (!point || IsRefusedInLabel(*point)) return false;
    after_space = IsWhiteSpace(*point);
    if (at_start && after_space) return false;
    at_start = false;
  }
  return !after_space;
}

}  // namespace skep::wire
