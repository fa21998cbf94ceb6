#include "shared/config/problem.h"

#include <algorithm>

#include <fmt/format.h>

#include "shared/config/utf8.h"

namespace skep::config {
namespace {

// A context line is shown whole up to here; of a longer one only what surrounds the place.
constexpr std::size_t kShownColumns = 160;

struct Excerpt {
  std::string text;
  std::size_t column;  // of the place, within the text
};

// A tab takes one column, as the place counts it; other control characters must not reach the
// terminal.
Excerpt ExcerptOf(const Place& place) {
  std::string line = place.source_line;
  std::replace(line.begin(), line.end(), '\t', ' ');
  const std::vector<std::string> points = CodePoints(Printable(line));
  std::size_t first = 0;
  std::size_t last = points.size();
  if (last > kShownColumns) {
    first = place.column > kShownColumns / 2 ? place.column - kShownColumns / 2 : 0;
    first = std::min(first, last - kShownColumns);
    last = first + kShownColumns;
  }
  Excerpt excerpt{.text = {}, .column = place.column - first};
  for (std::size_t i = first; i < last; ++i) excerpt.text += points[i];
  return excerpt;
}

std::string Suggestion(const Problem& problem) {
  if (!problem.suggestion.empty()) return "did you mean \"" + problem.suggestion + "\"?";
  return problem.hint;
}

std::string Context(const Problem& problem) {
  const Excerpt excerpt = ExcerptOf(problem.place);
  const std::size_t width = CodePoints(excerpt.text).size();
  // A place at the end of a line (a value that is missing) still gets its caret.
  const std::size_t room = width >= excerpt.column ? width - excerpt.column + 1 : 1;
  const std::size_t carets = std::clamp<std::size_t>(problem.place.width, 1, room);
  std::string under = std::string(excerpt.column - 1, ' ') + std::string(carets, '^');
  if (const std::string suggestion = Printable(Suggestion(problem)); !suggestion.empty())
    under += " " + suggestion;
  return fmt::format("{:>5} | {}\n      | {}\n", problem.place.line, excerpt.text, under);
}

std::string ExplainLine(const Problem& problem, const ProblemStyle& style) {
  std::string line = fmt::format("   {} explain SKEP-{}", style.program, problem.code);
  if (!problem.topic.empty()) {
    line += fmt::format("   {}   {} explain {}", style.is_utf8 ? "·" : "-", style.program,
                        problem.topic);
  }
  return line + "\n";
}

void AppendJsonText(std::string& to, std::string_view name, std::string_view text) {
  if (text.empty()) return;
  to += fmt::format(",\"{}\":{}", name, JsonText(text));
}

std::string ProblemAsJson(const Problem& problem) {
  std::string json = fmt::format("{{\"code\":{}", problem.code);
  AppendJsonText(json, "message", problem.message);
  AppendJsonText(json, "hint", problem.hint);
  AppendJsonText(json, "file", problem.place.file);
  if (problem.place.line > 0) {
    json += fmt::format(",\"line\":{},\"column\":{}", problem.place.line, problem.place.column);
  }
  AppendJsonText(json, "suggestion", problem.suggestion);
  return json + "}";
}

}  // namespace

std::string Place::Text() const {
  if (line == 0) return file;
  return fmt::format("{}:{}:{}", file, line, column);
}

std::string FormatProblems(const std::vector<Problem>& problems, const ProblemStyle& style) {
  std::string text;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = problems[i];
    const std::string where = Printable(problem.place.Text());
    text += fmt::format("error[SKEP-{}]: {}{}{}\n", problem.code, where, where.empty() ? "" : ": ",
                        Printable(problem.message));
    if (problem.place.line > 0) {
      text += Context(problem);
    } else if (const std::string suggestion = Printable(Suggestion(problem)); !suggestion.empty()) {
      text += "   " + suggestion + "\n";
    }
    const std::string explanation = ExplainLine(problem, style);
    const bool is_repeated =
        i + 1 < problems.size() && ExplainLine(problems[i + 1], style) == explanation;
    if (!is_repeated) text += explanation;
  }
  return text;
}

std::string FormatNote(const Note& note) {
  const std::string said = Printable(note.text);
  std::string text = note.code == 0 ? "note: " + said + "\n"
                                    : fmt::format("warning[SKEP-{}]: {}\n", note.code, said);
  if (!note.hint.empty()) text += "   " + Printable(note.hint) + "\n";
  return text;
}

std::string ProblemsAsJson(const std::vector<Problem>& problems, int exit_code) {
  std::string json = fmt::format(R"({{"schema":1,"status":"error","exit_code":{},)", exit_code);
  if (problems.size() == 1) return json + "\"error\":" + ProblemAsJson(problems[0]) + "}";
  json += "\"errors\":[";
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i > 0) json += ',';
    json += ProblemAsJson(problems[i]);
  }
  return json + "]}";
}

Error AsError(const std::vector<Problem>& problems) {
  const Problem& first = problems.front();
  const std::string where = first.place.Text();
  return Error{first.code, where.empty() ? first.message : where + ": " + first.message,
               Suggestion(first)};
}

}  // namespace skep::config
