#include "shared/config/toml_reader.h"

#include <algorithm>
#include <optional>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "shared/config/utf8.h"

namespace skep::config {
namespace {

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

// The file that places refer to.
struct Text {
  std::string file;
  std::vector<std::string_view> lines;

  [[nodiscard]] Place At(const toml::source_region& region) const {
    Place place{.file = file, .line = region.begin.line, .column = region.begin.column};
    if (place.line == 0 || place.line > lines.size()) return {.file = file};
    place.source_line = std::string(lines[place.line - 1]);
    if (region.end.line == region.begin.line) {
      place.width = std::max(region.end.column, region.begin.column + 1) - region.begin.column;
    } else {
      const auto columns = static_cast<std::uint32_t>(CodePoints(place.source_line).size());
      place.width = columns >= place.column ? columns - place.column + 1 : 1;
    }
    return place;
  }
};

Value ValueOf(const toml::node& node);

List ListOf(const toml::array& array) {
  List list;
  for (const toml::node& item : array) list.push_back(ValueOf(item));
  return list;
}

Table TableOf(const toml::table& from) {
  Table table;
  for (auto&& [key, item] : from) table.emplace(std::string(key.str()), ValueOf(item));
  return table;
}

Value ValueOf(const toml::node& node) {
  if (const auto* boolean = node.as_boolean()) return {boolean->get()};
  if (const auto* integer = node.as_integer()) return {integer->get()};
  if (const auto* number = node.as_floating_point()) return {number->get()};
  if (const auto* text = node.as_string()) return {text->get()};
  if (const auto* array = node.as_array()) return {ListOf(*array)};
  if (const auto* table = node.as_table()) return {TableOf(*table)};
  return {DateOrTime{}};
}

// "Error while parsing key-value pair: expected value, saw '\n'" -> "expected a value". What was
// seen is shown by the caret, and is left out because it is bytes of the file.
std::string Cause(std::string_view description) {
  if (description.substr(0, 20) == "Error while parsing ") {
    if (const std::size_t colon = description.find(": "); colon != std::string_view::npos)
      description.remove_prefix(colon + 2);
  }
  description = description.substr(0, description.find(", saw "));
  if (description == "expected value") return "expected a value";
  return std::string(description);
}

std::vector<Problem> NotToml(const toml::parse_error& error, const Text& text) {
  Place place = text.At(error.source());
  place.width = 1;
  std::string cause;
  for (const std::string& point : CodePoints(Cause(error.description()))) {
    const bool is_control = point.size() == 1 && (point[0] < 0x20 || point[0] == 0x7F);
    cause += is_control ? "?" : point;
  }
  return {Problem{.code = 1015, .place = std::move(place), .message = "not valid TOML: " + cause}};
}

}  // namespace

Validated<std::vector<Entry>> ReadToml(std::string_view content, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (content.substr(0, 3) == kByteOrderMark) content.remove_prefix(3);
  const Text text{.file = file, .lines = LinesOf(content)};
  const toml::parse_result parsed = toml::parse(content, std::string_view(file));
  if (!parsed) return NotToml(parsed.error(), text);

  std::vector<Entry> entries;
  for (auto&& [key, node] : parsed.table()) {
    const std::string name(key.str());
    const Place key_place = text.At(key.source());
    const toml::table* section = node.as_table();
    if (section == nullptr) {
      entries.push_back({"", name, ValueOf(node), key_place, text.At(node.source())});
      continue;
    }
    entries.push_back({name, "", ValueOf(node), key_place, key_place});
    for (auto&& [inner, value] : *section) {
      const bool is_table = value.is_table() && !value.as_table()->is_inline();
      const Place inner_place = text.At(inner.source());
      entries.push_back({name, std::string(inner.str()), ValueOf(value), inner_place,
                         is_table ? inner_place : text.At(value.source())});
    }
  }
  // The library yields keys sorted by name; people read a file from the top.
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.key_place.line, a.key_place.column) <
           std::pair(b.key_place.line, b.key_place.column);
  });
  return entries;
}

namespace {

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Value ValueFromOption(std::string_view text) {
  const std::string document = "v = " + std::string(text);
  const toml::parse_result parsed = toml::parse(document);
  // A line feed could smuggle in further keys; then the text is what it looks like, a string.
  if (!parsed || parsed.table().size() != 1 || !parsed.table().contains("v"))
    return {std::string(text)};
  return ValueOf(*parsed.table().get("v"));
}

}  // namespace

Validated<Entry> ReadSetOption(const std::string& option, std::uint32_t number) {
  Place key_place{.file = "--set", .line = number, .column = 1, .source_line = option};
  const std::size_t equals = option.find('=');
  const std::string_view left = Trimmed(std::string_view(option).substr(0, equals));
  if (equals == std::string::npos || left.empty()) {
    return std::vector<Problem>{Problem{.code = 1015,
                                        .place = std::move(key_place),
                                        .message = "not SECTION.KEY=VALUE",
                                        .hint = "as in --set training.rounds=5"}};
  }
  const std::string_view right = Trimmed(std::string_view(option).substr(equals + 1));
  const auto columns_before = [&](const char* at) {
    const auto bytes = static_cast<std::size_t>(at - option.data());
    return static_cast<std::uint32_t>(CodePoints(std::string_view(option).substr(0, bytes)).size());
  };
  Place value_place = key_place;
  key_place.column = columns_before(left.data()) + 1;
  key_place.width = static_cast<std::uint32_t>(CodePoints(left).size());
  value_place.column = (right.empty() ? columns_before(option.data() + option.size())
                                      : columns_before(right.data())) +
                       1;
  value_place.width = std::max(1U, static_cast<std::uint32_t>(CodePoints(right).size()));

  // The first dot divides: a deeper name stays in the key, where no schema knows it.
  const std::size_t dot = left.find('.');
  Entry entry{.section = dot == std::string_view::npos ? "" : std::string(left.substr(0, dot)),
              .key = std::string(dot == std::string_view::npos ? left : left.substr(dot + 1)),
              .value = ValueFromOption(right),
              .key_place = std::move(key_place),
              .value_place = std::move(value_place)};
  return entry;
}

}  // namespace skep::config
