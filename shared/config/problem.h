// What is wrong with a configuration: problems as values, and how they are shown.
//
// A file is never refused for its first mistake alone: readers collect every problem, in file
// order. Nothing here reads files or writes to a terminal.
//
// Called by the readers of this folder and by the programs that print the outcome. Plain values,
// any thread. Source: docs/reference/configuration.md (form of errors).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"

namespace skep::config {

// A stretch of a configuration file or of a `--set`. Line 0: no place, only a file.
struct Place {
  std::string file;              // as the user gave it, or "--set"
  std::uint32_t line = 0;        // from 1; of "--set": which one
  std::uint32_t column = 0;      // code points, from 1
  std::uint32_t width = 1;       // code points to underline
  std::string source_line = {};  // the text of that line

  [[nodiscard]] bool is_set_option() const { return file == "--set"; }
  // "experiment.toml:18:1", "--set:2:1", "experiment.toml", or "" without a file.
  [[nodiscard]] std::string Text() const;
};

struct Problem {
  int code = 0;  // SKEP-nnnn
  Place place = {};
  std::string message = {};     // what is wrong, without the place
  std::string suggestion = {};  // a name that was perhaps meant, or empty
  std::string hint = {};        // a remedy, or empty; never together with a suggestion
  std::string topic = {};       // what `explain` can say more about (a section), or empty
};

// Something to tell that does not stop anything.
struct Note {
  int code = 0;  // 0: a plain note, else a warning of that number
  std::string text = {};
  std::string hint = {};
};

struct ProblemStyle {
  std::string program;  // "skep-simulator": names the command that explains
  bool is_utf8 = true;  // false: "-" in place of the middle dot
};

// The text for people: each problem with its line, a caret, the suggestion, and the command that
// explains it. Problems in a row with the same explanation share that last line. Ends with a line
// feed unless there are no problems.
[[nodiscard]] std::string FormatProblems(const std::vector<Problem>& problems,
                                         const ProblemStyle& style);
// "note: TEXT" or "warning[SKEP-nnnn]: TEXT", the hint beneath; with a line feed.
[[nodiscard]] std::string FormatNote(const Note& note);
// The object that `--json` prints: {"schema":1,"status":"error","exit_code":2,"error":{...}}, or
// "errors":[...].
[[nodiscard]] std::string ProblemsAsJson(const std::vector<Problem>& problems, int exit_code = 2);

// A value, or every problem that stands in its way (at least one).
template <class T>
class [[nodiscard]] Validated {
 public:
  Validated(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Validated(std::vector<Problem> problems)
      : problems_(std::move(problems)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }

  // Precondition: has_value().
  [[nodiscard]] T& value() & { return value_.value(); }
  [[nodiscard]] const T& value() const& { return value_.value(); }
  [[nodiscard]] T&& value() && { return std::move(value_).value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  std::vector<Problem> problems_;
};

// The first problem with its place, for callers that report a single Error. Precondition: not
// empty.
[[nodiscard]] Error AsError(const std::vector<Problem>& problems);

}  // namespace skep::config
