#include "shared/data/data_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "shared/data/code_point.h"

namespace skep::data {
namespace {

constexpr std::size_t kLongestLabel = 64;
constexpr std::string_view kArrayName = "x";

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
    const auto next = FirstCodePoint(text);
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
  if (spec.task == Task::kNextToken) text += "task       = \"next_token\"\n";
  if (!categories.empty()) text += "categories = { " + categories + " }\n";
  if (!scaling.empty()) text += "scaling    = { " + scaling + " }\n";
  return text;
}

}  // namespace skep::data
