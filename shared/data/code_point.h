// Code points of UTF-8 text, and the names that symbols have as classes.
//
// A symbol is one code point; nothing is normalised. Pure functions; any thread. Source: RFC 3629;
// docs/formats.md (plays).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace skep::data {

struct CodePoint {
  char32_t value;
  std::size_t bytes;
};

// The code point that `text`, which is not empty, starts with; nothing where it is not UTF-8
// (shortest form, no surrogates).
[[nodiscard]] std::optional<CodePoint> FirstCodePoint(std::string_view text);

// Characters that could hide or reorder text on a terminal.
[[nodiscard]] bool IsControl(char32_t c);
[[nodiscard]] bool IsSpace(char32_t c);

// The name of a symbol as a class: the character itself, or "U+000A" (at least four hexadecimal
// digits) where it is white space or a control character. Always a label.
[[nodiscard]] std::string SymbolName(char32_t symbol);
// The symbol of that name; nothing if it is no such name.
[[nodiscard]] std::optional<char32_t> SymbolOf(std::string_view name);

}  // namespace skep::data
