#include "shared/config/schema.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "shared/base/check.h"

namespace skep::config {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Aliases are looked up without regard to case, and "-" is "_".
bool IsSameAlias(std::string_view a, std::string_view b) {
  const auto plain = [](char c) {
    if (c == '-') return '_';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return plain(x) == plain(y); });
}

std::optional<double> ParseBound(std::string_view text, Types types) {
  if (types & kDuration) {
    const auto duration = ParseDuration(text);
    if (!duration) return std::nullopt;
    return static_cast<double>(duration->count());
  }
  if (types & (kSize | kRate)) {
    const auto size = types & kSize ? ParseSize(text) : ParseRate(text);
    if (!size) return std::nullopt;
    return static_cast<double>(*size);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "LOW..HIGH" with "<" before the dots or before HIGH where that end is excluded; HIGH may be
// missing.
struct RangeParts {
  std::string_view low, high;
  bool is_low_excluded = false, is_high_excluded = false;
};

RangeParts Parts(std::string_view text) {
  const std::size_t dots = text.find("..");
  SKEP_CHECK(dots != std::string_view::npos);
  RangeParts parts{.low = text.substr(0, dots), .high = text.substr(dots + 2)};
  if (!parts.low.empty() && parts.low.back() == '<') {
    parts.is_low_excluded = true;
    parts.low.remove_suffix(1);
  }
  if (!parts.high.empty() && parts.high.front() == '<') {
    parts.is_high_excluded = true;
    parts.high.remove_prefix(1);
  }
  return parts;
}

}  // namespace

Schema::Schema(std::string_view file, std::string_view text, bool is_version_required,
               std::vector<Section> sections)
    : file_(file),
      text_(text),
      is_version_required_(is_version_required),
      sections_(std::move(sections)) {
  for (const Section& section : sections_) {
    for (const Row& row : section.rows) {
      std::string path = section.name.empty() ? "" : std::string(section.name) + ".";
      keys_.push_back({&row, section.name, path.append(row.key)});
    }
  }
}

const Section* Schema::FindSection(std::string_view name) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(),
                                  [&](const Section& s) { return s.name == name; });
  return found == sections_.end() ? nullptr : &*found;
}

const Key* Schema::Find(std::string_view path) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.path == path; });
  return found == keys_.end() ? nullptr : &*found;
}

std::size_t Schema::IndexOf(std::string_view path) const {
  const Key* key = Find(path);
  SKEP_CHECK(key != nullptr);
  return static_cast<std::size_t>(key - keys_.data());
}

const Key* Schema::FindAlias(std::string_view section, std::string_view name) const {
  for (const Key& key : keys_) {
    if (key.section != section) continue;
    for (const std::string_view alias : Words(key.row->aliases)) {
      if (IsSameAlias(alias, name)) return &key;
    }
  }
  return nullptr;
}

std::vector<std::string_view> Words(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t bar = list.find('|');
    words.push_back(Trimmed(list.substr(0, bar)));
    if (bar == std::string_view::npos) break;
    list.remove_prefix(bar + 1);
  }
  return words;
}

bool IsAmong(std::string_view text, std::string_view words) {
  for (const std::string_view word : Words(words)) {
    if (const std::size_t colon = word.find(':'); colon != std::string_view::npos) {
      const std::string_view start = word.substr(0, colon + 1);
      if (text.size() > start.size() && text.substr(0, start.size()) == start) return true;
      continue;
    }
    if (word.front() == '*' && text.size() >= word.size()) {
      const std::string_view end = word.substr(1);
      if (text.substr(text.size() - end.size()) == end) return true;
    }
    if (word == text) return true;
  }
  return false;
}

bool Range::Contains(double value) const {
  const bool is_above = is_low_excluded ? value > low : value >= low;
  const bool is_below = is_high_excluded ? value < high : value <= high;
  return is_above && is_below;
}

std::optional<Range> ParseRange(std::string_view text, Types types) {
  const RangeParts parts = Parts(text);
  const auto low = ParseBound(parts.low, types);
  const auto high =
      parts.high.empty() ? std::numeric_limits<double>::infinity() : ParseBound(parts.high, types);
  if (!low || !high) return std::nullopt;
  return Range{*low, *high, parts.is_low_excluded, parts.is_high_excluded};
}

std::string RangeText(std::string_view text, Types types) {
  const RangeParts parts = Parts(text);
  const std::string_view quote = types & (kDuration | kSize | kRate) ? "\"" : "";
  const auto shown = [&](std::string_view bound) { return fmt::format("{0}{1}{0}", quote, bound); };
  const std::string low = (parts.is_low_excluded ? "above " : "at least ") + shown(parts.low);
  if (parts.high.empty()) return low;
  if (parts.low == parts.high) return shown(parts.low);
  if (!parts.is_low_excluded && !parts.is_high_excluded)
    return shown(parts.low) + " to " + shown(parts.high);
  return low + ", " + (parts.is_high_excluded ? "below " : "at most ") + shown(parts.high);
}

}  // namespace skep::config
