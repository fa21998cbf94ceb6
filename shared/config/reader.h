// Reader: a configuration file and its `--set` options against a schema.
//
// Two steps, because some defaults that conditions look at are derived by the loader of each file
// in between: `ReadConfiguration` finds keys, checks each value by itself and fills in defaults;
// `ApplyConditions` then judges what needs two keys (`excludes`, `only_with`) and what this build
// lacks.
//
// Called by the loaders of this folder. Any thread. Source: docs/reference/configuration.md.
#pragma once

#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/config/effective.h"
#include "shared/config/problem.h"

namespace skep::config {

struct Reading {
  explicit Reading(const Schema& schema)
      : effective(schema), is_faulty(schema.keys().size(), false) {}

  Effective effective;
  std::vector<Problem> problems;
  std::vector<Note> notes;
  std::vector<bool> is_faulty;  // by key: given with a value that was refused
  bool is_readable = true;      // false: not TOML or of another version; nothing else was judged

  // Whether what was said about these keys can be relied on in checks across keys.
  [[nodiscard]] bool IsSound(std::initializer_list<std::string_view> paths) const;
  // Adds a problem at the key or at the value of `path`, or without a place if the user did not
  // give it.
  void AddAtKey(std::string_view path, Problem problem);
  void AddAtValue(std::string_view path, Problem problem);
};

[[nodiscard]] Reading ReadConfiguration(const Schema& schema, const std::string& text,
                                        const std::string& file,
                                        const std::vector<std::string>& sets);
void ApplyConditions(Reading& reading);

// `a` and `b` contradict: 1103 at the later of the two, naming the earlier.
void AddContradiction(Reading& reading, std::string_view a, std::string_view b,
                      std::string_view remedy);
// `path` is above `limit`: at the key `path`, or at `limit` if only that was given.
void AddExcess(Reading& reading, std::string_view path, std::string_view limit, int code = 1103);

// File order: the file from its top, then each --set, then what has no line.
void SortProblems(std::vector<Problem>& problems);

// The text of a configuration file: at most 1 MiB. SKEP-1010 says why it cannot be read, and who
// may.
[[nodiscard]] Validated<std::string> ReadConfigurationFile(const std::string& path);

}  // namespace skep::config
