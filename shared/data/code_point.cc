#include "shared/data/code_point.h"

#include <charconv>

#include <fmt/format.h>

namespace skep::data {
namespace {

constexpr std::string_view kByNumber = "U+";

void AppendUtf8(std::string& text, char32_t c) {
  const auto tail = [&](unsigned shift) {
    text += static_cast<char>(0x80U | ((c >> shift) & 0x3FU));
  };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0U | (c >> 6U));
    tail(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0U | (c >> 12U));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | (c >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::optional<CodePoint> FirstCodePoint(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return CodePoint{first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return std::nullopt;
  char32_t value = first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[size] || value > 0x10FFFF) return std::nullopt;
  if (value >= 0xD800 && value <= 0xDFFF) return std::nullopt;
  return CodePoint{value, size};
}

bool IsControl(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool IsSpace(char32_t c) {
  return c == ' ' || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string SymbolName(char32_t symbol) {
  if (IsControl(symbol) || IsSpace(symbol)) {
    return fmt::format("{}{:04X}", kByNumber, static_cast<std::uint32_t>(symbol));
  }
  std::string name;
  AppendUtf8(name, symbol);
  return name;
}

std::optional<char32_t> SymbolOf(std::string_view name) {
  if (name.empty()) return std::nullopt;
  const auto first = FirstCodePoint(name);
  if (!first) return std::nullopt;
  if (first->bytes == name.size()) return first->value;
  if (!name.starts_with(kByNumber)) return std::nullopt;
  std::uint32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, failure] = std::from_chars(name.data() + kByNumber.size(), end, number, 16);
  // One name a symbol: "U+41", "u+000a" and "U+000a" are none.
  if (failure != std::errc() || rest != end || SymbolName(number) != name) return std::nullopt;
  return number;
}

}  // namespace skep::data
