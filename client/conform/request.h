// Request: what `skep-client check` is asked to do, as a value, and its words checked.
//
// Text in, values out: nothing is started here. Source: docs/conformance.md.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace skep::conform {

// What the program promises to keep to; the defaults are the library's.
struct Caps {
  std::uint64_t memory = 256ULL << 20;
  double cpu = 0.7;
  unsigned threads = 1;
  std::uint64_t bytes_per_day = 0;  // 0: not stated
};

struct Request {
  std::string program;
  std::vector<std::string> words;  // its arguments, with {join_file}, {join}, {storage}, {data}
  std::vector<std::string> forget_words;  // the arguments that make it forget; empty: it cannot
  std::string experiment;                 // an experiment.toml of the program's own data, or empty
  std::set<int> only;                     // numbers of checks; empty: all
  Caps caps;
  bool is_nondeterministic = false;  // its trainer gives other bytes each time
  bool trains_on_battery = false;    // it does not ask for a charger
  bool allows_root = false;
};

// "7" or "1,2,20". SKEP-1101 for other text, SKEP-1102 for a number that no check has.
[[nodiscard]] Result<std::set<int>> ParseOnly(std::string_view text, const std::set<int>& known);

// "forget --yes --storage {storage}" as words: split at spaces, without quoting.
[[nodiscard]] std::vector<std::string> SplitWords(std::string_view text);

// Each "{name}" that is known, wherever it stands in a word; others stay as they are.
[[nodiscard]] std::vector<std::string> Fill(std::vector<std::string> words,
                                            const std::map<std::string, std::string>& values);

// Whether a word holds "{name}".
[[nodiscard]] bool Mentions(const std::vector<std::string>& words, std::string_view name);

// The program as a path that holds whatever the folder is: found in PATH if it has no slash.
// SKEP-1102 if there is none that can be executed.
[[nodiscard]] Result<std::string> FindProgram(const std::string& name);
// A program of the project: beside this one, else in PATH. SKEP-1102.
[[nodiscard]] Result<std::string> FindCompanion(const std::string& name);

}  // namespace skep::conform
