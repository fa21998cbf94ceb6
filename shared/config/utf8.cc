#include "shared/config/utf8.h"

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

// C0, DEL and C1.
bool IsControl(std::string_view point) {
  const auto first = static_cast<unsigned char>(point[0]);
  if (point.size() == 2) return first == 0xC2 && static_cast<unsigned char>(point[1]) < 0xA0;
  return first < 0x20 || first == 0x7F;
}

}  // namespace

std::vector<std::string> CodePoints(std::string_view text) {
  std::vector<std::string> points;
  while (!text.empty()) {
    const std::size_t length = LengthOf(static_cast<unsigned char>(text[0]));
    if (IsWhole(text, length)) {
      points.emplace_back(text.substr(0, length));
      text.remove_prefix(length);
    } else {
      points.emplace_back("?");
      text.remove_prefix(1);
    }
  }
  return points;
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (const std::string& point : CodePoints(text)) printable += IsControl(point) ? "?" : point;
  return printable;
}

std::string JsonText(std::string_view text) {
  std::string json = "\"";
  for (const std::string& point : CodePoints(text)) {
    const auto byte = static_cast<unsigned char>(point[0]);
    if (point == "\"" || point == "\\") {
      json += '\\';
      json += point;
    } else if (byte < 0x20 || byte == 0x7F) {
      json += fmt::format("\\u{:04x}", byte);
    } else {
      json += point;
    }
  }
  return json + '"';
}

}  // namespace skep::config
