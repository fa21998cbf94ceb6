// Where in the configuration an error of something else belongs.
#include <algorithm>
#include <charconv>

#include "shared/config/effective.h"

namespace skep::config {
namespace {

bool IsPartOfPath(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

// Where `path` stands as a whole; a full stop may follow.
std::size_t FindPath(std::string_view text, std::string_view path) {
  for (std::size_t at = text.find(path); at != std::string_view::npos;
       at = text.find(path, at + 1)) {
    const std::string_view rest = text.substr(at + path.size());
    const bool starts = at == 0 || !IsPartOfPath(text[at - 1]);
    const bool ends = rest.empty() || !IsPartOfPath(rest[0]) ||
                      (rest[0] == '.' && (rest.size() == 1 || !IsPartOfPath(rest[1])));
    if (starts && ends) return at;
  }
  return std::string_view::npos;
}

// Of the keys that were given the one that `text` names first.
const Setting* NamedIn(std::string_view text, const Effective& effective) {
  const Setting* first = nullptr;
  std::size_t least = std::string_view::npos;
  for (const Setting& setting : effective.settings()) {
    const bool is_path = !setting.key->section.empty();
    if (!is_path || !setting.is_given()) continue;
    const std::size_t at = FindPath(text, setting.key->path);
    if (at >= least) continue;
    least = at;
    first = &setting;
  }
  return first;
}

const Place& PlaceIn(const Setting& setting, std::string_view message) {
  const std::string start = setting.key->path + ", line ";
  const std::size_t at = message.find(start);
  if (at == std::string_view::npos) return setting.value_place;
  message.remove_prefix(at + start.size());
  std::size_t line = 0;
  std::from_chars(message.data(), message.data() + message.size(), line);
  if (line == 0 || line > setting.item_places.size()) return setting.value_place;
  return setting.item_places[line - 1];
}

std::string FileOf(const Effective& effective) {
  for (const Setting& setting : effective.settings()) {
    if (setting.source == Source::kFile) return setting.key_place.file;
  }
  return {};
}

}  // namespace

Problem ProblemOf(const Error& error, const Effective& effective,
                  std::initializer_list<std::string_view> keys) {
  const Setting* setting = NamedIn(error.message, effective);
  if (setting == nullptr) setting = NamedIn(error.hint, effective);
  const auto* given = std::find_if(keys.begin(), keys.end(),
                                   [&](std::string_view key) { return effective.IsGiven(key); });
  if (setting == nullptr && given != keys.end()) setting = &effective.at(*given);
  Problem problem{.code = error.code,
                  .place = {.file = FileOf(effective)},
                  .message = error.message,
                  .hint = error.hint};
  if (setting == nullptr) return problem;
  problem.place = PlaceIn(*setting, error.message);
  problem.topic = std::string(setting->key->section);
  return problem;
}

}  // namespace skep::config
