// LineWords: the words of one line of the `layers` syntax, taken one after another.
//
// For the parser of layers and for who completes a line. Not thread-safe; a plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skep::model {

// Digits alone, below 2^32.
[[nodiscard]] std::optional<std::uint32_t> WholeNumber(std::string_view text);

struct LineWords {
  std::string kind;               // the first word, or empty
  std::vector<std::string> rest;  // the others
  std::size_t next = 0;

  // Spaces and tabs divide words.
  explicit LineWords(std::string_view line);

  // The line with one space between its words: what travels in a plan.
  [[nodiscard]] std::string Text() const;
  [[nodiscard]] std::size_t LongestWord() const;

  [[nodiscard]] bool AtEnd() const { return next == rest.size(); }
  [[nodiscard]] std::string Take() { return AtEnd() ? std::string() : rest[next++]; }
  // The next word as a number above 0.
  [[nodiscard]] std::optional<std::uint32_t> TakeCount();
  // The word, wherever it stands; takes it out.
  [[nodiscard]] bool TakeFlag(std::string_view word);
  // The count after the word; 0 where the word stands without one, nothing without the word.
  [[nodiscard]] std::optional<std::uint32_t> TakeOption(std::string_view word);
};

}  // namespace skep::model
