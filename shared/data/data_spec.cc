#include "shared/data/data_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace skep::data {
namespace {

constexpr std::size_t kLongestLabel = 64;
constexpr std::string_view kArrayName = "x";

struct CodePoint {
  char32_t value;
  std::size_t bytes;
};

// The code point that `text` starts with; nothing where it is not UTF-8 (RFC 3629: shortest form,
// no surrogates).
std::optional<CodePoint> FirstOf(std::string_view text) {
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

// Characters that could hide or reorder text on a terminal.
bool IsControl(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool IsSpace(char32_t c) {
  return c == ' ' || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string TomlString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string TomlKey(const std::string& name) {
  const bool is_bare = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return is_bare && !name.empty() ? name : TomlString(name);
}

std::string TomlList(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + TomlString(text);
  return "[" + list + "]";
}

}  // namespace

std::uint32_t DataSpec::InputValues() const {
  if (IsUnnamedArray()) return 0;
  std::uint32_t values = 0;
  for (const Feature& feature : features) {
    values += feature.is_categorical ? static_cast<std::uint32_t>(feature.categories.size()) : 1;
  }
  return values;
}

bool DataSpec::IsUnnamedArray() const {
  return features.size() == 1 && features[0].name == kArrayName && !features[0].is_categorical;
}

bool IsLabel(std::string_view text) {
  if (text.empty() || text.size() > kLongestLabel) return false;
  bool is_first = true;
  bool ends_in_space = false;
  while (!text.empty()) {
    const auto next = FirstOf(text);
    if (!next || IsControl(next->value)) return false;
    ends_in_space = IsSpace(next->value);
    if (is_first && ends_in_space) return false;
    is_first = false;
    text.remove_prefix(next->bytes);
  }
  return !ends_in_space;
}

std::string DataSpecToml(const DataSpec& spec) {
  std::vector<std::string> names;
  std::string categories;
  std::string scaling;
  for (const Feature& feature : spec.features) {
    names.push_back(feature.name);
    if (feature.is_categorical) {
      categories += (categories.empty() ? "" : ", ") + TomlKey(feature.name) + " = " +
                    TomlList(feature.categories);
    } else if (feature.offset != 0 || feature.scale != 1) {
      scaling += (scaling.empty() ? "" : ", ") +
                 fmt::format("{} = [{}, {}]", TomlKey(feature.name), feature.offset, feature.scale);
    }
  }
  std::string text = "[data]\nfeatures   = " + TomlList(names) +
                     "  # in this order; those without categories are numbers\n";
  text += "classes    = " + TomlList(spec.classes) + "\n";
  if (!categories.empty()) text += "categories = { " + categories + " }\n";
  if (!scaling.empty()) text += "scaling    = { " + scaling + " }\n";
  return text;
}

}  // namespace skep::data
