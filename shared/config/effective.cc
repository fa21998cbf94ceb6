#include "shared/config/effective.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "shared/base/check.h"
#include "shared/base/sha256.h"

namespace skep::config {
namespace {

bool IsHashed(const Key& key) {
  return key.section != "run" && key.path != "name" && key.path != "schema" &&
         key.path != "population";
}

bool Speaks(const Setting& setting) {
  return setting.value.has_value() && !setting.is_superseded;
}

}  // namespace

std::string Setting::SourceText() const {
  switch (source) {
    case Source::kNone:
      return {};
    case Source::kDefault:
      return "default";
    case Source::kSet:
      return "--set";
    case Source::kDerived:
      return "derived";
    case Source::kFile:
      break;
  }
  // Only the file's name: a run directory, where this is written, may be moved.
  return fmt::format("{}:{}", std::filesystem::path(key_place.file).filename().string(),
                     key_place.line);
}

Effective::Effective(const Schema& schema) : schema_(&schema), settings_(schema.keys().size()) {
  for (std::size_t i = 0; i < settings_.size(); ++i) settings_[i].key = &schema.keys()[i];
}

std::uint64_t Effective::Whole(std::string_view path) const {
  return static_cast<std::uint64_t>(at(path).value->integer());
}

Nanoseconds Effective::Duration(std::string_view path) const {
  const auto duration = ParseDuration(Text(path));
  SKEP_CHECK(duration.has_value());
  return *duration;
}

std::uint64_t Effective::Size(std::string_view path) const {
  const std::string& text = Text(path);
  const auto size = text.ends_with("/s") ? ParseRate(text) : ParseSize(text);
  SKEP_CHECK(size.has_value());
  return *size;
}

std::vector<std::string> Effective::Texts(std::string_view path) const {
  std::vector<std::string> texts;
  if (!Has(path)) return texts;
  for (const Value& item : at(path).value->list()) texts.push_back(item.text());
  return texts;
}

std::vector<std::uint32_t> Effective::Wholes(std::string_view path) const {
  std::vector<std::uint32_t> numbers;
  if (!Has(path)) return numbers;
  for (const Value& item : at(path).value->list())
    numbers.push_back(static_cast<std::uint32_t>(item.integer()));
  return numbers;
}

void Effective::Derive(std::string_view path, Value value) {
  Setting& setting = at(path);
  if (setting.is_given()) return;
  setting.value = std::move(value);
  setting.source = Source::kDerived;
}

std::string Effective::HashedLines() const {
  std::string lines;
  for (const Setting& setting : settings_) {
    if (!Speaks(setting) || !IsHashed(*setting.key)) continue;
    lines += setting.key->path + " = " + ToToml(*setting.value) + "\n";
  }
  return lines;
}

Hash32 Effective::ConfigHash() const {
  return Sha256::Of(AsBytes(HashedLines()));
}

std::string Effective::AsToml() const {
  std::string text;
  std::string_view section;
  for (const Setting& setting : settings_) {
    if (!Speaks(setting)) continue;
    if (setting.key->section != section) {
      section = setting.key->section;
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{} = {}  # {}\n", setting.key->row->key, ToToml(*setting.value),
                        setting.SourceText());
  }
  return text;
}

std::string Effective::AsTable() const {
  std::size_t key_width = 0;
  std::size_t value_width = 0;
  constexpr std::size_t kWidestValue = 40;
  for (const Setting& setting : settings_) {
    key_width = std::max(key_width, setting.key->path.size());
    if (setting.value)
      value_width = std::max(value_width, std::min(kWidestValue, ToToml(*setting.value).size()));
  }
  std::string text;
  for (const Setting& setting : settings_) {
    const std::string value = setting.value ? ToToml(*setting.value) : "-";
    std::string line = fmt::format("{:<{}}  {:<{}}  {}", setting.key->path, key_width, value,
                                   value_width, setting.SourceText());
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace skep::config
