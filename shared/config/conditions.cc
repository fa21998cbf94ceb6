// What takes two keys to judge in the common forms of Row, and what this build lacks.
#include <fmt/format.h>

#include "shared/config/reader.h"
#include "shared/config/value_check.h"

namespace skep::config {
namespace {

// One part of only_with: "data.path" (has a value), "data.partition = shards | iid",
// "privacy.mechanism != none".
struct Condition {
  std::string path;
  bool is_negated = false;
  std::string_view words;  // empty: any value
};

Condition ParseCondition(std::string_view text) {
  for (const std::string_view sign : {std::string_view(" != "), std::string_view(" = ")}) {
    const std::size_t at = text.find(sign);
    if (at == std::string_view::npos) continue;
    return {std::string(text.substr(0, at)), sign == " != ", text.substr(at + sign.size())};
  }
  return {std::string(text), false, {}};
}

std::vector<Condition> ParseConditions(std::string_view text) {
  constexpr std::string_view kOr = " or ";
  std::vector<Condition> conditions;
  while (true) {
    const std::size_t at = text.find(kOr);
    conditions.push_back(ParseCondition(text.substr(0, at)));
    if (at == std::string_view::npos) return conditions;
    text.remove_prefix(at + kOr.size());
  }
}

bool IsMet(const Reading& reading, const Condition& condition) {
  const Setting& setting = reading.effective.at(condition.path);
  if (!setting.value) return false;
  if (condition.words.empty()) return true;
  const std::string text =
      setting.value->is_text() ? setting.value->text() : ToToml(*setting.value);
  return IsAmong(text, condition.words) != condition.is_negated;
}

std::string QuotedList(std::string_view words) {
  const auto list = Words(words);
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += i + 1 == list.size() ? " or " : ", ";
    text += fmt::format("\"{}\"", list[i]);
  }
  return text;
}

std::string Requirement(const Reading& reading, const std::vector<Condition>& conditions) {
  const Condition& first = conditions.front();
  if (first.words.empty()) {
    std::string text;
    for (const Condition& condition : conditions)
      text += fmt::format("{}\"{}\"", text.empty() ? "needs " : " or ", condition.path);
    return text;
  }
  const Setting& other = reading.effective.at(first.path);
  const std::string found = other.value ? ToToml(*other.value) : "not set";
  return fmt::format("is only for \"{}\" {}{}; it is {}", first.path,
                     first.is_negated ? "other than " : "= ", QuotedList(first.words), found);
}

void Drop(Setting& setting) {
  setting.value.reset();
  setting.source = Source::kNone;
}

// Two keys of which one at most may be given; the default of the other then does not count.
void ApplyExcludes(Reading& reading, const Key& key) {
  Setting& one = reading.effective.at(key.path);
  Setting& other = reading.effective.at(key.row->excludes);
  if (one.is_given() && other.is_given()) {
    AddContradiction(reading, key.path, key.row->excludes, "give one");
  } else if (one.is_given()) {
    Drop(other);
  } else if (other.is_given()) {
    Drop(one);
  }
}

// Whether a condition hangs on a value that was refused: it may have been meant to fit, and nothing
// is known.
bool IsUndecided(const Reading& reading, const Key& key) {
  for (const Condition& condition : ParseConditions(key.row->only_with)) {
    if (!reading.IsSound({condition.path})) return true;
  }
  return false;
}

// False if the key has no meaning beside the other values; then it has no value either.
bool ApplyOnlyWith(Reading& reading, const Key& key) {
  const auto conditions = ParseConditions(key.row->only_with);
  for (const Condition& condition : conditions) {
    if (IsMet(reading, condition)) return true;
  }
  Setting& setting = reading.effective.at(key.path);
  const bool is_asked = setting.is_given() && setting.value && setting.value != DefaultValue(key);
  if (is_asked) {
    const std::string text = fmt::format("\"{}\" {}", key.path, Requirement(reading, conditions));
    // A file may keep the parameters of another rule at hand; an option that does nothing is a
    // mistake.
    if (key.row->only_with_code == 0 && setting.source == Source::kFile) {
      reading.notes.push_back({.text = text + ": it has no effect"});
    } else {
      const int code = key.row->only_with_code == 0 ? 1103 : key.row->only_with_code;
      reading.AddAtKey(key.path, {.code = code, .message = text});
    }
  }
  Drop(setting);
  return false;
}

std::string Shown(const Key& key, const Value& value) {
  return fmt::format("\"{}\" = {} is not in this build; ", key.path, ToToml(value));
}

bool IsPresent(const Row& row, const Value& value) {
  if (row.present.empty()) return true;
  if (value.is_text()) return row.words.empty() || IsAmong(value.text(), row.present);
  if (!value.is_list()) return true;
  for (const Value& item : value.list()) {
    if (item.is_text() && !IsAmong(item.text(), row.present)) return false;
  }
  return true;
}

void CheckPresence(Reading& reading, const Key& key) {
  const Setting& setting = reading.effective.at(key.path);
  const Row& row = *key.row;
  if (!setting.is_given() || !setting.value || setting.value == DefaultValue(key)) return;
  if (row.is_absent) {
    const std::string message =
        row.fallback.empty() ? fmt::format("\"{}\" is not in this build", key.path)
                             : Shown(key, *setting.value) + "it has " + std::string(row.fallback);
    reading.AddAtValue(key.path, {.code = 1019, .message = message});
  } else if (!IsPresent(row, *setting.value)) {
    reading.AddAtValue(
        key.path, {.code = 1019,
                   .message = Shown(key, *setting.value) + "it has " + QuotedList(row.present)});
  }
}

}  // namespace

void ApplyConditions(Reading& reading) {
  const auto& keys = reading.effective.schema().keys();
  for (const Key& key : keys) {
    if (!key.row->excludes.empty()) ApplyExcludes(reading, key);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool is_conditional = !keys[i].row->only_with.empty();
    if (is_conditional && IsUndecided(reading, keys[i])) continue;
    const bool is_in_use = !is_conditional || ApplyOnlyWith(reading, keys[i]);
    if (is_in_use && !reading.is_faulty[i]) CheckPresence(reading, keys[i]);
  }
}

}  // namespace skep::config
