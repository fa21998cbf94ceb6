// One value against its row: type, form, range, words. Canonical in, canonical out.
//
// Called by the reader. Any thread.
#pragma once

#include <optional>
#include <string>

#include "shared/config/problem.h"
#include "shared/config/schema.h"

namespace skep::config {

struct ValueCheck {
  int code = 0;  // 0: accepted
  std::string message = {};
  std::string suggestion = {};
  std::string word_alias = {};  // the word as given, where it stood for another one
};

// Checks `value` of `key` and makes it canonical: whole numbers of a number key become numbers,
// durations and sizes take their shortest form, other frameworks' words become ours.
[[nodiscard]] ValueCheck CheckValue(const Key& key, Value& value);

// The default in its canonical form, if the row has one that stands by itself.
[[nodiscard]] std::optional<Value> DefaultValue(const Key& key);

// "a whole number or "all"".
[[nodiscard]] std::string TypeText(const Row& row);

}  // namespace skep::config
