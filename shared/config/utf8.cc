#include "shared/config/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

namespace skep::config {
namespace {

// Bytes of the code point that starts with `lead`; 0 if none does.
std::size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

bool IsWhole(std::string_view text, std::size_t length) {
  if (length == 0 || length > text.size()) return false;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) return false;
  }
  return true;
}

std::uint32_t ValueOf(std::string_view point) {
  const auto lead = static_cast<unsigned char>(point[0]);
  std::uint32_t value = point.size() == 1 ? lead : lead & (0x7FU >> point.size());
  for (std::size_t i = 1; i < point.size(); ++i) {
    value = (value << 6U) | (static_cast<unsigned char>(point[i]) & 0x3FU);
  }
  return value;
}

struct Span {
  std::uint32_t first, last;
};
// C0; DEL and C1; soft hyphen; marks, embeddings, overrides and isolates of direction; what has no
// width, but for the joiners that words of some languages need; line and paragraph separators;
// interlinear and tag characters.
constexpr std::array<Span, 12> kHidden{{{0x00, 0x1F},
                                        {0x7F, 0x9F},
                                        {0xAD, 0xAD},
                                        {0x061C, 0x061C},
                                        {0x180E, 0x180E},
                                        {0x200B, 0x200B},
                                        {0x200E, 0x200F},
                                        {0x2028, 0x202E},
                                        {0x2060, 0x206F},
                                        {0xFEFF, 0xFEFF},
                                        {0xFFF9, 0xFFFB},
                                        {0xE0000, 0xE007F}}};

std::string JsonEscape(std::string_view point) {
  std::uint32_t value = ValueOf(point);
  if (value < 0x10000) return fmt::format("\\u{:04x}", value);
  value -= 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (value >> 10U), 0xDC00 + (value & 0x3FFU));
}

}  // namespace

std::string_view FirstPoint(std::string_view text) {
  const std::size_t length = LengthOf(static_cast<unsigned char>(text[0]));
  return text.substr(0, IsWhole(text, length) ? length : 1);
}

std::vector<std::string> CodePoints(std::string_view text) {
  std::vector<std::string> points;
  while (!text.empty()) {
    const std::string_view point = FirstPoint(text);
    const bool is_stray = point.size() == 1 && static_cast<unsigned char>(point[0]) >= 0x80;
    points.emplace_back(is_stray ? "?" : point);
    text.remove_prefix(point.size());
  }
  return points;
}

bool IsHidden(std::string_view point) {
  const std::uint32_t value = ValueOf(point);
  return std::any_of(kHidden.begin(), kHidden.end(), [value](const Span& span) {
    return value >= span.first && value <= span.last;
  });
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (const std::string& point : CodePoints(text)) printable += IsHidden(point) ? "?" : point;
  return printable;
}

std::string TomlEscape(std::string_view point) {
  const std::uint32_t value = ValueOf(point);
  return value < 0x10000 ? fmt::format("\\u{:04X}", value) : fmt::format("\\U{:08X}", value);
}

std::string JsonText(std::string_view text) {
  std::string json = "\"";
  for (const std::string& point : CodePoints(text)) {
    if (point == "\"" || point == "\\") {
      json += '\\';
      json += point;
    } else if (IsHidden(point)) {
      json += JsonEscape(point);
    } else {
      json += point;
    }
  }
  return json + '"';
}

}  // namespace skep::config
