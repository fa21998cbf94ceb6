#include "simulator/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace skep::simulator {
namespace {

constexpr std::size_t kUsualWidth = 80;
constexpr char kEscape = '\x1b';

// The beginning of a code point, as opposed to what continues one.
bool IsFirstByte(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

// Bytes of the escape sequence at the front ("ESC [ ... letter").
std::size_t EscapeLength(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size()) {
    const char c = text[length++];
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) break;
  }
  return length;
}

std::string_view Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : value;
}

bool IsUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(Environment(name));
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

bool IsTerminal(int file) {
  const std::string_view term = Environment("TERM");
  return ::isatty(file) == 1 && !term.empty() && term != "dumb";
}

std::size_t TerminalWidth(int file) {
  winsize size{};
  if (::ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

TextStyle StyleFor(int file, ColorChoice color) {
  TextStyle style{.is_utf8 = IsUtf8Locale(), .has_color = color == ColorChoice::kAlways};
  if (color == ColorChoice::kAuto)
    style.has_color = Environment("NO_COLOR").empty() && IsTerminal(file);
  return style;
}

std::string AsciiText(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kPlain{{
      {"\xC2\xB7", "-"},        // middle dot
      {"\xCE\xB1", "alpha"},    //
      {"\xE2\x80\xA6", "..."},  // ellipsis
      {"\xE2\x80\x93", "-"},    // en dash
      {"\xC3\x97", "x"},        // multiplication sign
      {"\xE2\x94\x81", "#"},    // full bar
      {"\xE2\x95\xB8", "#"},    // half bar
      {"\xE2\x94\x80", "."},    // empty bar
  }};
  std::string plain;
  while (!text.empty()) {
    if (static_cast<unsigned char>(text.front()) < 0x80) {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    const auto* const known = std::find_if(kPlain.begin(), kPlain.end(), [&](const auto& entry) {
      return text.starts_with(entry.first);
    });
    plain += known == kPlain.end() ? "?" : known->second;
    text.remove_prefix(known == kPlain.end() ? 1 : known->first.size());
    while (known == kPlain.end() && !text.empty() && !IsFirstByte(text.front()))
      text.remove_prefix(1);
  }
  return plain;
}

std::string Shown(std::string_view text, const TextStyle& style) {
  return style.is_utf8 ? std::string(text) : AsciiText(text);
}

std::size_t Columns(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == kEscape) {
      i += EscapeLength(text.substr(i));
    } else {
      columns += IsFirstByte(text[i++]) ? 1 : 0;
    }
  }
  return columns;
}

namespace {

constexpr std::string_view kDot = " \xC2\xB7 ";

// Of the separator that `text` begins with: a middle dot, or two spaces or more.
std::size_t SeparatorLength(std::string_view text) {
  if (text.starts_with(kDot)) return kDot.size();
  const std::size_t spaces = std::min(text.find_first_not_of(' '), text.size());
  return spaces >= 2 ? spaces : 0;
}

std::size_t NextSeparator(std::string_view text) {
  return std::min({text.find(kDot), text.find("  "), text.size()});
}

}  // namespace

std::string FitColumns(std::string_view text, std::size_t width) {
  if (Columns(text) <= width) return std::string(text);
  std::string fitted;
  std::size_t columns = 0;
  bool has_escapes = false;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == kEscape) {
      const std::size_t length = EscapeLength(text.substr(i));
      fitted += text.substr(i, length);
      i += length;
      has_escapes = true;
      continue;
    }
    if (IsFirstByte(text[i]) && columns++ == width) break;
    fitted += text[i++];
  }
  return has_escapes ? fitted + "\x1b[0m" : fitted;
}

std::string WrapColumns(std::string_view text, std::size_t width, std::size_t indent) {
  if (width == 0 || Columns(text) <= width) return std::string(text);
  std::string wrapped;
  std::string line;
  while (!text.empty()) {
    // A part with the separator in front of it.
    const std::size_t lead = SeparatorLength(text);
    const std::size_t end = lead + NextSeparator(text.substr(lead));
    const std::string_view part = text.substr(lead, end - lead);
    const bool fits = Columns(line) + Columns(text.substr(0, end)) <= width;
    if (fits || Columns(line) <= indent) {
      line += text.substr(0, end);
    } else {
      wrapped += line + "\n";
      line = std::string(indent, ' ') + std::string(part);
    }
    text.remove_prefix(end);
  }
  return wrapped + line;
}

std::string Painted(std::string_view text, Paint paint, const TextStyle& style) {
  if (!style.has_color) return std::string(text);
  constexpr std::array<std::string_view, 5> kCodes{"1", "2", "31", "33", "32"};
  std::string painted = "\x1b[";
  painted += kCodes[static_cast<std::size_t>(paint)];
  painted += 'm';
  painted += text;
  return painted + "\x1b[0m";
}

}  // namespace skep::simulator
