#include "shared/model/line_words.h"

#include <algorithm>
#include <charconv>

namespace skep::model {

std::optional<std::uint32_t> WholeNumber(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

LineWords::LineWords(std::string_view line) {
  constexpr std::string_view kWhite = " \t";
  bool is_first = true;
  while (true) {
    const std::size_t start = line.find_first_not_of(kWhite);
    if (start == std::string_view::npos) return;
    line.remove_prefix(start);
    const std::string word(line.substr(0, line.find_first_of(kWhite)));
    line.remove_prefix(word.size());
    if (is_first) {
      kind = word;
    } else {
      rest.push_back(word);
    }
    is_first = false;
  }
}

std::string LineWords::Text() const {
  std::string text = kind;
  for (const std::string& word : rest) text += " " + word;
  return text;
}

std::size_t LineWords::LongestWord() const {
  std::size_t longest = kind.size();
  for (const std::string& word : rest) longest = std::max(longest, word.size());
  return longest;
}

std::optional<std::uint32_t> LineWords::TakeCount() {
  const std::optional<std::uint32_t> number = WholeNumber(Take());
  return number && *number > 0 ? number : std::nullopt;
}

bool LineWords::TakeFlag(std::string_view word) {
  for (std::size_t i = next; i < rest.size(); ++i) {
    if (rest[i] != word) continue;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

std::optional<std::uint32_t> LineWords::TakeOption(std::string_view word) {
  for (std::size_t i = next; i < rest.size(); ++i) {
    if (rest[i] != word) continue;
    const auto at = rest.begin() + static_cast<std::ptrdiff_t>(i);
    const std::uint32_t count = i + 1 < rest.size() ? WholeNumber(rest[i + 1]).value_or(0) : 0;
    rest.erase(at, i + 1 < rest.size() ? at + 2 : at + 1);
    return count;
  }
  return std::nullopt;
}

}  // namespace skep::model
