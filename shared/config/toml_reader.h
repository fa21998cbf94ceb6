// TOML text as a flat list of keys with their places, in file order: the only user of the TOML
// library.
//
// Knows nothing of schemas. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/config/problem.h"
#include "shared/config/value.h"

namespace skep::config {

// Where an item of a list stands; its file is that of the list.
struct Spot {
  std::uint32_t line = 0;  // from 1
  std::uint32_t column = 0;
  std::uint32_t width = 1;
};

struct Entry {
  std::string section;  // "" at the top level
  std::string key;      // "" for the section itself (its header)
  Value value;
  Place key_place;
  Place value_place;
  std::vector<Spot> items = {};  // of a list
};

inline constexpr std::size_t kLargestFile = std::size_t{1} << 20U;

// Every key of `text`; tables of the top level are sections. SKEP-1015 with the place where it
// stops being TOML.
[[nodiscard]] Validated<std::vector<Entry>> ReadToml(std::string_view text,
                                                     const std::string& file);

// A `--set SECTION.KEY=VALUE`, the `number`-th from 1. What is not TOML is taken as a string.
// SKEP-1015 without a "=".
[[nodiscard]] Validated<Entry> ReadSetOption(const std::string& option, std::uint32_t number);

}  // namespace skep::config
