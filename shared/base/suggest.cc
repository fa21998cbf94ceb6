#include "shared/base/suggest.h"

#include <algorithm>
#include <numeric>

namespace skep {
namespace {

bool IsSeparator(char c) {
  return c == '_' || c == '-' || c == '.' || c == ' ';
}

bool IsWholeWordPart(std::string_view part, std::string_view name) {
  for (std::size_t at = name.find(part); at != std::string_view::npos;
       at = name.find(part, at + 1)) {
    const bool starts_word = at == 0 || IsSeparator(name[at - 1]);
    const std::size_t end = at + part.size();
    const bool ends_word = end == name.size() || IsSeparator(name[end]);
    if (starts_word && ends_word) return true;
  }
  return false;
}

std::string_view NearestName(std::string_view given, const std::vector<std::string_view>& known) {
  std::size_t best = (given.size() > 8 ? 3U : 2U) + 1;
  std::string_view nearest;
  for (const std::string_view name : known) {
    const std::size_t distance = EditDistance(given, name);
    // A name that would have to change in every letter is no correction of it.
    if (distance < best && distance < std::max(given.size(), name.size())) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string_view NameWithPart(std::string_view part, const std::vector<std::string_view>& known) {
  std::string_view chosen;
  for (const std::string_view name : known) {
    if (!IsWholeWordPart(part, name)) continue;
    const bool begins = name.substr(0, part.size()) == part;
    const bool chosen_begins = !chosen.empty() && chosen.substr(0, part.size()) == part;
    const bool is_better = begins != chosen_begins ? begins : name.size() < chosen.size();
    if (chosen.empty() || is_better) chosen = name;
  }
  return chosen;
}

}  // namespace

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string Suggest(std::string_view given, const std::vector<std::string_view>& known) {
  // A hostile name must not cost more than a look: no known name is that long.
  if (given.empty() || given.size() > 128) return {};
  std::string_view name = NearestName(given, known);
  if (name.empty()) name = NameWithPart(given, known);
  return std::string(name);
}

}  // namespace skep
