#include "shared/base/error_catalogue.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace skep {

std::vector<const ErrorEntry*> AllErrors() {
  std::vector<const ErrorEntry*> all;
  for (const auto table : {InputErrors(), ProtocolErrors(), ServiceErrors()}) {
    for (const ErrorEntry& entry : table) all.push_back(&entry);
  }
  std::sort(all.begin(), all.end(),
            [](const ErrorEntry* a, const ErrorEntry* b) { return a->number < b->number; });
  return all;
}

const ErrorEntry* FindError(int number) {
  for (const auto table : {InputErrors(), ProtocolErrors(), ServiceErrors()}) {
    for (const ErrorEntry& entry : table) {
      if (entry.number == number) return &entry;
    }
  }
  return nullptr;
}

std::string Explain(int number) {
  const ErrorEntry* entry = FindError(number);
  if (entry == nullptr) return {};
  return fmt::format("SKEP-{}  {}\nWhat happened   {}\nUsual causes    {}\nWhat to do      {}\n",
                     entry->number, entry->title, entry->happened, entry->causes, entry->remedy);
}

std::optional<int> ParseErrorNumber(std::string_view text) {
  constexpr std::size_t kPrefix = 5;
  const std::string_view prefix = text.substr(0, kPrefix);
  if (prefix == "SKEP-" || prefix == "skep-") text.remove_prefix(kPrefix);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.size() != 4)
    return std::nullopt;
  return static_cast<int>(number);
}

std::string ErrorReference() {
  std::string text =
      "# Error numbers\n\nGenerated from the catalogue of the program; `explain SKEP-nnnn` prints "
      "one entry.\n";
  for (const ErrorEntry* entry : AllErrors()) {
    text += fmt::format("\n## SKEP-{}: {}\n\n{}\n\n- Usual causes: {}\n- What to do: {}\n",
                        entry->number, entry->title, entry->happened, entry->causes, entry->remedy);
  }
  return text;
}

}  // namespace skep
